#!/bin/sh
# Version: metric-temporal-logic 0.4.1
# Source: Alur and Henzinger, Real-Time Logics: Complexity and Expressiveness (1993): F with the interval [2,2] holds if
#   the operand holds exactly two units later. The package's page has F and G with closed intervals, and cites them.
# Behaviour: with equal ends F[a,a] p and G[a,a] p are p at the present time, for every a. With other ends the upper one
#   does not belong to the interval: G[1,3] p does not look at 3.
# Output seen:
#   p over time 0 to 4: [False, True, True, False, True]
#   F[2,2]p at 0: False
#   G[3,3]p at 1: True
#   G[1,3]p at 0: True
#   G[1,4]p at 0: False
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile metric-temporal-logic==0.4.1 'setuptools<81'
"$folder/venv/bin/python" - <<'PYTHON'
import mtl

values = [False, True, True, False, True]
print("p over time 0 to 4:", values)
for formula, at, seen in (("F[2,2]p", 0, False), ("G[3,3]p", 1, True), ("G[1,3]p", 0, True), ("G[1,4]p", 0, False)):
    answer = mtl.parse(formula)({"p": list(enumerate(values))}, time=at, quantitative=False, dt=1)
    print(f"{formula} at {at}: {answer}")
    assert answer == seen
PYTHON
