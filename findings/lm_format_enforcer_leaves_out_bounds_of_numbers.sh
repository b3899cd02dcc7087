#!/bin/sh
# Version: lm-format-enforcer 0.11.3, beside jsonschema 4.26.0
# Source: the README: only tokens that keep the output in the format, a JSON schema, are allowed; its "Known issues and
#   limitations" say nothing of keywords. The length of strings and arrays is kept.
# Behaviour: minimum, uniqueItems and prefixItems are left out without a warning, so a model may write what the schema
#   forbids; patternProperties are, too, together with the ban on other properties beside them.
# Output seen:
#   {"type": "string", "minLength": 2} "a" may be written: False
#   {"type": "integer", "minimum": 3} 2 may be written: True
#   {"type": "array", "items": {"type": "integer"}, "uniqueItems": true} [1, 1] may be written: True
#   {"type": "array", "prefixItems": [{"type": "integer"}]} ["a"] may be written: True
#   {"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": false} {"y": 1} may be written: True
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile lm-format-enforcer==0.11.3 jsonschema==4.26.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import json

from jsonschema import Draft202012Validator
from lmformatenforcer import JsonSchemaParser


def may_be_written(schema, text):
    parser = JsonSchemaParser(schema)
    for character in text:
        if character not in parser.get_allowed_characters():
            return False
        parser = parser.add_character(character)
    return parser.can_end()


CASES = [
    ({"type": "string", "minLength": 2}, "a", False),
    ({"type": "integer", "minimum": 3}, 2, True),
    ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [1, 1], True),
    ({"type": "array", "prefixItems": [{"type": "integer"}]}, ["a"], True),
    ({"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": False}, {"y": 1}, True),
]
for schema, value, expected in CASES:
    assert not Draft202012Validator(schema).is_valid(value)
    answer = may_be_written(schema, json.dumps(value))
    print(json.dumps(schema), json.dumps(value), "may be written:", answer)
    assert answer == expected
PYTHON
