#!/bin/sh
# Version: @medplum/core 4.5.2 (npm), beside fhirpath 5.2.2 (npm)
# Source: the FHIRPath specification, date and time arithmetic: a date plus a quantity of time is a later date, and minus
#   one an earlier date. evalFhirPath of @medplum/core evaluates FHIRPath, with which FHIR states its own invariants.
# Behaviour: + writes the number of the quantity behind the text of the date, with no regard to its unit, and - is not a
#   number. Such a text still compares, so a condition on ages or deadlines has an answer.
# Output seen:
#   @2024-01-31 + 1 month -> medplum 2024-01-311, fhirpath 2024-02-29
#   @2024-01-31 + 3 days -> medplum 2024-01-313, fhirpath 2024-02-03
#   @2024-01-31 - 1 year -> medplum null, fhirpath 2023-01-31
#   @2024-01-31 + 3 days > @2024-02-01 -> medplum false, fhirpath true
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund @medplum/core@4.5.2 fhirpath@5.2.2
cat > "$folder/npm/program.mjs" <<'JAVASCRIPT'
import assert from "node:assert";
import { evalFhirPath } from "@medplum/core";
import fhirpath from "fhirpath";

const cases = [
  ["@2024-01-31 + 1 month", "2024-01-311", "2024-02-29"],
  ["@2024-01-31 + 3 days", "2024-01-313", "2024-02-03"],
  ["@2024-01-31 - 1 year", "null", "2023-01-31"],
  ["@2024-01-31 + 3 days > @2024-02-01", "false", "true"],
];
const text = ([value]) => JSON.stringify(value).replaceAll('"', "");
for (const [expression, seen, expected] of cases) {
  const medplum = text(evalFhirPath(expression, {}));
  const other = text(fhirpath.evaluate({}, expression));
  console.log(`${expression} -> medplum ${medplum}, fhirpath ${other}`);
  assert.equal(medplum, seen);
  assert.equal(other, expected);
}
JAVASCRIPT
node "$folder/npm/program.mjs"
