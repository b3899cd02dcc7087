"""Age rules for goods in a web shop: each kind of goods brings its rule."""

import re

RULES = {
    "alcohol": {"info": "age", "operator": ">=", "value": 18, "violation": "alcohol is sold from the age of 18"},
    "fireworks": {"info": "age", "operator": ">=", "value": 21, "violation": "fireworks are sold from the age of 21"},
    "game": {"info": "age", "operator": ">=", "value": 16, "violation": "this game is rated 16"},
    "book": {"info": None, "operator": "==", "value": None, "violation": ""},
}
WORDS = {
    "alcohol": ("wine", "beer", "whisky", "gin"),
    "fireworks": ("rocket", "sparkler", "firecracker"),
    "game": ("shooter", "battle royale"),
    "book": ("novel", "cookbook"),
}


def parse_age(text: str) -> int:
    found = re.search(r"\bage(?:d)?\s*[:=]?\s*(\S+)", text, re.I)
    if not found:
        raise ValueError("the age is not given")
    try:
        age = int(found.group(1).rstrip(".,;"))
    except ValueError:
        age = int(float(found.group(1).rstrip(".,;")))
    if not 0 < age < 130:
        raise ValueError(f"implausible age {age}")
    return age


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    text = f"{agent_input}\n{agent_output}".lower()
    kinds = [kind for kind, words in WORDS.items() if any(word in text for word in words)]
    rules = {kind: RULES[kind] for kind in kinds}
    user_info = {"age": facts["age"] if "age" in facts else parse_age(agent_input)}
    denied, violations = check_rule(rules, user_info)
    width = max(map(len, kinds), default=8)
    for kind in kinds:
        mark = "no" if kind in violations else "ok"
        print(f"{kind:<{width}}|{mark:>4}|{user_info['age']:05d}")
    return {
        "label": 1 if denied else 0,
        "reasons": list(violations.values()),
        "details": {"kinds": kinds, "age": user_info["age"], "violated": sorted(violations)},
        "answer": agent_output if not denied else None,
    }
