"""Makes one record of the run, then looks at each rule in turn."""

KINDS = {"compact": 21, "estate": 21, "van": 25}


def check(agent_input, agent_output, facts):
    member = {**pairs(agent_input), **{name: str(value) for name, value in facts.items()}}
    booking = pairs(agent_output)
    lacking = [name for name in ("age", "licence_years", "blocked") if not member.get(name)]
    lacking += [name for name in ("car", "days", "answer") if not booking.get(name)]
    if lacking:  # clause 6
        return {"label": 1, "details": {"unknown": ["one value of " + name for name in lacking]}}
    car = booking["car"].lower()
    if car not in KINDS:
        return {"label": 1, "details": {"unknown": ["the kind of car"]}}
    kept = {
        "age": whole(member["age"]) >= KINDS[car],  # clause 2
        "licence": whole(member["licence_years"]) >= 2,  # clause 3
        "blocked": not truth(member["blocked"]),  # clause 4
        "days": whole(booking["days"]) <= 14,  # clause 5
    }
    denied, broken = check_booking(kept)
    result = {"label": 1 if denied else 0, "reasons": [], "details": {"broken": sorted(broken)}, "answer": None}
    if denied:  # clause 7
        result["reasons"] = ["broken: " + name for name in broken]
    else:
        result["answer"] = booking["answer"]
    return result


def pairs(text):
    """Name -> value; what stands there twice has none."""
    found = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            name = name.strip().lower()
            found[name] = "" if name in found else value.strip()
    return found


def whole(text):
    if not text.isdecimal() or len(text) > 3:
        raise ValueError("no whole number")
    return int(text)


def truth(text):
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ValueError("no truth value")
