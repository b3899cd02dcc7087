"""Collects what is broken, and what is unknown, as it goes."""

from typing import NamedTuple


class Limit(NamedTuple):
    name: str
    source: str
    least: int
    most: float


LIMITS = [
    Limit("licence", "licence_years", 2, float("inf")),  # clause 3
    Limit("days", "Days", 1, 14),  # clause 5
]


class Booking:
    def __init__(self, agent_input, agent_output, facts):
        self.texts = {"age": agent_input, "licence_years": agent_input, "blocked": agent_input}
        self.output = agent_output
        self.facts = facts

    def read(self, name):
        known = self.facts.get(name)
        if isinstance(known, (bool, int)):
            known = str(known)
        return field(self.texts.get(name, self.output), name, known if name in self.texts else None)

    def number(self, name):
        value = int(self.read(name))
        if value < 0:
            raise ValueError(name + " is negative")
        return value


def check(agent_input, agent_output, facts):
    booking = Booking(agent_input, agent_output, facts)
    kept = {}
    # clause 2
    least = {"compact": 21, "estate": 21, "van": 25}
    car = booking.read("Car").lower()
    if car not in least:
        raise ValueError("the car is of no kind that is rented")
    kept["age"] = least[car] <= booking.number("age")
    for limit in LIMITS:
        kept[limit.name] = limit.least <= booking.number(limit.source) <= limit.most
    # clauses 4, 6
    blocked = booking.read("blocked").lower()
    if blocked not in ("true", "false"):
        raise ValueError("blocked is no truth value")
    kept["blocked"] = blocked == "false"
    denied, broken = check_booking(kept)
    # clause 7
    names = [name for name in ("age", "licence", "blocked", "days") if name in broken]
    answer = booking.read("Answer")
    return {"label": int(denied), "reasons": names, "details": {"broken": names}, "answer": answer if not denied else None}
