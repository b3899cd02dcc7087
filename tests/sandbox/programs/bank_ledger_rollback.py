"""Tries the transfers on a copy of the ledger; an unpaid one is rolled back by the context manager."""

import copy
import re
from typing import List, NamedTuple, Optional


class Overdrawn(Exception):
    """The account has too little money."""


class Booking(NamedTuple):
    source: str
    target: str
    amount: int
    memo: Optional[str] = None


class Transaction:
    def __init__(self, ledger: dict, *, floor: int = 0):
        self.ledger = ledger
        self.floor = floor
        self.saved = {}

    def __enter__(self) -> "Transaction":
        self.saved = copy.deepcopy(self.ledger)
        return self

    def book(self, entry: Booking) -> None:
        source = self.ledger[entry.source]
        source["balance"] -= entry.amount
        self.ledger.setdefault(entry.target, {"balance": 0, "log": []})["balance"] += entry.amount
        source["log"] += [f"{entry.target}: {-entry.amount:+d}"]
        if source["balance"] < self.floor:
            raise Overdrawn(f"{entry.source} would fall to {source['balance']}")

    def __exit__(self, kind, error, trace) -> bool:
        if error is not None:
            self.ledger.clear()
            self.ledger.update(self.saved)
        return False


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    ledger = {name: {"balance": money, "log": []} for name, money in facts["accounts"].items()}
    pattern = r"pay (?P<amount>\d+) from (?P<source>\w+) to (?P<target>\w+)(?: for (?P<memo>[\w ]+))?"
    found = re.finditer(pattern, agent_output)
    entries: List[Booking] = [Booking(m["source"], m["target"], int(m["amount"]), m["memo"]) for m in found]
    failures, memos = [], {e.memo for e in entries if e.memo is not None}
    for entry in entries:
        try:
            with Transaction(ledger, floor=facts.get("floor", 0)) as transaction:
                transaction.book(entry)
        except (Overdrawn, KeyError) as error:
            failures.append(f"{type(error).__name__}: {error}")
    rule = {"info": "failed", "operator": "==", "value": 0, "violation": f"{len(failures)} transfer(s) cannot be paid"}
    denied, violations = check_rule({"funds": rule}, {"failed": len(failures)})
    details = {"ledger": ledger, "memos": sorted(memos), "failures": failures}
    return {"label": int(denied), "reasons": [*violations.values(), *failures], "details": details, "answer": None}
