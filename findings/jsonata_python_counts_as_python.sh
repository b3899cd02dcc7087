#!/bin/sh
# Version: jsonata-python 0.7.1, beside jsonata 2.2.2 (npm)
# Source: the README: a port of JSONata's reference implementation that supports the whole language, for whose functions it
#   points to JSONata's documentation. The reference implementation is the other library.
# Behaviour: the remainder loses its fraction, $distinct() takes true for a duplicate of 1, and $formatNumber() rounds a
#   half away from zero, though $round(2.5) is 2 in both.
# Output seen:
#   -7.5 % 2: Python -1, Node -1.5
#   $distinct([1, true, 0, false]): Python [1, 0], Node [1,true,0,false]
#   $formatNumber(2.5, '0'): Python 3, Node 2
#   $round(2.5): Python 2, Node 2
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile jsonata-python==0.7.1
npm install --prefix "$folder/npm" --silent --no-audit --no-fund jsonata@2.2.2
cat > "$folder/npm/program.cjs" <<'JAVASCRIPT'
const jsonata = require("jsonata");
(async () => {
  const values = [];
  for (const expression of process.argv.slice(2)) values.push(await jsonata(expression).evaluate({}));
  console.log(JSON.stringify(values));
})();
JAVASCRIPT
"$folder/venv/bin/python" - "$folder/npm/program.cjs" <<'PYTHON'
import json
import subprocess
import sys

from jsonata import Jsonata

expected = {
    "-7.5 % 2": ("-1", "-1.5"),
    "$distinct([1, true, 0, false])": ("[1, 0]", "[1,true,0,false]"),
    "$formatNumber(2.5, '0')": ("3", "2"),
    "$round(2.5)": ("2", "2"),
}
run = subprocess.run(["node", sys.argv[1], *expected], check=True, capture_output=True)
for (expression, (seen, other)), value in zip(expected.items(), json.loads(run.stdout), strict=True):
    python = str(Jsonata(expression).evaluate({}))
    node = json.dumps(value, separators=(",", ":")).strip('"')
    print(f"{expression}: Python {python}, Node {node}")
    assert (python, node) == (seen, other)
PYTHON
