"""A refund is granted only inside the window of the product's kind, counted from delivery."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Final

WINDOWS: Final[dict[str, int]] = {"clothing": 60, "electronics": 30, "food": 3, "software": 14}
ISO: Final = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")


def to_date(text: str) -> date | None:
    for pattern in ("%Y-%m-%d", "%d.%m.%Y", "%B %d, %Y"):
        try:
            return datetime.strptime(text.strip(), pattern).date()
        except ValueError:
            continue
    return None


def read_fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields[key.strip().casefold()] = value.strip()
    return fields


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    fields = read_fields(agent_input)
    delivered, asked = to_date(fields["delivered"]), to_date(fields["requested"])
    if delivered is None or asked is None:
        raise ValueError("the dates of delivery and request must both be readable")
    kind = fields.get("kind", "").lower()
    window = WINDOWS.get(kind, 14)
    last_day = delivered + timedelta(days=window)
    info: dict[str, int | bool] = {"elapsed": (asked - delivered).days, "opened": fields.get("opened") == "yes"}
    rules = {
        "window": {
            "info": "elapsed",
            "operator": "<=",
            "value": window,
            "violation": f"the {window}-day window for {kind} closed on {last_day.isoformat()}",
        },
        "order": {"info": "elapsed", "operator": ">=", "value": 0, "violation": "asked before it was delivered"},
    }
    if kind == "software":
        rules["seal"] = {"info": "opened", "operator": "==", "value": False, "violation": "opened software stays sold"}
    denied, violations = check_rule(rules, info)
    mentioned = [found for found in ISO.findall(agent_output) if date.fromisoformat(found) > last_day]
    return {
        "label": 1 if denied else 0,
        "reasons": list(violations.values()),
        "details": {**info, "last_day": last_day.strftime("%d/%m/%y"), "late_dates_in_output": mentioned},
        "answer": None if denied else agent_output.strip(),
    }
