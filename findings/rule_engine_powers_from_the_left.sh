#!/bin/sh
# Version: rule-engine 5.1.0
# Source: the README: the syntax is most similar to Python. In Python a ** b ** c is a ** (b ** c), and 2 ** 3 ** 2 is 512.
#   Its own == tells a boolean from a number, which Python's does not.
# Behaviour: a power of a power is read from the left, so the same text is 64. And what == tells apart, `in` does not, nor
#   == of lists: true is in a list of 1, and not equal to the 1 there.
# Output seen:
#   2 ** 3 ** 2 -> 64
#   flag == 1 -> False
#   flag in [1] -> True
#   [flag] == [1] -> True
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile rule-engine==5.1.0
"$folder/venv/bin/python" - <<'PYTHON'
from rule_engine import Rule

for expression, expected in {"2 ** 3 ** 2": 64, "flag == 1": False, "flag in [1]": True, "[flag] == [1]": True}.items():
    value = Rule(expression).evaluate({"flag": True})
    print(expression, "->", value)
    assert value == expected
PYTHON
