"""Goes through the refunds one by one, and adds them up."""

import json


def check(agent_input, agent_output, facts):
    found = [json.loads(line) for line in agent_input.splitlines() if line.strip()[:1] == "{"]
    if not all(type(record["paid"]) is bool and type(record["amount"]) is int for record in found):
        raise ValueError("a record cannot be read")  # clause 4
    paid, total = True, 0
    for name in refunds(agent_output):
        of_order = [record for record in found if record["order"] == name]
        if len(of_order) != 1:  # clause 4
            return {"label": 1, "details": {"unknown": ["one record of " + name]}}
        paid = paid and of_order[0]["paid"]
        total += of_order[0]["amount"]
    # clauses 2, 3
    denied, broken = check_refunds({"paid": paid, "together": total <= 500})
    result = {"label": int(denied), "reasons": list(broken), "details": {"broken": sorted(broken)}, "answer": None}
    if not denied:  # clause 5
        result["answer"] = field(agent_output, "Answer")
    return result


def refunds(text):
    return [name.strip() for name in field(text, "Refund").split(",")]
