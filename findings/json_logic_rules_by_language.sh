#!/bin/sh
# Version: panzi-json-logic 1.0.1 and jsonlogic-rs 0.5.0 (PyPI), beside json-logic-js 2.0.5 (npm)
# Source: jsonlogic.com, to which all three point: a rule is written once and means the same in every language.
#   panzi-json-logic emulates the operators of JavaScript, and its README knows of one difference, in substr.
# Behaviour: in panzi-json-logic null == 0, and a remainder has the sign of the divisor; in jsonlogic-rs a field that is
#   empty or null is not missing, and a list of 1.0 does not have 1.
# Output seen:
#   {"==": [null, 0]} on {}: panzi True, rs False, js False
#   {"%": [-7, 3]} on {}: panzi 2, rs -1, js -1
#   {"missing": ["name"]} on {"name": ""}: panzi ['name'], rs [], js ['name']
#   {"in": [1, [1.0]]} on {}: panzi True, rs False, js True
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile panzi-json-logic==1.0.1 jsonlogic-rs==0.5.0
npm install --prefix "$folder/npm" --silent --no-audit --no-fund json-logic-js@2.0.5
cat > "$folder/npm/program.cjs" <<'JAVASCRIPT'
const { apply } = require("json-logic-js");
console.log(JSON.stringify(JSON.parse(process.argv[2]).map(([rule, data]) => apply(rule, data))));
JAVASCRIPT
"$folder/venv/bin/python" - "$folder/npm/program.cjs" <<'PYTHON'
import json
import subprocess
import sys

import jsonlogic_rs
from json_logic import jsonLogic

cases = [
    ({"==": [None, 0]}, {}, [True, False, False]),
    ({"%": [-7, 3]}, {}, [2, -1, -1]),
    ({"missing": ["name"]}, {"name": ""}, [["name"], [], ["name"]]),
    ({"in": [1, [1.0]]}, {}, [True, False, True]),
]
text = json.dumps([case[:2] for case in cases])
node = json.loads(subprocess.run(["node", sys.argv[1], text], check=True, capture_output=True).stdout)
for (rule, data, expected), js in zip(cases, node, strict=True):
    answers = [jsonLogic(rule, data), jsonlogic_rs.apply(rule, data), js]
    print(f"{json.dumps(rule)} on {json.dumps(data)}: panzi {answers[0]}, rs {answers[1]}, js {answers[2]}")
    assert answers == expected
PYTHON
