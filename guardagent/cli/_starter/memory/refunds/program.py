"""Guards the refunds agent: no refund exceeds the limit of the role."""

LIMITS = {"clerk": 100, "manager": 1000}


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    role = field(agent_input, "Role", facts.get("role"))
    amount = euros(field(agent_output, "Refund"))
    denied, violations = check_refund(amount, role, LIMITS)
    return {
        "label": 1 if denied else 0,
        "reasons": list(violations.values()),
        "details": {"role": role, "amount": amount},
        "answer": None if denied else section(agent_output, "Answer", until=[]),
    }
