"""The report as one JSON object: the attributes of `TranslationSummary`, by their names."""

from __future__ import annotations

import json

from guardagent.translation.report import TranslationSummary

NAME = "JSON"
SUFFIX = ".json"


def render(summary: TranslationSummary) -> str:
    # ASCII alone: the strings of others reach no terminal as control characters.
    return f"{json.dumps(summary.to_dict(), indent=2)}\n"
