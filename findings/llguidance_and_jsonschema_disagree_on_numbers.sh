#!/bin/sh
# Version: llguidance 1.9.1, beside jsonschema 4.26.0
# Source: llguidance's docs/json_schema.md: a grammar conforms to JSON Schema or is an error; the departures that it
#   lists are the order of properties and `format`. JSON Schema compares numbers by value.
# Behaviour: with a bound, llguidance takes no exponent and no -0, though it takes both without one; jsonschema
#   denies 0.3 as a multiple of 0.1, which llguidance lets a model write.
# Output seen:
#   {"type": "number"} 1e1 llguidance True jsonschema True
#   {"type": "number", "maximum": 10} 1e1 llguidance False jsonschema True
#   {"type": "number", "minimum": 0} -0 llguidance False jsonschema True
#   {"type": "number", "multipleOf": 0.1} 0.3 llguidance True jsonschema False
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile llguidance==1.9.1 jsonschema==4.26.0
"$folder/venv/bin/python" - <<'PYTHON'
import json

from jsonschema import Draft202012Validator
from llguidance import LLMatcher, LLTokenizer

TOKENIZER = LLTokenizer("byte")
CASES = [
    ({"type": "number"}, "1e1", True, True),
    ({"type": "number", "maximum": 10}, "1e1", False, True),
    ({"type": "number", "minimum": 0}, "-0", False, True),
    ({"type": "number", "multipleOf": 0.1}, "0.3", True, False),
]
for schema, text, by_grammar, by_value in CASES:
    matcher = LLMatcher(TOKENIZER, LLMatcher.grammar_from_json_schema(json.dumps(schema)))
    assert not matcher.is_error(), matcher.get_error()
    tokens = TOKENIZER.tokenize_str(text)
    accepted = matcher.validate_tokens(tokens) == len(tokens)
    valid = Draft202012Validator(schema).is_valid(json.loads(text))
    print(json.dumps(schema), text, "llguidance", accepted, "jsonschema", valid)
    assert (accepted, valid) == (by_grammar, by_value)
PYTHON
