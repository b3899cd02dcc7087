"""`tokens(text)`: the identifying tokens of a string, in their normal form; without any, the string itself."""

from __future__ import annotations

from functools import cache

from guardagent.policy.functions import RuleFunction
from guardagent.policy.provenance.tokens import Scanner


@cache
def _scanner() -> Scanner:
    return Scanner()


def _tokens(text: str) -> list[str]:
    found = [token.readings[0] for token in _scanner().read(text).tokens if token.identifies]
    return list(dict.fromkeys(found)) or [text]


FUNCTION = RuleFunction(_tokens, (("text",),), result="list")
