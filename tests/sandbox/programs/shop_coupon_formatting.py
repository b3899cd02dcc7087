"""Checks coupon codes of an order; the messages are put together with the older ways of formatting."""

import string

TEMPLATE = "coupon {code!r} takes {percent:.1f}% off, but {tier} members get at most {cap:>5.1f}%"
CAPS = {"bronze": 10.0, "silver": 20.0, "gold": 35.0}
ALPHABET = string.ascii_uppercase + string.digits


def checksum(code: str) -> int:
    total = 0
    i = 0
    while i < len(code):
        ch = code[i]
        if ch not in ALPHABET:
            break
        total += ALPHABET.index(ch) * (i + 1)
        i += 1
    else:
        return total % 97
    return -1


def percent_of(code: str) -> float:
    digits = "".join(ch for ch in code if ch in string.digits)
    return float(digits) if digits else 0.0


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    tier = facts.get("tier", "bronze")
    cap = CAPS[tier]
    words = agent_output.replace(",", " ").split()
    codes = [w.strip(string.punctuation).upper() for w in words if w.startswith(("SAVE", "DEAL", "save", "deal"))]
    rules, info = {}, {}
    for code in codes:
        percent = percent_of(code)
        info[code] = percent
        rules[code] = dict(
            info=code,
            operator="<=",
            value=cap,
            violation=TEMPLATE.format(code=code, percent=percent, tier=tier, cap=cap),
        )
        print("%-10s %6.2f %%  sum=%02d" % (code, percent, checksum(code)))
    denied, violations = check_rule(rules, info)
    summary = "{0} code(s), best {1:.0f}%, {name}".format(len(codes), max(info.values(), default=0), name=tier)
    return {
        "label": 1 if denied else 0,
        "reasons": [violations[code] for code in codes if code in violations],
        "details": {"summary": summary, "sums": {code: checksum(code) for code in codes}},
        "answer": None if denied else "applied: %s" % (", ".join(codes) or "nothing"),
    }
