#!/bin/sh
# Version: fhirpath 5.2.2 (npm), beside fhirpathpy 2.2.4
# Source: the FHIRPath specification: replace(pattern, substitution) puts the text of the substitution in the place of
#   each instance of the pattern; only replaceMatches has a substitution that refers to parts of the match.
# Behaviour: replace reads the substitution as a template of JavaScript: $$ becomes $, $& the text that was found, and
#   $' all that follows it. fhirpathpy, its port, puts the text.
# Output seen:
#   fhirpath 'cost: X'.replace('X', '$$5') -> cost: $5
#   fhirpath 'a X b'.replace('X', '$&Y') -> a XY b
#   fhirpath 'to X.'.replace('X', '10$`') -> to 10to .
#   fhirpathpy ['cost: $$5', 'a $&Y b', 'to 10$`.']
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile fhirpathpy==2.2.4
npm install --prefix "$folder/npm" --silent --no-audit --no-fund fhirpath@5.2.2
cat > "$folder/npm/program.cjs" <<'JAVASCRIPT'
const assert = require("assert");
const fhirpath = require("fhirpath");

const seen = {
  "'cost: X'.replace('X', '$$5')": "cost: $5",
  "'a X b'.replace('X', '$&Y')": "a XY b",
  "'to X.'.replace('X', '10$`')": "to 10to .",
};
for (const [expression, value] of Object.entries(seen)) {
  const answer = fhirpath.evaluate({}, expression)[0];
  console.log("fhirpath", expression, "->", answer);
  assert.strictEqual(answer, value);
}
JAVASCRIPT
node "$folder/npm/program.cjs"
"$folder/venv/bin/python" - <<'PYTHON'
from fhirpathpy import evaluate

EXPRESSIONS = ["'cost: X'.replace('X', '$$5')", "'a X b'.replace('X', '$&Y')", "'to X.'.replace('X', '10$`')"]
answers = [evaluate({}, expression)[0] for expression in EXPRESSIONS]
print("fhirpathpy", answers)
assert answers == ["cost: $$5", "a $&Y b", "to 10$`."]
PYTHON
