"""Reads the log line by line."""

import json

MOST = {"basic": 500, "premium": 2000}  # clause 2


def check(agent_input, agent_output, facts):
    tier = field(agent_input, "Tier", facts.get("tier")).lower()
    if tier not in MOST:
        raise ValueError("unknown tier")
    verified = is_verified(agent_input, facts)
    transfers, answer = read_log(agent_output)
    amounts = [amount_of(one) for one in transfers]
    found, limits = {"together": sum(amounts)}, {"together": 3000}  # clause 3
    if amounts:
        found["limit"], limits["limit"] = max(amounts), MOST[tier]
    if amounts and not verified:  # clause 5
        found["verified"], limits["verified"] = max(amounts), 100
    # clause 4
    foreign = [one for one in transfers if one.get("currency") != "EUR"]
    found["currency"], limits["currency"] = len(foreign), 0
    denied, broken = check_limits(found, limits)
    # clause 8
    return {
        "label": int(denied),
        "reasons": [name + ": " + why for name, why in broken.items()],
        "details": {"total": sum(amounts), "broken": list(broken)},
        "answer": None if denied else answer,
    }


def is_verified(agent_input, facts):
    # clause 7
    if facts.get("verified") is not None:
        if not isinstance(facts["verified"], bool):
            raise ValueError("the fact verified is no boolean")
        return facts["verified"]
    text = field(agent_input, "Verified").lower()
    if text not in ("yes", "no"):
        raise ValueError("verified is neither yes nor no")
    return text == "yes"


def read_log(agent_output):
    # clause 6
    transfers, answer = [], None
    for line in agent_output.splitlines():
        if not line.strip():
            continue
        record = json.loads(line)
        if not isinstance(record, dict) or not isinstance(record.get("args"), dict):
            raise ValueError("a record is no call")
        if record.get("tool") == "transfer":
            transfers.append(record["args"])
        elif record.get("tool") == "reply":
            answer = record["args"].get("text")
        elif record.get("tool") != "balance":
            raise ValueError("an unknown tool")
    if not isinstance(answer, str):
        raise ValueError("the log has no reply, so it is cut off")
    return transfers, answer


def amount_of(args):
    amount = args.get("amount")
    if isinstance(amount, bool) or not isinstance(amount, (int, float)) or amount <= 0:
        raise ValueError("an amount is no number above 0")
    return amount
