#!/bin/sh
# Version: ical.js 2.2.1 (npm), beside rrule 2.8.1 (npm)
# Source: RFC 5545, 3.3.10: BYSETPOS picks the nth occurrence out of those of each interval of the rule's frequency, the
#   last one with -1. It makes no exception of weekly or yearly rules. rrule reads it so.
# Behaviour: ical.js takes it in a weekly rule, and in a yearly one without a month, and picks nothing: all days of the set
#   come. In a monthly rule it picks.
# Output seen:
#   FREQ=WEEKLY;BYDAY=MO,WE;BYSETPOS=1: ical.js 2024-01-01 2024-01-03 2024-01-08, rrule 2024-01-01 2024-01-08 2024-01-15
#   FREQ=YEARLY;BYDAY=MO;BYSETPOS=1: ical.js 2024-01-01 2024-01-08 2024-01-15, rrule 2024-01-01 2025-01-06 2026-01-05
#   FREQ=MONTHLY;BYDAY=MO;BYSETPOS=1: ical.js 2024-01-01 2024-02-05 2024-03-04, rrule 2024-01-01 2024-02-05 2024-03-04
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund ical.js@2.2.1 rrule@2.8.1
cat > "$folder/npm/program.mjs" <<'JAVASCRIPT'
import assert from "node:assert";
import ICAL from "ical.js";
import rrule from "rrule";

const START = "2024-01-01";
const cases = [
  ["FREQ=WEEKLY;BYDAY=MO,WE;BYSETPOS=1", "2024-01-01 2024-01-03 2024-01-08", "2024-01-01 2024-01-08 2024-01-15"],
  ["FREQ=YEARLY;BYDAY=MO;BYSETPOS=1", "2024-01-01 2024-01-08 2024-01-15", "2024-01-01 2025-01-06 2026-01-05"],
  ["FREQ=MONTHLY;BYDAY=MO;BYSETPOS=1", "2024-01-01 2024-02-05 2024-03-04", "2024-01-01 2024-02-05 2024-03-04"],
];
for (const [rule, seen, expected] of cases) {
  const iterator = ICAL.Recur.fromString(rule).iterator(ICAL.Time.fromDateString(START));
  const ical = [1, 2, 3].map(() => String(iterator.next())).join(" ");
  const options = { ...rrule.RRule.parseString(rule), dtstart: new Date(START), count: 3 };
  const other = new rrule.RRule(options).all().map((date) => date.toISOString().slice(0, 10)).join(" ");
  console.log(`${rule}: ical.js ${ical}, rrule ${other}`);
  assert.equal(ical, seen);
  assert.equal(other, expected);
}
JAVASCRIPT
node "$folder/npm/program.mjs"
