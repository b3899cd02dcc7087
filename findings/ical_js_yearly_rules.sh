#!/bin/sh
# Version: ical.js 2.2.1 (npm), beside rrule 2.8.1 (npm) and python-dateutil 2.9.0.post0
# Source: RFC 5545, 3.3.10 and the examples of 3.8.5.3: an instance on a date that does not exist is ignored; BYDAY=20MO in
#   a yearly rule is the 20th Monday of the year; BYWEEKNO=20 its 20th week. The two other libraries agree with it.
# Behaviour: a yearly event of the 29th of February comes on the 1st of March in other years; the two examples of the RFC,
#   which name one Monday a year, give every Monday. A monthly rule does skip the months without a 31st.
# Output seen:
#   FREQ=YEARLY 2024-02-29: ical.js 2024-02-29 2025-03-01 2026-03-01, others 2024-02-29 2028-02-29 2032-02-29
#   FREQ=YEARLY;BYDAY=20MO 1997-05-19: ical.js 1997-05-19 1997-05-26 1997-06-02, others 1997-05-19 1998-05-18 1999-05-17
#   FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO 1997-05-12: ical.js 1997-05-19 1997-05-26 1997-06-02, others 1997-05-12 1998-05-11 1999-05-17
#   FREQ=MONTHLY 2024-01-31: ical.js 2024-01-31 2024-03-31 2024-05-31, others 2024-01-31 2024-03-31 2024-05-31
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund ical.js@2.2.1 rrule@2.8.1
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile python-dateutil==2.9.0.post0
cat > "$folder/npm/program.mjs" <<'JAVASCRIPT'
import ICAL from "ical.js";
import rrule from "rrule";

const days = process.argv.slice(2).map((argument) => {
  const [rule, start] = argument.split(" ");
  const iterator = ICAL.Recur.fromString(rule).iterator(ICAL.Time.fromDateString(start));
  const options = { ...rrule.RRule.parseString(rule), dtstart: new Date(`${start}T00:00:00Z`), count: 3 };
  const others = new rrule.RRule(options).all().map((date) => date.toISOString().slice(0, 10));
  return [[1, 2, 3].map(() => String(iterator.next())), others];
});
console.log(JSON.stringify(days));
JAVASCRIPT
"$folder/venv/bin/python" - "$folder/npm/program.mjs" <<'PYTHON'
import json
import subprocess
import sys
from datetime import datetime
from itertools import islice

from dateutil.rrule import rrulestr

expected = {
    "FREQ=YEARLY 2024-02-29": ["2024-02-29", "2025-03-01", "2026-03-01"],
    "FREQ=YEARLY;BYDAY=20MO 1997-05-19": ["1997-05-19", "1997-05-26", "1997-06-02"],
    "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO 1997-05-12": ["1997-05-19", "1997-05-26", "1997-06-02"],
    "FREQ=MONTHLY 2024-01-31": ["2024-01-31", "2024-03-31", "2024-05-31"],
}
run = subprocess.run(["node", sys.argv[1], *expected], check=True, capture_output=True)
for (case, days), (ical, rrule) in zip(expected.items(), json.loads(run.stdout), strict=True):
    rule, start = case.split()
    dates = islice(rrulestr(rule, dtstart=datetime.fromisoformat(start)), 3)
    others = [date.date().isoformat() for date in dates]
    print(f"{case}: ical.js {' '.join(ical)}, others {' '.join(others)}")
    assert ical == days
    assert rrule == others
    assert (ical == others) is case.startswith("FREQ=MONTHLY")
PYTHON
