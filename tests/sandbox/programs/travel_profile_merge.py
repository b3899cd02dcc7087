"""Merges the traveller's stored profile with the current message and checks each leg of the trip."""

import copy
import json
from collections import OrderedDict
from functools import partial
from itertools import combinations
from typing import Optional, TypedDict


class Leg(TypedDict):
    kind: str
    place: str


PROFILE = {"age": 0, "member": False, "passport": {"country": "", "pages": 0}, "notes": []}
LEG_RULES = OrderedDict(
    flight=("pages", ">=", 2, "two empty pages in the passport are needed to fly to {place}"),
    hotel=("age", ">=", 18, "guests of the hotel in {place} must be 18"),
    lounge=("member", "==", True, "the lounge in {place} is for members"),
)


def merge(base: dict, extra: dict) -> dict:
    result = copy.deepcopy(base)
    for key, value in extra.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merge(result[key], value)
        elif isinstance(value, list):
            result[key] += value
        else:
            result[key] = value
    return result


def first_json(text: str) -> Optional[dict]:
    start = text.find("{")
    while start != -1:
        try:
            found, _end = json.JSONDecoder().raw_decode(text[start:])
            return found
        except json.JSONDecodeError:
            start = text.find("{", start + 1)
    return None


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    profile = merge(merge(PROFILE, facts.get("profile", {})), first_json(agent_input) or {})
    passport = profile.pop("passport")
    profile.update(pages=passport["pages"])
    legs: list[Leg] = [dict(zip(("kind", "place"), part.split(None, 1))) for part in agent_output.split(";")]
    rules = {}
    for leg in legs:
        info, operator, value, text = LEG_RULES[leg["kind"].lower()]
        make = partial(dict, info=info, operator=operator, value=value)
        rules[f"{leg['kind']} {leg['place']}"] = make(violation=text.format(place=leg["place"]))
    denied, violations = check_rule(rules, profile)
    links = [f"{a['place']}-{b['place']}" for a, b in combinations(legs, 2) if a["place"] != b["place"]]
    details = {"profile": json.dumps(profile, sort_keys=True), "links": links[:3]}
    return {"label": int(denied), "reasons": list(violations.values()), "details": details, "answer": None}
