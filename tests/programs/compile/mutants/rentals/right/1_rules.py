"""Checks the five rules through check_rule."""

RULES = {
    # clause 3
    "licence": {"info": "licence_years", "operator": ">=", "value": 2, "violation": "less than 2 years of driving"},
    # clause 4
    "blocked": {"info": "blocked", "operator": "==", "value": False, "violation": "the member is blocked"},
    # clause 5
    "days": {"info": "days", "operator": "<=", "value": 14, "violation": "more than 14 days"},
}


def check(agent_input, agent_output, facts):
    car = field(agent_output, "Car").lower()
    if car not in ("compact", "estate", "van"):
        raise ValueError("an unknown kind of car")
    # clause 2
    least = 25 if car == "van" else 21
    age = {"info": "age", "operator": ">=", "value": least, "violation": f"the driver is younger than {least}"}
    info = {name: known(name, agent_input, facts) for name in ("age", "licence_years", "blocked")}
    info["days"] = number(field(agent_output, "Days"))
    denied, violations = check_rule({"age": age, **RULES}, info)
    # clause 7
    return {
        "label": int(denied),
        "reasons": list(violations.values()),
        "details": {"broken": list(violations), "member": info},
        "answer": None if denied else field(agent_output, "Answer"),
    }


def known(name, agent_input, facts):
    # clause 6
    if facts.get(name) is not None:
        return facts[name]
    text = field(agent_input, name)
    if name != "blocked":
        return number(text)
    if text.lower() not in ("true", "false"):
        raise ValueError("blocked is neither True nor False")
    return text.lower() == "true"


def number(text):
    if not text.isdigit() or len(text) > 3:
        raise ValueError(f"{text[:20]!r} is no whole number")
    return int(text)
