#!/bin/sh
# Version: z3-solver 5.4.1.0
# Source: Python, C and Z3's own integers have / and % of which (x / y) * y + x % y is x; their docstrings in Z3's Python
#   binding call both signed, and name the unsigned ones.
# Behaviour: on bit-vectors / rounds toward zero, and % has the sign of the divisor as in Python, so the two do not belong
#   together: the solver finds x and y for which the sum is another number. The remainder that fits / is SRem.
# Output seen:
#   -7 / 2 -> -3, -7 % 2 -> 1, together -5
#   SRem(-7, 2) -> -1, together -7
#   another sum: bit-vectors with % sat, with SRem unsat, integers unsat
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile z3-solver==5.4.1.0
"$folder/venv/bin/python" - <<'PYTHON'
from z3 import BitVecs, BitVecVal, Ints, Solver, SRem, simplify


def value(term):
    return simplify(term).as_signed_long()


def differs(x, y, remainder):
    solver = Solver()
    solver.add(y != 0, (x / y) * y + remainder != x)
    return str(solver.check())


seven, two = BitVecVal(-7, 8), BitVecVal(2, 8)
together = [value(seven / two * two + remainder) for remainder in (seven % two, SRem(seven, two))]
print(f"-7 / 2 -> {value(seven / two)}, -7 % 2 -> {value(seven % two)}, together {together[0]}")
print(f"SRem(-7, 2) -> {value(SRem(seven, two))}, together {together[1]}")
x, y = BitVecs("x y", 8)
i, j = Ints("i j")
answers = [differs(x, y, x % y), differs(x, y, SRem(x, y)), differs(i, j, i % j)]
print(f"another sum: bit-vectors with % {answers[0]}, with SRem {answers[1]}, integers {answers[2]}")
assert together == [-5, -7]
assert answers == ["sat", "unsat", "unsat"]
PYTHON
