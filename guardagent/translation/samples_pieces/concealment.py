"""Hides values that look like secrets: samples are shown to a model and to reviewers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from guardagent.models.redaction import scrub
from guardagent.packs.secrets.functions import assignments, card_numbers, disorder

HIDDEN = "[secret]"
_DEEPEST_VALUE = 30
_NAME = re.compile(
    r"passw|pwd|secret|token|api_?key|private_?key|credential|\bauth(?:orization)?\b|\bcvv|\bssn\b|\bpin\b",
    re.IGNORECASE,
)
_KNOWN = re.compile(
    r"\b(?:sk|pk|rk)[-_][\w-]{16,}|\bgh[pousr]_\w{20,}|\bxox[abprs]-[\w-]{10,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bAIza[\w-]{30,}|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END|$)"
    r"|\bBearer\s+[\w.~+/-]{12,}=*"
)
_WORD = re.compile(r"[A-Za-z0-9+/_=-]{24,}")
_DISORDER = 4.0  # bits for each character: names and dates have less


def conceal(value: Any, depth: int = 0) -> Any:
    """Returns a JSON value with a mark in place of secrets: by the name of a field, or by their form."""
    if depth > _DEEPEST_VALUE:
        return HIDDEN
    if isinstance(value, str):
        return conceal_text(value)
    if isinstance(value, Mapping):
        return {
            conceal_text(str(key)): HIDDEN if _NAME.search(str(key)) and _is_value(one) else conceal(one, depth + 1)
            for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [conceal(one, depth + 1) for one in value]
    return value


@lru_cache(maxsize=20_000)  # traces repeat their strings
def conceal_text(text: str) -> str:
    """Returns a string with a mark in place of secrets."""
    text = _KNOWN.sub(HIDDEN, scrub(text))
    for one in [*(found["value"] for found in assignments(text)), *_WORD.findall(text)]:
        if _is_random(one):
            text = text.replace(one, HIDDEN)
    return re.sub(r"\d[\d -]{11,}\d", lambda found: HIDDEN if card_numbers(found[0]) else found[0], text)


def _is_value(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""


def _is_random(text: str) -> bool:
    has_both = re.search(r"\d", text) and re.search(r"[A-Za-z]", text)
    return len(text) >= 16 and bool(has_both) and disorder(text) >= _DISORDER
