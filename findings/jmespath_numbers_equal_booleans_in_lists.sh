#!/bin/sh
# Version: jmespath 1.1.0 (PyPI), beside jmespath 0.16.0 (npm)
# Source: the JMESPath specification: numbers and booleans are different types of JSON; == holds for equal values, and
#   contains() where a list has the value. Both libraries are the project's own; both know that 1 is not true.
# Behaviour: in Python 1 and true are equal as soon as they stand inside a list or an object, and for contains(): there
#   Python's own == decides, for which True is 1. So one expression selects other elements in the two languages.
# Output seen:
#   `1` == `true`: Python False, Node false
#   `[1]` == `[true]`: Python True, Node false
#   `{"a": 0}` == `{"a": false}`: Python True, Node false
#   contains(`[1, 2]`, `true`): Python True, Node false
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile jmespath==1.1.0
npm install --prefix "$folder/npm" --silent --no-audit --no-fund jmespath@0.16.0
cat > "$folder/npm/program.cjs" <<'JAVASCRIPT'
const { search } = require("jmespath");
console.log(JSON.stringify(process.argv.slice(2).map((expression) => search({}, expression))));
JAVASCRIPT
"$folder/venv/bin/python" - "$folder/npm/program.cjs" <<'PYTHON'
import json
import subprocess
import sys

import jmespath

expected = {
    "`1` == `true`": False,
    "`[1]` == `[true]`": True,
    '`{"a": 0}` == `{"a": false}`': True,
    "contains(`[1, 2]`, `true`)": True,
}
node = json.loads(subprocess.run(["node", sys.argv[1], *expected], check=True, capture_output=True).stdout)
for expression, other in zip(expected, node, strict=True):
    answer = jmespath.search(expression, {})
    print(f"{expression}: Python {answer}, Node {json.dumps(other)}")
    assert answer is expected[expression]
    assert other is False
PYTHON
