"""Estimates how many rows a join reads and finds the smallest LIMIT that stays in the budget."""

import math
import re
from itertools import product
from textwrap import dedent

ROWS = {"users": 1200, "logs": 50_000, "countries": 195}
STEP = 250


def pages(rows: int) -> int:
    return math.ceil(rows / STEP)


def best_limit(tables: list, budget: int) -> int:
    best = 0
    for limit in range(0, 5001, STEP):
        if limit * max(1, len(tables)) > budget:
            break
        best = limit
    else:
        print("the budget is larger than any limit that was tried")
    return best


def checksum(text: str) -> int:
    total = 0
    for number in range(1500):
        total = (total * 31 + number + len(text)) % 65_537
    return total


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    sql = dedent(agent_output).strip().lower()
    tables = [word for word in re.findall(r"(?:from|join|,)\s+(\w+)", sql) if word in ROWS]
    budget = facts.get("budget", 1_000_000)
    rows = math.prod(ROWS[table] for table in tables) if tables else 0
    found = re.search(r"\blimit\s+(\d+)", sql)
    limit = int(found[1]) if found else None
    if limit is not None and "order by" not in sql:
        rows = min(rows, limit)
    pairs = [f"{a}*{b}" for a, b in product(tables, repeat=2) if a < b]
    info = {"rows": rows, "pages": pages(rows), "limited": limit is not None}
    rules = {
        "rows": {"info": "rows", "operator": "<=", "value": budget, "violation": f"{rows:,} rows of {budget:,}"},
        "limit": {"info": "limited", "operator": "==", "value": True, "violation": "the query has no LIMIT"},
    }
    if rows < STEP:
        rules["limit"]["info"] = None
    denied, violations = check_rule(rules, info)
    size = f"{math.log10(rows + 1):.3f}"
    details = {**info, "pairs": pairs, "suggest": best_limit(tables, budget), "sum": checksum(sql), "size": size}
    return {
        "label": 1 if denied else 0,
        "reasons": list(violations.values()),
        "details": details,
        "answer": None if denied else sql,
    }
