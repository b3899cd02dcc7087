#!/bin/sh
# Version: currency.js 2.0.4 (npm)
# Source: its own multiply: the charge of 1.005 times -1 is -1.01, the charge with the other sign; and an amount and its
#   opposite add up to nothing.
# Behaviour: a half is rounded away from zero for amounts above it and toward zero for those below, so a refund that is
#   made from the same number is a cent less than the charge: the two leave a cent.
# Output seen:
#   currency(1.005) 1.01, times -1 is -1.01
#   currency(-1.005) -1
#   together 0.01
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund currency.js@2.0.4
cat > "$folder/npm/program.cjs" <<'JAVASCRIPT'
const assert = require("node:assert");
const currency = require("currency.js");

const charge = currency(1.005);
const refund = currency(-1.005);
const together = charge.add(refund);
console.log(`currency(1.005) ${charge.value}, times -1 is ${charge.multiply(-1).value}`);
console.log(`currency(-1.005) ${refund.value}`);
console.log(`together ${together.value}`);
assert.deepEqual([charge.value, charge.multiply(-1).value, refund.value, together.value], [1.01, -1.01, -1, 0.01]);
JAVASCRIPT
node "$folder/npm/program.cjs"
