#!/bin/sh
# Version: fhirpathpy 2.2.4
# Source: the FHIRPath specification: power() is empty only if the result cannot be represented, as for -1 power 0.5;
#   round() rounds 0.5 and higher to 1; toString() of a boolean is 'true' or 'false'; 1.0 is a Decimal.
# Behaviour: power() of a negative base is empty for whole exponents, too; 2.5 rounds to the even 2, as in Python; the
#   text of a boolean is Python's; and a decimal literal is not a Decimal. None of them raises.
# Output seen:
#   (-5).power(2) -> []
#   5.power(2) -> [25]
#   1.5.round(0) -> [2]
#   2.5.round(0) -> [2]
#   true.toString() -> ['True']
#   true.toString() = 'true' -> [False]
#   1.0 is Decimal -> [False]
#   1 is Integer -> [True]
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile fhirpathpy==2.2.4
"$folder/venv/bin/python" - <<'PYTHON'
from decimal import Decimal

from fhirpathpy import evaluate

SEEN = {
    "(-5).power(2)": [],
    "5.power(2)": [25],
    "1.5.round(0)": [2],
    "2.5.round(0)": [2],
    "true.toString()": ["True"],
    "true.toString() = 'true'": [False],
    "1.0 is Decimal": [False],
    "1 is Integer": [True],
}
for expression, values in SEEN.items():
    answer = [int(value) if isinstance(value, Decimal) else value for value in evaluate({}, expression)]
    print(expression, "->", answer)
    assert answer == values, expression
PYTHON
