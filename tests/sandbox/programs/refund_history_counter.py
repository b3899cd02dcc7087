"""Looks for customers who return too much: counts, groups and sorts their former refunds."""

from collections import Counter, namedtuple
from itertools import groupby
from operator import itemgetter
from typing import Any, Dict, List

Refund = namedtuple("Refund", ["customer", "month", "amount"])


def read_history(rows: List[Dict[str, Any]]) -> List[Refund]:
    return [Refund(row["customer"], row["month"], float(row["amount"])) for row in rows]


def per_month(refunds: list) -> dict:
    ordered = sorted(refunds, key=lambda r: (r.month, -r.amount))
    return {month: [r.amount for r in group] for month, group in groupby(ordered, key=lambda r: r.month)}


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    customer = facts["customer"]
    history = read_history(facts.get("history", []))
    counts = Counter(r.customer for r in history)
    mine = [r for r in history if r.customer == customer]
    months = per_month(mine)
    busiest = max(months.items(), key=lambda item: len(item[1]), default=("none", []))
    ranking = sorted(counts.items(), key=itemgetter(1, 0), reverse=True)
    place = 0
    for place, (name, _) in enumerate(ranking, 1):
        if name == customer:
            break
    else:
        place = len(ranking) + 1

    user = {
        "total": sum(r.amount for r in mine),
        "in_busiest_month": len(busiest[1]),
        "share": counts[customer] / (sum(counts.values()) or 1),
    }
    rules = {
        "total": {"info": "total", "operator": "<", "value": 500, "violation": "more than 500 was refunded already"},
        "pace": {"info": "in_busiest_month", "operator": "<=", "value": 2, "violation": "over two refunds in a month"},
    }
    denied, violations = check_rule(rules, user)
    reasons = [f"{name}: {text}" for name, text in violations.items()]
    if denied:
        reasons.append(f"busiest month was {busiest[0]} with {busiest[1][:3]}")
    return {
        "label": 1 if denied else 0,
        "reasons": reasons,
        "details": {"top": counts.most_common(2), "place": place, "share": f"{user['share']:.1%}", "months": months},
        "answer": None if denied else agent_output,
    }
