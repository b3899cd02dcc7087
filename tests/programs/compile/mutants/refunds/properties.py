import json


def refunds(agent_output):
    lines = [line for line in agent_output.split("\n") if line.lower().startswith("refund:")]
    return [name.strip() for name in lines[0].partition(":")[2].split(",")] if len(lines) == 1 else []


def records(agent_input):
    """The records; None where one cannot be read."""
    found = []
    for line in agent_input.split("\n"):
        if line.strip().startswith("{"):
            try:
                record = json.loads(line)
            except ValueError:
                return None
            whole = type(record.get("amount")) is int and type(record.get("paid")) is bool
            found.append(record if whole else None)
    return None if None in found else found


def property_1(agent_input, agent_output, facts):
    """It says what the agent is for, and sets no rule."""
    return None


def property_2(agent_input, agent_output, facts):
    known = records(agent_input)
    if known is None:
        return None
    return "deny" if any(not record["paid"] and record.get("order") in refunds(agent_output) for record in known) else None


def property_3(agent_input, agent_output, facts):
    known = records(agent_input)
    if known is None:
        return None
    total = sum(record["amount"] for record in known if record.get("order") in refunds(agent_output))
    return "deny" if total > 500 else None


def property_4(agent_input, agent_output, facts):
    """What is unknown is left to the program."""
    return "deny" if records(agent_input) is None else None


def property_5(agent_input, agent_output, facts):
    """How a denial is put: which details it has, and that the answer is withheld."""
    return None
