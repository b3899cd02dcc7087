"""Transfer limits by kind of account; the request and the limits are typed dictionaries."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Dict, Final, List, Literal, Optional, TypedDict

Kind = Literal["student", "private", "business"]


class Limits(TypedDict):
    single: Decimal
    foreign: bool


class Transfer(TypedDict, total=False):
    amount: Decimal
    currency: str
    country: Optional[str]


LIMITS: Final[Dict[Kind, Limits]] = {
    "student": {"single": Decimal("300"), "foreign": False},
    "private": {"single": Decimal("2500.00"), "foreign": True},
    "business": {"single": Decimal("1e5"), "foreign": True},
}
AMOUNT: Final = re.compile(r"(?P<currency>EUR|USD)\s*(?P<amount>\d{1,3}(?:,\d{3})*(?:\.\d\d)?)")


def read_transfer(text: str) -> Transfer:
    found = AMOUNT.search(text)
    if found is None:
        raise ValueError("no amount in the transfer")
    transfer: Transfer = {"currency": found["currency"], "amount": Decimal(found["amount"].replace(",", ""))}
    country: str | None = text.rpartition(" to ")[2].split("/")[0].strip() if "/" in text else None
    if country:
        transfer["country"] = country.upper()
    return transfer


def check(agent_input: str, agent_output: str, facts: Dict[str, Any]) -> Dict[str, Any]:
    kind: Kind = facts["kind"]
    limits: Limits = LIMITS[kind]
    transfer = read_transfer(agent_output)
    info: Dict[str, Any] = {
        "amount": float(transfer["amount"]),
        "abroad": transfer.get("country", "DE") != "DE",
    }
    single: float = float(limits["single"])
    rules: Dict[str, Dict[str, Any]] = {
        "single": {"info": "amount", "operator": "<=", "value": single, "violation": f"{kind}: at most {single:.2f}"},
    }
    if not limits["foreign"]:
        rules["foreign"] = {"info": "abroad", "operator": "==", "value": False, "violation": f"{kind}: not abroad"}
    denied, violations = check_rule(rules, info)
    reasons: List[str] = [violations[name] for name in rules if name in violations]
    shown = {key: str(value) for key, value in transfer.items()}
    return {"label": 1 if denied else 0, "reasons": reasons, "details": shown, "answer": None if denied else "sent"}
