"""Tests the checksum of account numbers before a transfer and refuses blocked countries."""

import re
import string
from functools import lru_cache

VALUES = {letter: str(number) for number, letter in enumerate(string.ascii_uppercase, start=10)}
LENGTHS = {"DE": 22, "FR": 27, "NL": 18, "GB": 22}
CANDIDATE = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{2,4}){3,7}\b")


class AccountError(ValueError):
    def __init__(self, account, problem):
        super().__init__(f"{mask(account)} {problem}")
        self.account = account


def mask(account: str) -> str:
    return account[:4] + "*" * max(0, len(account) - 8) + account[-4:]


@lru_cache(maxsize=256)
def remainder(account: str) -> int:
    rest = 0
    for digit in "".join(VALUES.get(ch, ch) for ch in account[4:] + account[:4]):
        rest = (rest * 10 + int(digit)) % 97
    return rest


def validate(account: str) -> str:
    country = account[:2]
    if country not in LENGTHS:
        raise AccountError(account, f"is of country {country!r}, which is not served")
    if len(account) != LENGTHS[country]:
        raise AccountError(account, f"has {len(account)} signs instead of {LENGTHS[country]}")
    if remainder(account) != 1:
        raise AccountError(account, "has a wrong checksum")
    return country


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    accounts = [found.replace(" ", "") for found in CANDIDATE.findall(agent_output)]
    errors, countries = [], set()
    for account in accounts:
        try:
            countries.add(validate(account))
        except AccountError as error:
            errors.append(str(error))
    blocked = countries & set(facts.get("blocked", ()))
    info = {"errors": len(errors), "accounts": len(accounts), "blocked": bool(blocked)}
    rules = {
        "some": {"info": "accounts", "operator": ">=", "value": 1, "violation": "no account number was found"},
        "valid": {"info": "errors", "operator": "==", "value": 0, "violation": "; ".join(errors)},
        "country": {"info": "blocked", "operator": "==", "value": False, "violation": "the country is blocked"},
    }
    denied, violations = check_rule(rules, info)
    details = {"accounts": [mask(a) for a in accounts], "countries": sorted(countries)}
    return {"label": 1 if denied else 0, "reasons": list(violations.values()), "details": details, "answer": None}
