"""The report as one JSON object, with the names of the figures as keys."""

from __future__ import annotations

import json

from guardagent.batch.report.figures import AuditReport

SUFFIX = ".json"


def render(report: AuditReport) -> bytes:
    # ASCII alone: the strings of others reach no terminal as control characters.
    return f"{json.dumps(report.to_dict(), indent=2)}\n".encode("ascii")
