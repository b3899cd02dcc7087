#!/bin/sh
# Version: pydantic-monty 1.4.0
# Source: its docs/limitations/builtins.md: `round(n, ndigits)` of floats matches CPython, apart from the clamped range
#   of `ndigits`.
# Behaviour: Monty scales the number first, so that it often rounds a number just below a half up and one just above it
#   down; CPython rounds the exact value of the float. Of 100,000 numbers with three digits, 4 in 100 differ.
# Output seen:
#   2.675 Monty 2.68 CPython 2.67
#   1.115 Monty 1.12 CPython 1.11
#   342.245 Monty 342.24 CPython 342.25
#   2.5 Monty 2.5 CPython 2.5
#   4227 of 100000 differ
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile pydantic-monty==1.4.0
"$folder/venv/bin/python" - <<'PYTHON'
import pydantic_monty as monty

CASES = {2.675: 2.68, 1.115: 1.12, 342.245: 342.24, 2.5: 2.5}
PROGRAM = "[round(number, 2) for number in numbers]"
numbers = [*CASES, *(part / 1000 for part in range(100_000))]
with monty.Monty() as pool, pool.checkout() as session:
    rounded = session.feed_run(PROGRAM, inputs={"numbers": numbers})
for number, seen, expected in zip(numbers, rounded, CASES.values()):
    print(number, "Monty", seen, "CPython", round(number, 2))
    assert seen == expected
different = sum(seen != round(number, 2) for number, seen in zip(numbers[4:], rounded[4:]))
print(different, "of 100000 differ")
assert 1000 < different < 10_000
PYTHON
