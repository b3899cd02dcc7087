#!/bin/sh
# Version: reelay 25.0.0
# Source: the package's page on its formulas: once[a:b] holds if the operand held between b and a time units ago; so
#   once[0:0] p is p itself, as once[1:1] p is the p of one step ago.
# Behaviour: in monitors over discrete time [0:0] is read as no bound: once[0:0] p stays true after the first p, and
#   historically[0:0] p false after the first step without. Other bounds hold, [0:1] and [1:1] among them.
# Output seen:
#   p: [False, True, False, True]
#   once[0:0] {p}: [False, True, True, True]
#   historically[0:0] {p}: [False, False, False, False]
#   once[1:1] {p}: [False, False, True, False]
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile reelay==25.0.0
"$folder/venv/bin/python" - <<'PYTHON'
import reelay

values = [False, True, False, True]
seen = {}
print("p:", values)
for pattern in ("once[0:0] {p}", "historically[0:0] {p}", "once[1:1] {p}"):
    monitor = reelay.discrete_timed_monitor(pattern=pattern, semantics="boolean", condense=False)
    answers = [monitor.update({"p": value}) for value in values]
    seen[pattern] = [each["value"] for answer in answers for each in (answer if isinstance(answer, list) else [answer])]
    print(f"{pattern}: {seen[pattern]}")
assert seen["once[0:0] {p}"] == [False, True, True, True]
assert seen["historically[0:0] {p}"] == [False] * 4
assert seen["once[1:1] {p}"] == [False, False, True, False]
PYTHON
