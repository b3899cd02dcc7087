"""Cleans up file names with translation tables, then asks lambdas which of the names are risky."""

import re

CLEAN = str.maketrans({"\\": "/", "\t": " ", '"': None, "'": None})
LEET = str.maketrans("013457", "oieast")
RISKS = {
    "executable": lambda name: name.endswith((".exe", ".bat", ".ps1", ".sh")),
    "double ending": lambda name: bool(re.search(r"\.(pdf|docx?|jpg)\.\w+$", name)),
    "hidden": lambda name: name.rsplit("/", 1)[-1].startswith("."),
    "secret": lambda name: any(word in name.translate(LEET) for word in ("password", "secret", "private")),
}


def wanted_names(text: str) -> list:
    names = map(lambda line: line.translate(CLEAN).strip().casefold(), text.splitlines())
    return list(filter(None, names))


def common_prefix(names: list) -> str:
    if not names:
        return ""
    first, last = min(names), max(names)
    i = 0
    while True:
        if i >= len(first) or i >= len(last) or first[i] != last[i]:
            break
        i += 1
    return first[:i]


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    names = wanted_names(agent_output)
    hits = {risk: [name for name in names if test(name)] for risk, test in RISKS.items()}
    allowed_risks = set(facts.get("accepted", []))
    rules = {}
    for risk, found in hits.items():
        rules[risk] = {
            "info": None if risk in allowed_risks else risk,
            "operator": "==",
            "value": 0,
            "violation": "%s: %s" % (risk, ", ".join(found)),
        }
    denied, violations = check_rule(rules, {risk: len(found) for risk, found in hits.items()})
    worst = max(hits, key=lambda risk: len(hits[risk]))
    longest = sorted(names, key=len, reverse=True)[:1]
    return {
        "label": 1 if denied else 0,
        "reasons": list(violations.values()),
        "details": {
            "prefix": common_prefix(names),
            "worst": worst if hits[worst] else None,
            "longest": longest[0] if longest else None,
            "reversed": [name[::-1] for name in names[:2]],
        },
        "answer": None if denied else "\n".join(names),
    }
