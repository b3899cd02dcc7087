"""Keeps the drafts of sentences with open questions until there are answers, so that nothing is drafted twice."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from guardagent._support.files import parse_json, read_text, save_text
from guardagent.errors import AnswerError, ContentError
from guardagent.translation.answers import read_draft
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafting import draft_text
from guardagent.translation.drafts import Draft
from guardagent.translation.readings import SentenceGroup

_FILE = "open-groups.json"


def save_groups(folder: Path, groups: Iterable[SentenceGroup], context: TranslationContext) -> None:
    """Writes groups to a folder, with the hashes of all sentences, as their numbers change with the document.

    Raises:
        InputError: the file cannot be written.
    """
    save_text(folder / _FILE, json.dumps([_record(one, context) for one in groups], ensure_ascii=False, indent=1))


def load_groups(folder: Path, context: TranslationContext, sentences: Collection[int]) -> tuple[SentenceGroup, ...]:
    """Reads the groups of a folder that consist of some of the given sentences, with their present numbers.

    Raises:
        ContentError: the file is no record of groups.
    """
    path = folder / _FILE
    if not path.exists():
        return ()
    numbers = context.document.first_numbers
    records = parse_json(read_text(path), path)
    try:
        found = [_group(one, numbers) for one in records]
    except (KeyError, TypeError, ValueError, AttributeError, AnswerError) as error:
        raise ContentError(f"is no record of open questions ({error}); delete it", path) from None
    return tuple(one for one in found if one is not None and {*one.sentences} <= {*sentences})


def _record(group: SentenceGroup, context: TranslationContext) -> dict[str, Any]:
    return {
        "sentences": list(group.sentences),
        "hashes": {str(one): context.sentence(one).hash for one in _numbers(group)},
        "first": _draft_record(group.first),
        "second": _draft_record(group.second),
        "problems": list(group.problems),
        "enforceable": group.enforceable,
    }


def _numbers(group: SentenceGroup) -> set[int]:
    """The numbers that its drafts mention."""
    others = (
        number for draft in group.drafts for number in (*draft.declined, *(one.sentence for one in draft.ambiguities))
    )
    return {*group.grounds, *others}


def _draft_record(draft: Draft | None) -> dict[str, Any] | None:
    if draft is None:
        return None
    says_something = draft.rules or draft.declined or draft.ambiguities
    return {"answer": draft_text(draft) if says_something else "", "rulings": list(draft.rulings)}


def _group(record: Mapping[str, Any], numbers: Mapping[str, int]) -> SentenceGroup | None:
    """The group with the present numbers of its sentences; None if one of them is not in the document any more."""
    if not {*record["hashes"].values()} <= numbers.keys():
        return None
    now = {int(old): numbers[name] for old, name in record["hashes"].items()}
    sentences = tuple(sorted(now[one] for one in record["sentences"]))
    first, second = (_draft(record[side], sentences, now) for side in ("first", "second"))
    return SentenceGroup(sentences, first, second, tuple(record["problems"]), bool(record["enforceable"]))


def _draft(record: Mapping[str, Any] | None, sentences: tuple[int, ...], now: Mapping[int, int]) -> Draft | None:
    if record is None:
        return None
    draft = read_draft(record["answer"], sentences) if record["answer"] else Draft(sentences)
    return replace(
        draft,
        rules=tuple(replace(one, quotes={now[at]: words for at, words in one.quotes.items()}) for one in draft.rules),
        declined={now[at]: reason for at, reason in draft.declined.items()},
        ambiguities=tuple(replace(one, sentence=now[one.sentence]) for one in draft.ambiguities),
        rulings=tuple(map(str, record["rulings"])),
    )
