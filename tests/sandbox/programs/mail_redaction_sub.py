"""Replaces secrets in a draft with marks; a draft with too many of the worse kinds is stopped."""

import re
from collections import Counter
from textwrap import dedent, shorten

PATTERN = re.compile(
    r"""
      (?P<card>\b(?:\d[ -]?){15}\d\b)
    | (?P<phone>\+\d{1,3}[ ]\d{2,4}[ ]\d{4,8})
    | (?P<token>\b(?:sk|pk)_[a-z0-9]{8,}\b)
    """,
    re.X | re.I,
)
LIMITS = {"card": 0, "token": 0, "phone": 2}


def redact(text: str) -> tuple:
    counts = Counter()

    def mark(found):
        kind = found.lastgroup
        counts[kind] += 1
        digits = re.sub(r"\D", "", found.group())
        return f"[{kind} …{digits[-2:]}]" if kind != "token" else "[token]"

    return PATTERN.sub(mark, text), counts


def luhn(number: str) -> bool:
    digits = [int(ch) for ch in reversed(number) if ch.isdigit()]
    doubled = [d * 2 - 9 if d > 4 else d * 2 for d in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    clean, counts = redact(dedent(agent_output).strip())
    real_cards = [m["card"] for m in PATTERN.finditer(agent_output) if m["card"] and luhn(m["card"])]
    rules = {
        kind: {
            "info": kind,
            "operator": "<=",
            "value": most,
            "violation": f"{counts[kind]} {kind}(s) in the draft, at most {most} may go out",
        }
        for kind, most in LIMITS.items()
    }
    denied, violations = check_rule(rules, {kind: counts[kind] for kind in LIMITS})
    return {
        "label": 1 if denied else 0,
        "reasons": [violations[kind] for kind in sorted(violations)],
        "details": {"preview": shorten(clean, width=60, placeholder="..."), "valid_cards": len(real_cards)},
        "answer": None if denied else clean,
    }
