#!/bin/sh
# Version: @medplum/core 4.5.2 (npm), beside fhirpath 5.2.2 (npm)
# Source: the FHIRPath specification, comparison and equality of quantities: units of one dimension are converted, and
#   those of two do not agree. fhirpath answers so.
# Behaviour: the numbers are compared and added, and the units are not looked at, so that a kilogram is less than 500
#   grams, a metre equals a second, and one gram and one milligram are two grams. A Quantity of a resource (here of 4 g) is
#   no other.
# Output seen:
#   1 'kg' > 500 'g' -> medplum false, fhirpath true
#   1 'm' = 1 's' -> medplum true, fhirpath false
#   1 'g' + 1 'mg' = 2 'g' -> medplum true, fhirpath false
#   Observation.value > 400 'mg' -> medplum false, fhirpath true
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund @medplum/core@4.5.2 fhirpath@5.2.2
cat > "$folder/npm/program.mjs" <<'JAVASCRIPT'
import assert from "node:assert";
import { evalFhirPath } from "@medplum/core";
import fhirpath from "fhirpath";
import r4 from "fhirpath/fhir-context/r4/index.js";

const valueQuantity = { value: 4, unit: "g", system: "http://unitsofmeasure.org", code: "g" };
const observation = { resourceType: "Observation", status: "final", code: {}, valueQuantity };
const cases = [
  ["1 'kg' > 500 'g'", false, true],
  ["1 'm' = 1 's'", true, false],
  ["1 'g' + 1 'mg' = 2 'g'", true, false],
  ["Observation.value > 400 'mg'", false, true],
];
for (const [expression, seen, expected] of cases) {
  const [medplum] = evalFhirPath(expression, observation);
  const [other] = fhirpath.evaluate(observation, expression, {}, r4);
  console.log(`${expression} -> medplum ${medplum}, fhirpath ${other}`);
  assert.strictEqual(medplum, seen);
  assert.strictEqual(other, expected);
}
JAVASCRIPT
node "$folder/npm/program.mjs"
