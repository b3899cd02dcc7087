#!/bin/sh
# Version: ajv 8.20.0 (npm), beside @cfworker/json-schema 4.1.6 (npm) and jsonschema 4.26.0 (PyPI)
# Source: JSON Schema 2020-12, contains and unevaluatedItems: contains evaluates the items that it matches, and with
#   unevaluatedItems false there may be no others. The two other validators read it so.
# Behaviour: for Ajv's class for 2020-12, contains evaluates every item, so that unevaluatedItems forbids nothing beside
#   it: what is not the string that contains asks for passes. Without contains, or with prefixItems, it forbids.
# Output seen (of ["a", 1]):
#   {"contains":{"type":"string"},"unevaluatedItems":false} ajv true, cfworker false, jsonschema False
#   {"prefixItems":[true],"unevaluatedItems":false} ajv false, cfworker false, jsonschema False
#   {"unevaluatedItems":false} ajv false, cfworker false, jsonschema False
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund ajv@8.20.0 @cfworker/json-schema@4.1.6
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile jsonschema==4.26.0
cat > "$folder/npm/program.mjs" <<'JAVASCRIPT'
import { Validator } from "@cfworker/json-schema";
import { Ajv2020 } from "ajv/dist/2020.js";

const [schemas, value] = JSON.parse(process.argv[2]);
const ajv = new Ajv2020({ strict: false });
console.log(JSON.stringify(schemas.map((s) => [ajv.validate(s, value), new Validator(s, "2020-12").validate(value).valid])));
JAVASCRIPT
"$folder/venv/bin/python" - "$folder/npm/program.mjs" <<'PYTHON'
import json
import subprocess
import sys

from jsonschema import Draft202012Validator

VALUE = ["a", 1]
schemas = [
    {"contains": {"type": "string"}, "unevaluatedItems": False},
    {"prefixItems": [True], "unevaluatedItems": False},
    {"unevaluatedItems": False},
]
run = subprocess.run(["node", sys.argv[1], json.dumps([schemas, VALUE])], check=True, capture_output=True)
for schema, (ajv, cfworker) in zip(schemas, json.loads(run.stdout), strict=True):
    other = Draft202012Validator(schema).is_valid(VALUE)
    text = json.dumps(schema, separators=(",", ":"))
    print(f"{text} ajv {json.dumps(ajv)}, cfworker {json.dumps(cfworker)}, jsonschema {other}")
    assert ajv is ("contains" in schema)
    assert cfworker is other is False
PYTHON
