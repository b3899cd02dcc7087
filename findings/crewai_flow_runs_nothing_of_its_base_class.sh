#!/bin/sh
# Version: crewai 1.15.30
# Source: the decorators mark methods of a class, and Python's classes inherit methods: a flow derived from another one is
#   expected to run its steps, as the same steps do in the class itself.
# Behaviour: steps of the base class are left out, also its `@start()`: `kickoff` returns None and runs nothing, without a word.
# Output seen:
#   base class: ['load', 'judge', 'redo']
#   derived: []
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check crewai==1.15.30
cat > "$folder/program.py" <<'PYTHON'
from crewai.flow.flow import Flow, listen, router, start

ran = []


class Review(Flow):
    @start()
    def load(self):
        ran.append("load")

    @router(load)
    def judge(self):
        ran.append("judge")
        return "bad"

    @listen("bad")
    def redo(self):
        ran.append("redo")


class Essay(Review):
    """The same steps, and one more."""

    @listen("redo")
    def finish(self):
        ran.append("finish")


seen = []
for kind in (Review, Essay):
    ran.clear()
    assert kind(suppress_flow_events=True).kickoff() is None
    seen.append(list(ran))
print("base class:", seen[0])
print("derived:", seen[1])
assert seen == [["load", "judge", "redo"], []]
PYTHON
export HOME="$folder" CREWAI_DISABLE_TELEMETRY=true OTEL_SDK_DISABLED=true CREWAI_TRACING_ENABLED=false
"$folder/venv/bin/python" "$folder/program.py"
