"""Refund policies as a small family of classes, each of which adds to the rules of its parent."""


class Policy:
    currency = "EUR"
    created = 0

    def __init__(self, name, limit):
        self.name = name
        self.limit = limit
        Policy.created += 1

    def rules(self):
        text = f"{self.name}: refunds end at {self.limit:.2f} {self.currency}"
        return {"limit": {"info": "amount", "operator": "<=", "value": self.limit, "violation": text}}

    def __repr__(self):
        return f"{type(self).__name__}({self.name!r}, {self.limit})"

    def __eq__(self, other):
        return isinstance(other, Policy) and (self.name, self.limit) == (other.name, other.limit)

    def __hash__(self):
        return hash((self.name, self.limit))


class ReceiptPolicy(Policy):
    def __init__(self, name, limit, channel="shop"):
        super().__init__(name, limit)
        self.channel = channel

    def rules(self):
        found = super().rules()
        text = f"the {self.channel} wants a receipt"
        found["receipt"] = {"info": "receipt", "operator": "==", "value": True, "violation": text}
        return found


class ManagerPolicy(ReceiptPolicy):
    currency = "USD"

    def rules(self):
        found = super().rules()
        del found["receipt"]
        return found


POLICIES = [ReceiptPolicy("clerk", 50.0), ReceiptPolicy("senior", 200.0, channel="desk"), ManagerPolicy("boss", 900.0)]


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    wanted = facts.get("agent_level", "clerk")
    policy = next((p for p in POLICIES if p.name == wanted), POLICIES[0])
    user = {"amount": float(facts["amount"]), "receipt": bool(facts.get("receipt", False))}
    denied, violations = check_rule(policy.rules(), user)
    stricter = [repr(p) for p in POLICIES if p != policy and p.limit < policy.limit]
    details = {"policy": repr(policy), "stricter": stricter, "same": policy == POLICIES[0], "created": Policy.created}
    reasons = list(violations.values())
    return {"label": 1 if denied else 0, "reasons": reasons, "details": details, "answer": None if denied else "paid"}
