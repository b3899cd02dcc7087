"""Judges a mail's attachments by their number, their size and how far one is out of line."""

import re
import statistics
from collections import namedtuple

Attachment = namedtuple("Attachment", "name size unit")
FACTOR = {"kb": 1, "mb": 1024, "gb": 1024 * 1024}
ENTRY = re.compile(r"(?P<name>[\w.-]+)\s+\((?P<size>\d+(?:\.\d+)?)\s*(?P<unit>[kmg]b)\)", re.IGNORECASE)


def kilobytes(item: Attachment) -> float:
    return item.size * FACTOR[item.unit.lower()]


def summary(sizes: list) -> dict:
    if len(sizes) < 2:
        return {"mean": sizes[0] if sizes else 0.0, "median": sizes[0] if sizes else 0.0, "spread": 0.0}
    return {
        "mean": round(statistics.mean(sizes), 3),
        "median": statistics.median(sizes),
        "spread": round(statistics.pstdev(sizes), 3),
    }


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    items = [Attachment(m["name"], float(m["size"]), m["unit"]) for m in ENTRY.finditer(agent_output)]
    sizes = [kilobytes(item) for item in items]
    stats = summary(sizes)
    biggest = max(items, key=kilobytes, default=None)
    limit = facts.get("limit_kb", 20 * FACTOR["mb"])
    info = dict(count=len(items), total=sum(sizes), biggest=kilobytes(biggest) if biggest else 0.0)
    rules = {
        "count": {"info": "count", "operator": "<=", "value": 5, "violation": f"{len(items)} files, five at most"},
        "total": {"info": "total", "operator": "<=", "value": limit, "violation": f"{info['total']:,.0f} KB in all"},
        "outlier": {
            "info": "biggest",
            "operator": "<=",
            "value": 3 * stats["median"] if items else 0,
            "violation": f"{biggest.name if biggest else '-'} is far larger than the others",
        },
    }
    denied, violations = check_rule(rules, info)
    renamed = [item._replace(name=item.name.lower())._asdict() for item in items]
    return {
        "label": 1 if denied else 0,
        "reasons": [*violations.values()],
        "details": {"stats": stats, "items": renamed, "limit": f"{limit:_}"},
        "answer": None if denied else agent_output,
    }
