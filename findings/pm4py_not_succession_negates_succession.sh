#!/bin/sh
# Version: pm4py 2.7.23.11
# Source: Di Ciccio, Maggi, Montali, Mendling: Resolving inconsistencies and redundancies in declarative process models
#   (Information Systems 2017), table of DECLARE templates: NotSuccession(a, b) says that no b occurs after an a, and
#   NotChainSuccession(a, b) that no b comes directly after an a. pm4py offers both as templates to check logs against.
# Behaviour: both are checked as the negation of (Chain)Succession, so every trace that breaks that one fits: in A B A a B
#   comes after an A, and the last A has no B, which breaks Succession. The other templates agree with their definitions
#   on every trace of up to four events over A, B and C.
# Output seen:
#   nonsuccession: AB False, ABA True, AABA True, BAB True
#   nonchainsuccession: AB False, ABA True, AABA True, BAB True
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile pm4py==2.7.23.11
"$folder/venv/bin/python" - <<'PYTHON'
from pm4py.algo.conformance.declare import algorithm
from pm4py.objects.log.obj import Event, EventLog, Trace

traces = ["AB", "ABA", "AABA", "BAB"]
log = EventLog([Trace([Event({"concept:name": name}) for name in trace]) for trace in traces])
for template in ("nonsuccession", "nonchainsuccession"):
    model = {template: {("A", "B"): {"support": 1, "confidence": 1}}}
    fits = [result["is_fit"] for result in algorithm.apply(log, model)]
    print(f"{template}:", ", ".join(f"{trace} {fit}" for trace, fit in zip(traces, fits, strict=True)))
    assert fits == [False, True, True, True]
PYTHON
