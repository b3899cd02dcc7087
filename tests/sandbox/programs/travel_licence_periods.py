"""A car may be hired only while the licence is valid, for the right class and with enough experience."""

from dataclasses import dataclass, field
from datetime import date, timedelta


@dataclass(order=True, frozen=True)
class Period:
    start: date
    end: date = field(compare=False)

    def covers(self, other: "Period") -> bool:
        return self.start <= other.start <= other.end <= self.end

    @property
    def days(self) -> int:
        return (self.end - self.start).days + 1


MIN_YEARS = {"B": 1, "C": 3, "D": 5}


def years_between(first: date, second: date) -> int:
    years = second.year - first.year
    return years - ((second.month, second.day) < (first.month, first.day))


def rule(info: str, value, violation: str, *, operator: str = "==") -> dict:
    return {"info": info, "operator": operator, "value": value, "violation": violation}


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    hire = Period(date.fromisoformat(facts["from"]), date.fromisoformat(facts["to"]))
    kind = facts.get("class", "B")
    periods = sorted(
        (Period(date.fromisoformat(p["from"]), date.fromisoformat(p["to"])) for p in facts["licence"][kind]),
        reverse=True,
    )
    latest, *older = periods
    first = older[-1] if older else latest
    user = {
        "covered": any(p.covers(hire) for p in periods),
        "years": years_between(first.start, hire.start),
        "soon_over": latest.end - hire.end < timedelta(days=7),
    }
    need = MIN_YEARS[kind]
    rules = {
        "valid": rule("covered", True, f"the licence does not cover {hire.start:%d.%m.%Y} to {hire.end:%d.%m.%Y}"),
        "experience": rule("years", need, f"class {kind} takes {need} year(s) of experience", operator=">="),
        "margin": rule("soon_over", False, "the licence ends within a week after the hire"),
    }
    denied, violations = check_rule(rules, user)
    return {
        "label": 1 if denied else 0,
        "reasons": list(violations.values()),
        "details": {"user": user, "hire_days": hire.days, "latest": latest.end.isoformat()},
        "answer": None if denied else f"{hire.days} day(s) booked",
    }
