def given(agent_input, facts, name):
    """The one value of the member's section, as text; what the host knows wins."""
    if name in facts:
        return str(facts[name]).strip().lower()
    lines = [line.strip() for line in agent_input.split("\n")]
    values = [line.split(":", 1)[1].strip().lower() for line in lines if line.lower().startswith(name + ":")]
    return values[0] if len(values) == 1 else ""


def booked(agent_output, name):
    values = [line.split(":", 1)[1] for line in agent_output.split("\n") if line.lower().startswith(name + ":")]
    return values[0].strip().lower() if len(values) == 1 else ""


def whole(text):
    return int(text) if text.isdigit() else None


def property_1(agent_input, agent_output, facts):
    """It says what the agent is for, and sets no rule."""
    return None


def property_2(agent_input, agent_output, facts):
    age, car = whole(given(agent_input, facts, "age")), booked(agent_output, "car")
    if age is None:
        return "deny"
    if age < 21 or (car == "van" and age < 25):
        return "deny"
    licence, days = whole(given(agent_input, facts, "licence_years")), whole(booked(agent_output, "days"))
    free = given(agent_input, facts, "blocked") == "false"
    if licence is None or days is None or days == 0 or car not in ("compact", "estate", "van") or "Answer:" not in agent_output:
        return None
    return "allow" if licence >= 2 and days <= 14 and free else None


def property_3(agent_input, agent_output, facts):
    years = whole(given(agent_input, facts, "licence_years"))
    return "deny" if years is None or years < 2 else None


def property_4(agent_input, agent_output, facts):
    return None if given(agent_input, facts, "blocked") == "false" else "deny"


def property_5(agent_input, agent_output, facts):
    days = whole(booked(agent_output, "days"))
    return "deny" if days is None or days > 14 else None


def property_6(agent_input, agent_output, facts):
    for name in ("age", "licence_years", "blocked"):
        if not given(agent_input, facts, name):
            return "deny"
    return "deny" if booked(agent_output, "car") not in ("compact", "estate", "van") else None


def property_7(agent_input, agent_output, facts):
    """How a denial is put: which details it has, and that the answer is withheld."""
    return None
