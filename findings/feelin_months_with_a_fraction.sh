#!/bin/sh
# Version: @bpmn-io/feelin 6.1.1 (npm)
# Source: the DMN specification, FEEL: years and months duration() has whole months, and its own example between
#   2011-12-22 and 2013-08-24 is P1Y8M; the properties of a duration are normalized, so that PT90M has 1 hour and 30
#   minutes; a duration of months and one of days are of two types, and no two values of theirs are equal.
# Behaviour: the months have a fraction, which is no duration that FEEL itself could read; PT90M has no hour and 90
#   minutes; and one month equals 30 days.
# Output seen:
#   years and months duration(date("2011-12-22"), date("2013-08-24")) -> P1Y8.064516129032258M
#   duration("PT90M").hours -> 0
#   duration("PT90M").minutes -> 90
#   duration("P1M") = duration("P30D") -> true
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund @bpmn-io/feelin@6.1.1
cat > "$folder/npm/program.mjs" <<'JAVASCRIPT'
import assert from "node:assert";
import { evaluate } from "@bpmn-io/feelin";

const seen = {
  'years and months duration(date("2011-12-22"), date("2013-08-24"))': "P1Y8.064516129032258M",
  'duration("PT90M").hours': "0",
  'duration("PT90M").minutes': "90",
  'duration("P1M") = duration("P30D")': "true",
};
for (const [expression, value] of Object.entries(seen)) {
  const answer = String(evaluate(expression).value);
  console.log(expression, "->", answer);
  assert.strictEqual(answer, value);
}
JAVASCRIPT
node "$folder/npm/program.mjs"
