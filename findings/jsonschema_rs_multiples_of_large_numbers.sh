#!/bin/sh
# Version: jsonschema_rs 0.61.2, beside jsonschema 4.26.0
# Source: its README, "Arbitrary-Precision Numbers": numbers keep their full precision; JSON Schema: a number is valid
#   for `multipleOf` if the division by it results in an integer.
# Behaviour: a float with a fraction counts as the decimal that it prints as (19.99 is a multiple of 0.01), and one
#   without a fraction as its binary value: 1e23 is no multiple of 1e22, nor of 100, as 10 to the 23rd in digits is.
# Output seen:
#   19.99 multipleOf 0.01 jsonschema_rs True jsonschema False
#   1e23 multipleOf 1e22 jsonschema_rs False jsonschema True
#   1e23 multipleOf 100 jsonschema_rs False jsonschema False
#   100000000000000000000000 multipleOf 100 jsonschema_rs True jsonschema True
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile jsonschema_rs==0.61.2 jsonschema==4.26.0
"$folder/venv/bin/python" - <<'PYTHON'
import json

import jsonschema
import jsonschema_rs

CASES = [("19.99", "0.01", True), ("1e23", "1e22", False), ("1e23", "100", False), (f"1{'0' * 23}", "100", True)]
for text, divisor, expected in CASES:
    schema = json.loads(f'{{"multipleOf": {divisor}}}')
    by_rust = jsonschema_rs.validator_for(f'{{"multipleOf": {divisor}}}').is_valid(json.loads(text))
    by_python = jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))
    print(text, "multipleOf", divisor, "jsonschema_rs", by_rust, "jsonschema", by_python)
    assert by_rust is expected
PYTHON
