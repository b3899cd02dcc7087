#!/bin/sh
# Version: fhirpathpy 2.2.4, beside fhirpath 5.2.2 (npm)
# Source: the FHIRPath specification, toDate(): a text of the format YYYY-MM-DD is converted, and a partial one such as
#   '2012-01' gives a partial date, @2012-01.
# Behaviour: the day is filled from the day of the run: '2012-01' becomes the day of today in January 2012, as a time at
#   midnight. The same data give other dates on other days; a year keeps its precision. fhirpath, in JavaScript, keeps
#   the month, too.
# Output seen (on the 30th of a month):
#   fhirpathpy '2012' 2012 '2012-01' 2012-01-30T00:00:00
#   fhirpath '2012' 2012 '2012-01' 2012-01
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile fhirpathpy==2.2.4
npm install --prefix "$folder/npm" --silent --no-audit --no-fund fhirpath@5.2.2
"$folder/venv/bin/python" - <<'PYTHON'
from datetime import date

from fhirpathpy import evaluate

today = date.today()
year, month = (str(evaluate({}, f"'{text}'.toDate()")[0]) for text in ("2012", "2012-01"))
print("fhirpathpy '2012'", year, "'2012-01'", month)
assert (year, month) == ("2012", f"2012-01-{today:%d}T00:00:00")
PYTHON
cat > "$folder/npm/program.cjs" <<'JAVASCRIPT'
const assert = require("assert");
const fhirpath = require("fhirpath");

const [year, month] = ["2012", "2012-01"].map((text) => String(fhirpath.evaluate({}, `'${text}'.toDate()`)[0]));
console.log("fhirpath '2012'", year, "'2012-01'", month);
assert.deepStrictEqual([year, month], ["2012", "2012-01"]);
JAVASCRIPT
node "$folder/npm/program.cjs"
