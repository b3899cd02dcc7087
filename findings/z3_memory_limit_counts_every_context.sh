#!/bin/sh
# Version: z3-solver 5.4.1.0
# Source: Z3's parameter `max_memory`, "maximum amount of memory in megabytes", which can be set for one solver.
# Behaviour: it is compared with what all contexts of the process take. An empty context takes 17 MB, so 70 of them are
#   enough: with a limit of 1,000 MB every question ends at once with an error, though it takes next to nothing itself.
#   With a higher limit it is answered.
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

def answer(megabytes):
    solver = z3.SimpleSolver(ctx=context)
    solver.set(max_memory=megabytes)
    number = z3.Int("number", context)
    solver.add(number * number > 40, number < 9)
    try:
        return str(solver.check())
    except z3.Z3Exception as error:
        return error.value.decode()


alone = answer(1000)
others = [z3.Context() for _ in range(70)]
beside, raised = answer(1000), answer(3000)
print("alone:", alone)
print("beside 70 contexts:", beside)
print("with a higher limit:", raised)
assert (alone, beside, raised) == ("sat", "max. memory exceeded", "sat")
PYTHON
