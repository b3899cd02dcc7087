"""Builds its rules from keyword arguments and counts them in closures."""

from typing import Any, Callable

SYMBOLS = {"min": ">=", "max": "<=", "is": "==", "not": "!="}


def rule_builder(**defaults: str) -> tuple[Callable[..., dict], Callable[[], int]]:
    built = 0

    def build(info: str, *lines: str, **conditions: Any) -> dict:
        nonlocal built
        rules = {}
        for word, value in conditions.items():
            word = word.rstrip("_")
            text = lines[len(rules)] if len(lines) > len(rules) else defaults.get("text", "{info} must be {value}")
            rules[f"{info} {word}"] = {
                "info": info,
                "operator": SYMBOLS[word],
                "value": value,
                "violation": text.format(info=info, value=value, word=word),
            }
            built += 1
        return rules

    return build, lambda: built


def describe(*names: str, sep: str = ", ", last: str = " and ") -> str:
    *head, tail = names or ("nothing",)
    return sep.join(head) + last + tail if head else tail


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    build, built = rule_builder(text="{info} has to be {word} {value!r}")
    options = {"min": 1, "max": facts.get("daily_limit", 500)}
    rules = {
        **build("amount", "at least {value} must be sent", "{value} a day is the most", **options),
        **build("confirmed", "the customer has to confirm", is_=True),
        **build("country", not_="unknown"),
    }
    words = agent_output.lower().split()
    numbers = [int(word) for word in words if word.isdigit()]
    user = dict(
        amount=sum(numbers),
        confirmed="yes" in words or bool(facts.get("confirmed")),
        country=facts.get("country") or "unknown",
    )
    denied, violations = check_rule(rules, user)
    broken = [name.split()[0] for name in violations]
    if denied:
        reasons = [f"{describe(*sorted(set(broken)))} broke a rule", *violations.values()]
        return {"label": 1, "reasons": reasons, "details": {"user": user, "built": built()}, "answer": None}
    print("%d rules hold for %r" % (built(), user))
    return {"label": 0, "reasons": [], "details": {"user": user, "built": built()}, "answer": agent_output}


if __name__ == "__main__":
    print(describe("amount", "country", "confirmed"))
