#!/bin/sh
# Version: currency.js 2.0.4 (npm)
# Source: currency takes a number or its text, and the option errorOnInvalid makes what is no amount an error. 1e3 is a
#   number in JavaScript and JSON, and 1e+21 is how JavaScript itself writes the number as a text.
# Behaviour: the letter is left out of the text and the digits beside it are put together: "1e3" is 13, and the text of a
#   large number becomes a small one. errorOnInvalid refuses none of them, nor a word, which is 0; it is for null.
# Output seen:
#   currency(1e3) 1000, currency("1e3") 13
#   currency("1.5e2") 1.52
#   currency(String(1e21)) 121
#   with errorOnInvalid: "1e3" 13, "ten" 0, null Invalid Input
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund currency.js@2.0.4
cat > "$folder/npm/program.cjs" <<'JAVASCRIPT'
const assert = require("node:assert");
const currency = require("currency.js");

const strict = (text) => currency(text, { errorOnInvalid: true }).value;
let message;
try {
  strict(null);
} catch (error) {
  message = error.message;
}
const values = [currency(1e3), currency("1e3"), currency("1.5e2"), currency(String(1e21))].map(({ value }) => value);
console.log(`currency(1e3) ${values[0]}, currency("1e3") ${values[1]}`);
console.log(`currency("1.5e2") ${values[2]}`);
console.log(`currency(String(1e21)) ${values[3]}`);
console.log(`with errorOnInvalid: "1e3" ${strict("1e3")}, "ten" ${strict("ten")}, null ${message}`);
assert.deepEqual(values, [1000, 13, 1.52, 121]);
assert.deepEqual([strict("1e3"), strict("ten")], [13, 0]);
assert.match(message, /Invalid/);
JAVASCRIPT
node "$folder/npm/program.cjs"
