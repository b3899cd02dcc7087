"""One function for each rule."""

import json


def limit(run):  # clause 2
    most = {"basic": 500, "premium": 2000}[run["tier"]]
    return all(one["amount"] <= most for one in run["transfers"])


def together(run):  # clause 3
    return run["total"] <= 3000


def currency(run):  # clause 4
    return all(one.get("currency") == "EUR" for one in run["transfers"])


def verified(run):  # clause 5
    return run["verified"] or all(one["amount"] <= 100 for one in run["transfers"])


RULES = {"limit": limit, "together": together, "currency": currency, "verified": verified}


def check(agent_input, agent_output, facts):
    run = read(agent_input, agent_output, facts)
    kept = {name: {"info": name, "operator": "==", "value": True, "violation": "broken: " + name} for name in RULES}
    denied, broken = check_rule(kept, {name: rule(run) for name, rule in RULES.items()})
    # clause 8
    return {
        "label": int(denied),
        "reasons": list(broken.values()),
        "details": {"broken": list(broken), "total": run["total"]},
        "answer": run["answer"] if not denied else None,
    }


def read(agent_input, agent_output, facts):
    # clauses 6, 7
    try:
        log = [json.loads(line) for line in agent_output.strip().split("\n") if line.strip()]
        transfers = [record["args"] for record in log if record["tool"] == "transfer"]
        answers = [record["args"]["text"] for record in log if record["tool"] == "reply"]
    except (KeyError, TypeError):
        raise ValueError("a record is no call of a tool")
    if len(answers) != 1 or not isinstance(answers[0], str) or log[-1]["tool"] != "reply":
        raise ValueError("the log does not end with one reply")
    for one in transfers:
        amount = one.get("amount")
        if not isinstance(amount, (int, float)) or isinstance(amount, bool) or amount <= 0:
            raise ValueError("an amount is unknown")
    tier = known("tier", agent_input, facts)
    sure = known("verified", agent_input, facts)
    if tier not in ("basic", "premium") or sure not in ("yes", "no"):
        raise ValueError("the customer is unknown")
    total = sum(one["amount"] for one in transfers)
    return {"tier": tier, "verified": sure == "yes", "transfers": transfers, "total": total, "answer": answers[0]}


def known(name, agent_input, facts):
    value = facts.get(name)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return field(agent_input, name.capitalize(), value).lower()
