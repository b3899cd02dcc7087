#!/bin/sh
# Version: rtamt 0.4.10
# Source: the README, "Past untimed temporal operators": the robustness of `prev phi` at time 0 is -inf (violated).
# Behaviour: it is +inf (satisfied), offline and online; `once[1:1](phi)`, which means the same in discrete time, is
#   -inf there as written.
# Output seen:
#   prev offline [inf, 1.0, 2.0] online [inf, 1.0, 2.0]
#   once[1:1] offline [-inf, 1.0, 2.0]
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile rtamt==0.4.10
"$folder/venv/bin/python" - <<'PYTHON'
import rtamt


def monitor(formula):
    specification = rtamt.StlDiscreteTimeSpecification()
    specification.declare_var("x", "float")
    specification.declare_var("out", "float")
    specification.spec = "out = " + formula
    specification.parse()
    return specification


SAMPLES = [1.0, 2.0, -1.0]
trace = {"time": [0, 1, 2], "x": SAMPLES}
offline = [value for _, value in monitor("prev(x > 0)").evaluate(trace)]
stepwise = monitor("prev(x > 0)")
online = [stepwise.update(time, [("x", value)]) for time, value in enumerate(SAMPLES)]
once = [value for _, value in monitor("once[1:1](x > 0)").evaluate(trace)]
print("prev offline", offline, "online", online)
print("once[1:1] offline", once)
assert offline[0] == online[0] == float("inf")
assert once[0] == float("-inf")
PYTHON
