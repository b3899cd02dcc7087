#!/bin/sh
# Version: fhirpath 5.2.2 (npm) and fhirpathpy 2.2.4, beside fhirpathrs 0.1.5
# Source: the FHIRPath specification, ~ (Equivalent): for collections of several items, each item has an equivalent one,
#   and the comparison does not depend on the order. (= does.)
# Behaviour: for fhirpath and fhirpathpy ~ depends on the order as = does, so a patient whose given names stand in
#   another order is another one; ~ only forgives the case of letters. fhirpathrs follows the specification.
# Output seen:
#   fhirpath Patient.name.given ~ ('ann' | 'Mary') true ~ ('Mary' | 'Ann') false
#   fhirpathpy (1 | 2) ~ (1 | 2) True (1 | 2) ~ (2 | 1) False
#   fhirpathrs (1 | 2) ~ (1 | 2) True (1 | 2) ~ (2 | 1) True
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile fhirpathpy==2.2.4 fhirpathrs==0.1.5
npm install --prefix "$folder/npm" --silent --no-audit --no-fund fhirpath@5.2.2
cat > "$folder/npm/program.cjs" <<'JAVASCRIPT'
const assert = require("assert");
const fhirpath = require("fhirpath");

const patient = { resourceType: "Patient", name: [{ given: ["Ann", "Mary"] }] };
const [same, other] = ["('ann' | 'Mary')", "('Mary' | 'Ann')"].map(
  (names) => fhirpath.evaluate(patient, `Patient.name.given ~ ${names}`)[0],
);
console.log("fhirpath Patient.name.given ~ ('ann' | 'Mary')", same, "~ ('Mary' | 'Ann')", other);
assert.deepStrictEqual([same, other], [true, false]);
JAVASCRIPT
node "$folder/npm/program.cjs"
"$folder/venv/bin/python" - <<'PYTHON'
import fhirpathpy
import fhirpathrs

SAME, OTHER = "(1 | 2) ~ (1 | 2)", "(1 | 2) ~ (2 | 1)"
python = [fhirpathpy.evaluate({}, text)[0] for text in (SAME, OTHER)]
rust = [fhirpathrs.evaluate(text, {"resourceType": "Patient"}) for text in (SAME, OTHER)]
print("fhirpathpy", SAME, python[0], OTHER, python[1])
print("fhirpathrs", SAME, rust[0], OTHER, rust[1])
assert python == [True, False]
assert rust == [True, True]
PYTHON
