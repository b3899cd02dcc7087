#!/bin/sh
# Version: @bpmn-io/feelin 6.1.1 (npm)
# Source: the DMN specification, FEEL, date and time functions: date(year, month, day) has the month from 1 to 12 and a
#   day of that month; an argument outside of its domain makes the result null, as it does for the same date as a text.
# Behaviour: a date or time of numbers rolls over: February 30 is March 2, a 13th month is January of the next year, and
#   25 o'clock is 1 o'clock. There is no warning. The texts of the same dates are null.
# Output seen:
#   date(2021, 2, 30) = date("2021-03-02") -> true
#   date(2021, 13, 1) = date("2022-01-01") -> true
#   time(25, 0, 0).hour -> 1
#   date("2021-02-30") -> null
#   time("25:00:00") -> null
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund @bpmn-io/feelin@6.1.1
cat > "$folder/npm/program.mjs" <<'JAVASCRIPT'
import assert from "node:assert";
import { evaluate } from "@bpmn-io/feelin";

const seen = {
  'date(2021, 2, 30) = date("2021-03-02")': true,
  'date(2021, 13, 1) = date("2022-01-01")': true,
  "time(25, 0, 0).hour": 1,
  'date("2021-02-30")': null,
  'time("25:00:00")': null,
};
for (const [expression, expected] of Object.entries(seen)) {
  const { value, warnings } = evaluate(expression);
  console.log(expression, "->", value);
  assert.strictEqual(value, expected);
  if (expected !== null) assert.deepStrictEqual(warnings, []);
}
JAVASCRIPT
node "$folder/npm/program.mjs"
