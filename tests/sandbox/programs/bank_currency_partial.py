"""Turns amounts of several currencies into one with exact fractions and prepared functions."""

import re
from fractions import Fraction
from functools import partial, reduce

RATES = {"EUR": Fraction(1), "USD": Fraction(10, 11), "GBP": Fraction(7, 6), "JPY": Fraction(1, 160)}
AMOUNT = re.compile(r"(?P<currency>[A-Z]{3})\s(?P<value>\d+(?:\.\d+)?)(?P<thousand>k?)\b")


def convert(value: Fraction, *, source: str, target: str = "EUR") -> Fraction:
    return value * RATES[source] / RATES[target]


CONVERTERS = {code: partial(convert, source=code) for code in RATES}
at_most = partial(dict, operator="<=")


def compose(*functions):
    """The functions one after the other, from the left."""
    return reduce(lambda f, g: lambda x: g(f(x)), functions, lambda x: x)


def read_amounts(text: str) -> list:
    amounts = []
    for m in AMOUNT.finditer(text):
        if m["currency"] not in CONVERTERS:
            raise KeyError(f"no rate for {m['currency']}")
        steps = [Fraction, CONVERTERS[m["currency"]]]
        if m["thousand"]:
            steps.insert(1, lambda x: x * 1000)
        amounts.append(compose(*steps)(m["value"]))
    return amounts


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    try:
        amounts = read_amounts(agent_output)
    except KeyError as error:
        return {"label": 1, "reasons": [str(error.args[0])], "details": {}, "answer": None}
    total = sum(amounts, Fraction(0))
    limit = facts.get("limit_eur", 1500)
    rules = {
        "total": at_most(info="total", value=limit, violation=f"{float(total):.2f} EUR exceed {limit} EUR"),
        "single": at_most(info="single", value=limit / 2, violation="one amount is over half of the limit"),
    }
    denied, violations = check_rule(rules, {"total": float(total), "single": float(max(amounts, default=0))})
    in_usd = convert(total, source="EUR", target="USD")
    return {
        "label": 1 if denied else 0,
        "reasons": [text for _, text in sorted(violations.items())],
        "details": {"total": str(total), "usd": f"{float(in_usd):>12,.3f}", "parts": [a.denominator for a in amounts]},
        "answer": None if denied else f"{float(total):.2f} EUR",
    }
