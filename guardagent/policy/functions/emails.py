"""`emails(text)`: the e-mail addresses in a string, in lower case, without duplicates.

An address has a domain with a dot, or an IP address in brackets. A local part in quotes is found too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from guardagent.policy.functions import RuleFunction
from guardagent.policy.functions._entities import without_entities
from guardagent.policy.functions._search import matches_in
from guardagent.policy.language.values import Unknown

_WORD = r"[\pL\pN\pM\x{200b}-\x{200d}_-]"
_LOCAL = r"(?:[\pL\pN\pM\x{200b}-\x{200d}.!#$%&'*+/=?^_{|}~`-]+|\"[^\"\r\n]{1,64}\")"
_EMAIL = rf"{_LOCAL}@(?:{_WORD}+(?:\.{_WORD}+)+|\[[0-9A-Za-z:.]+\])"


def _emails(text: str) -> Any:
    found = matches_in(without_entities(text), _EMAIL)
    if isinstance(found, Unknown):
        return found
    return list(dict.fromkeys(one for groups in found for one in _readings(str(groups[0]).lower())))


def _readings(address: str) -> Iterator[str]:
    """The address; also the part after a separator, since 'to=a@b.c' may be an address or a parameter with one."""
    local, _, domain = address.rpartition("@")
    local, domain = local.lstrip(_BEFORE) or local, domain.rstrip("-_")
    yield f"{local}@{domain}"
    if (last := _SEPARATORS.split(local)[-1]) not in ("", local):
        yield f"{last}@{domain}"


_BEFORE = ".'`*_~/=?&{|"  # punctuation of the text, as in '*a@b.c*'
_SEPARATORS = re.compile(r"[=/?&|]")

FUNCTION = RuleFunction(_emails, (("text",),), result="list")
