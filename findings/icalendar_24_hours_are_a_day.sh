#!/bin/sh
# Version: icalendar 7.3.2
# Source: RFC 5545, 3.3.6: days of a duration are days of the calendar, and its hours exact hours, so that P1D and PT24H end
#   at different times where the clocks change.
# Behaviour: on the day on which clocks in Berlin go forward, an event of PT24H from midnight ends at the next midnight, 23
#   hours later, and one of PT3H from 1 o'clock at 4 o'clock, two hours later. A timedelta of 24 hours is written as P1D.
# Output seen:
#   P1D from 2024-03-31T00:00:00+01:00 to 2024-04-01T00:00:00+02:00: 23 hours
#   PT24H from 2024-03-31T00:00:00+01:00 to 2024-04-01T00:00:00+02:00: 23 hours
#   PT3H from 2024-03-31T01:00:00+01:00 to 2024-03-31T04:00:00+02:00: 2 hours
#   timedelta(hours=24) written as P1D
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile icalendar==7.3.2
"$folder/venv/bin/python" - <<'PYTHON'
from datetime import UTC, timedelta

from icalendar import Event, vDuration

for start, duration, expected in (("000000", "P1D", 23), ("000000", "PT24H", 23), ("010000", "PT3H", 2)):
    text = f"BEGIN:VEVENT\nDTSTART;TZID=Europe/Berlin:20240331T{start}\nDURATION:{duration}\nEND:VEVENT\n"
    event = Event.from_ical(text.replace("\n", "\r\n"))
    hours = (event.end.astimezone(UTC) - event.start.astimezone(UTC)) / timedelta(hours=1)
    print(f"{duration} from {event.start.isoformat()} to {event.end.isoformat()}: {hours:.0f} hours")
    assert hours == expected
written = vDuration(timedelta(hours=24)).to_ical().decode()
print("timedelta(hours=24) written as", written)
assert written == "P1D"
PYTHON
