import json

LIMITS = {"basic": 500, "premium": 2000}


def objects(text):
    """All JSON objects of a text that holds nothing else, whatever stands between them is space."""
    decoder, at, found = json.JSONDecoder(), 0, []
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        value, at = decoder.raw_decode(text, at)
        found.append(value)
    return found


def check(agent_input, agent_output, facts):
    tier = facts["tier"] if "tier" in facts else field(agent_input, "Tier")
    verified = facts["verified"] if "verified" in facts else field(agent_input, "Verified").lower() == "yes"
    if "verified" not in facts and field(agent_input, "Verified").lower() not in ("yes", "no"):
        raise ValueError("verified is unknown")
    if type(verified) is not bool or str(tier).lower() not in LIMITS:  # clause 7
        raise ValueError("tier or verification is unknown")
    total, broken, answer = 0, set(), None
    for record in objects(agent_output):  # clause 6
        tool, args = record.get("tool"), record.get("args")
        if not isinstance(tool, str) or not isinstance(args, dict):
            raise ValueError("a record is no call")
        if tool == "reply":
            answer = args.get("text")
        if tool != "transfer":
            continue
        amount = args.get("amount")
        if type(amount) not in (int, float) or not amount > 0:
            raise ValueError("no amount")
        total += amount
        if amount > LIMITS[str(tier).lower()]:  # clause 2
            broken.add("limit")
        if amount > 100 and not verified:  # clause 5
            broken.add("verified")
        if args.get("currency") != "EUR":  # clause 4
            broken.add("currency")
    if total > 3000:  # clause 3
        broken.add("together")
    if not isinstance(answer, str):
        raise ValueError("no reply")
    names = sorted(broken)
    denied, _ = check_limits(dict.fromkeys(names, 1), dict.fromkeys(names, 0))
    # clause 8
    return {"label": int(denied), "reasons": names, "details": {"total": total, "broken": names},
            "answer": None if denied else answer}
