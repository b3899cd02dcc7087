#!/bin/sh
# Version: outlines_core 0.2.14, beside jsonschema 4.26.0
# Source: JSON Schema, allOf: an instance is valid if it is valid against each of the schemas. The README of
#   outlines_core: it builds regular expressions from JSON schemas, for text that follows them.
# Behaviour: the expressions of the schemas are put one behind the other. A value that the schema allows does not match,
#   and what matches is two values in a row: no JSON. A keyword that the library does not know, such as not, is an
#   error.
# Output seen:
#   expression: \{[ ]?"size"[ ]?:[ ]?(("S"|"M")"M")[ ]?\}
#   {"size": "M"} valid: True matches: False
#   {"size": "S""M"} valid: no JSON matches: True
#   not: ValueError
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile outlines_core==0.2.14 jsonschema==4.26.0
"$folder/venv/bin/python" - <<'PYTHON'
import json
import re

from jsonschema import Draft202012Validator
from outlines_core.json_schema import build_regex_from_schema

size = {"allOf": [{"enum": ["S", "M"]}, {"const": "M"}]}
schema = {"type": "object", "properties": {"size": size}, "required": ["size"]}
expression = build_regex_from_schema(json.dumps(schema))
print("expression:", expression)


def judge(text):
    try:
        valid = Draft202012Validator(schema).is_valid(json.loads(text))
    except ValueError:
        valid = "no JSON"
    matches = re.fullmatch(expression, text) is not None
    print(text, "valid:", valid, "matches:", matches)
    return valid, matches


assert judge('{"size": "M"}') == (True, False)
assert judge('{"size": "S""M"}') == ("no JSON", True)
try:
    build_regex_from_schema('{"not": {"type": "integer"}}')
except ValueError as error:
    print("not:", type(error).__name__)
else:
    raise AssertionError("not is accepted")
PYTHON
