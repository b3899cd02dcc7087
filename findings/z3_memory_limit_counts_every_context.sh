#!/bin/sh
# Version: z3-solver 5.4.1.0
# Source: Z3's parameter `max_memory`, "maximum amount of memory in megabytes", which can be set for one solver.
# Behaviour: it is compared with what all contexts of the process take. An empty context takes 17 MB, so 70 of them are
#   enough: with a limit of 1,000 MB every question ends at once with an error, though it takes next to nothing itself.
#   The same solver decides it if the limit is raised.
# Output seen:
#   a context takes 17 MB
#   alone: sat
#   beside 70 contexts: max. memory exceeded
#   with a higher limit: sat
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile z3-solver==5.4.1.0
"$folder/venv/bin/python" - <<'PYTHON'
import z3

before = z3.Z3_get_estimated_alloc_size()
context = z3.Context()
size = (z3.Z3_get_estimated_alloc_size() - before) / 1e6
print(f"a context takes {size:.0f} MB")
assert 10 < size < 30

number = z3.Int("number", context)
solver = z3.SimpleSolver(ctx=context)
solver.set(max_memory=1000)
solver.add(number * number > 40, number < 9)
print("alone:", solver.check())
assert solver.check() == z3.sat

others = [z3.Context() for _ in range(70)]
try:
    problem = str(solver.check())
except z3.Z3Exception as error:
    problem = error.value.decode()
print("beside 70 contexts:", problem)
assert problem == "max. memory exceeded"

solver.set(max_memory=3000)
print("with a higher limit:", solver.check())
assert solver.check() == z3.sat
PYTHON
