#!/bin/sh
# Version: icalendar 7.3.2
# Source: Python: an aware datetime is one moment. RFC 5545: a TZID needs its VTIMEZONE in the same calendar (3.2.19), and
#   UNTIL is in UTC if the event has a zone (3.3.10).
# Behaviour: a moment with an offset, as datetime.fromisoformat() reads it, is written with its local time and a TZID that
#   nothing defines, add_missing_timezones() included; read back by icalendar, it has no zone any more. An UNTIL with a
#   zone is written as its local time without one. UTC and zones with a name are kept in DTSTART.
# Output seen:
#   DTSTART;TZID="UTC+02:00":20240101T120000
#   read back: 2024-01-01T12:00:00
#   DTSTART;TZID=Europe/Berlin:20240101T120000
#   RRULE:FREQ=DAILY;UNTIL=20240105T120000
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile icalendar==7.3.2
"$folder/venv/bin/python" - <<'PYTHON'
from datetime import datetime
from zoneinfo import ZoneInfo

from icalendar import Calendar, Event


def lines(component, *names):
    return [line for line in component.to_ical().decode().splitlines() if line.startswith(names)]


event = Event()
event.start = datetime.fromisoformat("2024-01-01T12:00:00+02:00")
calendar = Calendar()
calendar.add_component(event)
calendar.add_missing_timezones()
offset = lines(calendar, "DTSTART", "BEGIN:VTIMEZONE")
[back] = Calendar.from_ical(calendar.to_ical()).events
print(*offset, sep="\n")
print("read back:", back.start.isoformat())
daily = Event()
daily.start = datetime(2024, 1, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))
daily.add("rrule", {"freq": "daily", "until": datetime(2024, 1, 5, 12, tzinfo=ZoneInfo("Europe/Berlin"))})
named = lines(daily, "DTSTART", "RRULE")
print(*named, sep="\n")
assert offset == ['DTSTART;TZID="UTC+02:00":20240101T120000']
assert back.start.tzinfo is None
assert named == ["DTSTART;TZID=Europe/Berlin:20240101T120000", "RRULE:FREQ=DAILY;UNTIL=20240105T120000"]
PYTHON
