"""Newsletters may go out only in the recipient's waking hours and not on a Sunday."""

from datetime import datetime, timedelta
from typing import Literal, Optional

Verdict = Literal["send", "hold"]
OFFSETS = {"london": 0, "berlin": 1, "delhi": 5.5, "tokyo": 9, "new york": -5}
QUIET_FROM, QUIET_TO = 21, 8


def local_time(utc: datetime, city: str) -> Optional[datetime]:
    hours = OFFSETS.get(city.casefold())
    return None if hours is None else utc + timedelta(hours=hours)


def next_slot(when: datetime) -> datetime:
    slot = when.replace(minute=0, second=0)
    while True:
        slot += timedelta(hours=1)
        if slot.weekday() != 6 and QUIET_TO <= slot.hour < QUIET_FROM:
            break
    return slot


def judge(when: datetime) -> Verdict:
    awake = QUIET_TO <= when.hour < QUIET_FROM
    return "send" if awake and when.isoweekday() != 7 else "hold"


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    utc = datetime.strptime(facts["send_at"], "%Y-%m-%dT%H:%M")
    cities = [line[2:].strip() for line in agent_output.splitlines() if line[:2] == "- "]
    rules, info, plan = {}, {}, []
    for position, city in enumerate(cities):
        local = local_time(utc, city)
        if local is None:
            info[city] = "unknown"
            note = f"the time zone of {city} is not known"
        else:
            info[city] = judge(local)
            note = f"{city}: {local:%a %H:%M} is quiet time, next slot {next_slot(local).strftime('%a %d %b %H:%M')}"
            plan.append((local.isoformat(timespec="minutes"), position, city))
        rules[city] = {"info": city, "operator": "==", "value": "send", "violation": note}
    denied, violations = check_rule(rules, info)
    earliest, *_rest = sorted(plan) or [None]
    return {
        "label": 1 if denied else 0,
        "reasons": list(violations.values()),
        "details": {"plan": [f"{i:>2}. {city:<10} {at}" for at, i, city in sorted(plan)], "first": earliest},
        "answer": None if denied else f"{len(cities)} mails planned",
    }
