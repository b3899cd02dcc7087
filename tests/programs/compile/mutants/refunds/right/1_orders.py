"""Looks up the record of each refund."""

import json


def check(agent_input, agent_output, facts):
    orders = records(agent_input)
    names = [name.strip() for name in value(agent_output, "Refund").split(",")]
    missing = [name for name in names if name not in orders]
    if missing:  # clause 4
        return {"label": 1, "details": {"unknown": ["the record of " + name for name in missing]}}
    found = [orders[name] for name in names]
    kept = {
        "paid": all(record["paid"] for record in found),  # clause 2
        "together": sum(record["amount"] for record in found) <= 500,  # clause 3
    }
    denied, broken = check_refunds(kept)
    answer = None if denied else value(agent_output, "Answer")  # clause 5
    reasons = ["broken: " + name for name in broken]
    return {"label": int(denied), "reasons": reasons, "details": {"broken": list(broken)}, "answer": answer}


def records(text):
    """Order -> its one record."""
    found = {}
    for line in text.splitlines():
        if line.strip().startswith("{"):
            record = json.loads(line)
            if type(record["paid"]) is not bool or type(record["amount"]) is not int or record["order"] in found:
                raise ValueError("a record cannot be read, or stands there twice")
            found[record["order"]] = record
    return found


def value(text, name):
    """The one value of a line."""
    lines = [line.partition(":")[2].strip() for line in text.splitlines() if line.lower().startswith(name.lower() + ":")]
    if len(lines) != 1 or not lines[0]:
        raise ValueError("expected one " + name)
    return lines[0]
