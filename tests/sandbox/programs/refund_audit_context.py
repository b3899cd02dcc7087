"""Keeps an audit trail in a context manager while the refund is judged step by step."""


class Audit:
    """Counts nested steps and notes how each of them ended."""

    def __init__(self):
        self.entries = []
        self.depth = 0
        self.failures = 0
        self._names = []

    def step(self, name):
        self._names.append(name)
        return self

    def __enter__(self):
        self.depth += 1
        return self

    def __exit__(self, exc_type, exc, tb):
        name = self._names.pop()
        outcome = "ok" if exc_type is None else f"failed: {exc}"
        self.entries.append(f"{'  ' * (self.depth - 1)}{name}: {outcome}")
        self.depth -= 1
        if exc_type is not None:
            self.failures += 1
        return exc_type is not None and issubclass(exc_type, LookupError)


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    audit = Audit()
    info = {"amount": 0.0, "damaged": False, "paid_by": "unknown"}
    with audit.step("whole request"):
        with audit.step("amount"):
            amount = agent_output.split("$")[1].split()[0]
            info["amount"] = float(amount)
        with audit.step("condition"):
            info["damaged"] = "damaged" in agent_input.lower()
        with audit.step("payment"):
            info["paid_by"] = facts["paid_by"]
    rules = {
        "amount": {"info": "amount", "operator": ">", "value": 0, "violation": "no amount is named"},
        "damage": {"info": "damaged", "operator": "==", "value": True, "violation": "only damaged goods are refunded"},
        "method": {"info": "paid_by", "operator": "!=", "value": "voucher", "violation": "vouchers are not paid back"},
    }
    denied, violations = check_rule(rules, info)
    assert audit.depth == 0, "every step must be closed"
    return {
        "label": 1 if denied else 0,
        "reasons": list(violations.values()),
        "details": {"audit": audit.entries, "failures": audit.failures, **info},
        "answer": None if denied else f"${info['amount']:.2f}",
    }
