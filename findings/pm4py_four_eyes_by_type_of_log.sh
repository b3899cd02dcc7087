#!/bin/sh
# Version: pm4py 2.7.23.11
# Source: the docstrings of filter_four_eyes_principle and four_eyes_principle: the first takes an event log or a data
#   frame, and keeps or drops the cases that violate the principle for two activities: those in which the people who did
#   the one and those who did the other have someone in common.
# Behaviour: of a DataFrame only the last B of a case counts, of an EventLog all. x did both A and B in the second case, too,
#   and after the B of y nobody sees it. The same log has two answers.
# Output seen (cases that violate the principle):
#   DataFrame ['A:x B:x', 'A:x B:y B:x']
#   EventLog ['A:x B:x', 'A:x B:x B:y', 'A:x B:y B:x']
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile pm4py==2.7.23.11
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import pandas
import pm4py

CASES = ("A:x B:x", "A:x B:x B:y", "A:x B:y B:x", "A:x B:y")
rows = [
    {
        "case:concept:name": case,
        "concept:name": event.split(":")[0],
        "org:resource": event.split(":")[1],
        "time:timestamp": pandas.Timestamp("2024-01-01", tz="UTC") + pandas.Timedelta(hours=hour),
    }
    for case in CASES
    for hour, event in enumerate(case.split())
]
frame = pm4py.format_dataframe(pandas.DataFrame(rows))
log = pm4py.convert_to_event_log(frame)
in_frame = pm4py.filter_four_eyes_principle(frame, "A", "B", keep_violations=True)
in_log = pm4py.filter_four_eyes_principle(log, "A", "B", keep_violations=True)
names = sorted(in_frame["case:concept:name"].unique()), sorted(trace.attributes["concept:name"] for trace in in_log)
print("DataFrame", names[0])
print("EventLog", names[1])
assert names == (["A:x B:x", "A:x B:y B:x"], ["A:x B:x", "A:x B:x B:y", "A:x B:y B:x"])
PYTHON
