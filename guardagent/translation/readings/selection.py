"""Selects some sentences of several drafts: their rules, with what these rules need."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from guardagent.errors import InputError
from guardagent.translation.drafts import Ambiguity, Draft, RuleDraft

Declarations = Mapping[str, Mapping[str, Any]]


def selected(
    drafts: Sequence[Draft], sentences: tuple[int, ...], rules: Sequence[RuleDraft], ambiguities: Iterable[Ambiguity]
) -> Draft:
    """One draft of some sentences.

    Args:
        drafts: the drafts that concern these sentences.
        sentences: the sentences.
        rules: those of their rules that rest on them.
        ambiguities: those of their ambiguities that concern them.

    Raises:
        InputError: two of the drafts have rules of one id, or different declarations of one name.
    """
    ids = [one.id for one in rules]
    if twice := sorted({one for one in ids if ids.count(one) > 1}):
        raise InputError(f"two drafts have a rule {twice[0]!r}; expected another id for each rule")
    text = _text([one.source for one in rules])
    seen = [set(one.rulings) for one in drafts]
    return Draft(
        sentences,
        tuple(rules),
        _needed(text, drafts),
        tuple(dict.fromkeys(fact for one in drafts for fact in one.facts if _mentions(text, fact.name))),
        {number: why for one in drafts for number, why in one.declined.items() if number in sentences},
        tuple(ambiguities),
        tuple(sorted(set.intersection(*seen))) if seen else (),
    )


def _needed(text: str, drafts: Sequence[Draft]) -> Declarations:
    """The declarations that a text mentions, and those that these mention."""
    found: dict[str, dict[str, Any]] = {}
    waiting = [text]
    while waiting:
        mentioned = waiting.pop()
        for key, name, value in _declared(drafts):
            if not _mentions(mentioned, name.partition("(")[0]):
                continue
            known = found.setdefault(key, {})
            if name not in known:
                waiting.append(_text(value))
            if known.setdefault(name, value) != value:
                raise InputError(f"two drafts declare {name!r} in '{key}' differently; expected another name")
    return found


def _declared(drafts: Sequence[Draft]) -> Iterable[tuple[str, str, Any]]:
    for draft in drafts:
        for key, names in draft.declarations.items():
            for name, value in names.items():
                yield key, str(name), value


def _text(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
