"""A trip needs vaccinations that are old enough to work and young enough to be valid."""

import re
from datetime import datetime, timedelta

SHOT = re.compile(r"(?P<name>yellow fever|typhoid|covid)\s+on\s+(?P<day>\d{2}/\d{2}/\d{4})", re.I)
REQUIRED = {"kenya": ["yellow fever"], "nepal": ["typhoid"], "brazil": ["yellow fever", "typhoid"], "france": []}
LEAD = timedelta(days=10)
VALIDITY = {"typhoid": timedelta(weeks=156), "covid": timedelta(days=270)}
DATE_FORMAT = "%d/%m/%Y"


def parse_day(text: str) -> datetime:
    return datetime.strptime(text, DATE_FORMAT)


def status(given: datetime, departure: datetime, name: str) -> str:
    if given + LEAD > departure:
        return "too late"
    limit = VALIDITY.get(name)
    if limit is not None and departure - given > limit:
        return "expired"
    return "valid"


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    departure = parse_day(re.search(r"departure[^0-9]*(\d{2}/\d{2}/\d{4})", agent_input, re.I).group(1))
    shots = {m["name"].lower(): parse_day(m["day"]) for m in SHOT.finditer(agent_input)}
    country = next((name for name in REQUIRED if name in agent_output.lower()), None)
    if country is None:
        raise ValueError("the destination is not one of " + ", ".join(REQUIRED))

    user_info, rules = {}, {}
    for name in REQUIRED[country]:
        given = shots.get(name)
        user_info[name] = status(given, departure, name) if given else "missing"
        rules[name] = {
            "info": name,
            "operator": "==",
            "value": "valid",
            "violation": f"{name} vaccination is {user_info[name]} for {country.title()} on {departure:%d %B %Y}",
        }

    def ready(day: datetime) -> bool:
        return all(n in shots and status(shots[n], day, n) == "valid" for n in REQUIRED[country])

    denied, violations = check_rule(rules, user_info)
    details = {
        "departure": departure.strftime("%Y-%m-%d"),
        "days": {name: (departure - day).days for name, day in shots.items()},
        "status": user_info,
        "wait": next((n for n in range(1100) if ready(departure + timedelta(days=n))), None),
    }
    return {
        "label": 1 if denied else 0,
        "reasons": list(violations.values()),
        "details": details,
        "answer": None if denied else agent_output.strip(),
    }
