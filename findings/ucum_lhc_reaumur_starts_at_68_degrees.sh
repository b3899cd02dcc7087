#!/bin/sh
# Version: @lhncbc/ucum-lhc 7.1.10 (npm), beside ucumvert 0.3.2 (PyPI)
# Source: UCUM's own table (ucum-essence.xml, which ucumvert ships): a degree Réaumur, [degRe], is a special unit of 5/4
#   kelvin. Water freezes at 0 degrees Réaumur, as at 0 degrees Celsius, and boils at 80.
# Behaviour: ucum-lhc multiplies the zero of the scale, too: 0 degrees Réaumur are 68.3 degrees Celsius, and the way back
#   is off likewise. Fahrenheit is right.
# Output seen:
#   ucum-lhc 0 [degRe] = 68.3 Cel, 80 [degRe] = 168.3 Cel, 0 Cel = -54.6 [degRe], 212 [degF] = 100.0 Cel
#   ucumvert 0 [degRe] = 0.0 Cel, 80 [degRe] = 100.0 Cel
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund @lhncbc/ucum-lhc@7.1.10
cat > "$folder/npm/program.cjs" <<'JAVASCRIPT'
const assert = require("node:assert");
const units = require("@lhncbc/ucum-lhc").UcumLhcUtils.getInstance();

const cases = [
  [0, "[degRe]", "Cel", "68.3"],
  [80, "[degRe]", "Cel", "168.3"],
  [0, "Cel", "[degRe]", "-54.6"],
  [212, "[degF]", "Cel", "100.0"],
];
const lines = cases.map(([value, from, to, expected]) => {
  const { status, toVal } = units.convertUnitTo(from, value, to);
  assert.equal(status, "succeeded");
  assert.equal(toVal.toFixed(1), expected);
  return `${value} ${from} = ${toVal.toFixed(1)} ${to}`;
});
console.log("ucum-lhc", lines.join(", "));
JAVASCRIPT
node "$folder/npm/program.cjs"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile ucumvert==0.3.2 pint==0.25.3
"$folder/venv/bin/python" - <<'PYTHON'
from ucumvert import PintUcumRegistry

units = PintUcumRegistry()
reaumur, celsius = units.from_ucum("[degRe]").units, units.from_ucum("Cel").units
values = [round(units.Quantity(value, reaumur).to(celsius).magnitude, 1) for value in (0, 80)]
print(f"ucumvert 0 [degRe] = {values[0]} Cel, 80 [degRe] = {values[1]} Cel")
assert values == [0, 100]
PYTHON
