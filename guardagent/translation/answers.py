"""Reads a draft in a model's answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from guardagent.errors import AnswerError
from guardagent.policy.file.policy_keys import Key, keys, mapping, name, plain_text
from guardagent.policy.file.rule_keys import POLICIES
from guardagent.policy.review.record import NeededFact
from guardagent.translation.drafts import DECLARATIONS, Ambiguity, Draft, RuleDraft
from guardagent.translation.requests import (
    listed,
    optional_text,
    plain,
    plain_mapping,
    position,
    read_answer,
    sentence_number,
)
from guardagent.translation.survey import FACTS, READINGS, ambiguity

_SENTENCE = Key("sentence", sentence_number, "the number of a sentence", required=True)
_QUOTE = Key(
    "quote",
    mapping,
    "a mapping with 'sentence' and 'words'",
    keys=keys(_SENTENCE, Key("words", plain_text, "the quoted words", required=True)),
)
_DECLINED = Key(
    "declined sentence",
    mapping,
    "a mapping with 'sentence' and 'reason'",
    keys=keys(_SENTENCE, Key("reason", plain_text, "a reason", required=True)),
)
_AMBIGUOUS = Key(
    "ambiguous sentence",
    mapping,
    "a mapping with 'sentence', 'question' and 'readings'",
    keys=keys(
        _SENTENCE,
        Key("question", optional_text, "a string", required=True),
        READINGS,
        Key("follows", position, "the position of a reading, from 1"),
    ),
)
_FOLLOWED = Key(
    "followed reading",
    mapping,
    "a mapping with 'doubt' and 'reading'",
    keys=keys(
        Key("doubt", position, "the number of a doubt", required=True),
        Key("reading", position, "the position of a reading, from 1", required=True),
    ),
)


def _rule() -> Key:
    """A policy with its quotes and cases. Its other keys are read when the policy is loaded."""
    assert POLICIES.item is not None, "it is a list"
    own = [
        Key(one, plain, "as in a policy file") for one in POLICIES.item.keys if one not in ("id", "request", "program")
    ]
    return Key(
        "rule",
        mapping,
        "a mapping with 'id', 'quotes', 'temporal' or 'solver', and 'cases'",
        keys=keys(
            Key("id", name, "a name", required=True),
            Key("quotes", listed, "a list of quotes", item=_QUOTE, required=True),
            Key("cases", listed, "a list of cases", item=Key("case", plain_mapping, "a case")),
            *own,
        ),
    )


_ANSWER = Key(
    "answer",
    mapping,
    "a mapping with 'rules', 'declined' or both",
    keys=keys(
        FACTS,
        Key("declarations", mapping, "a mapping", keys=keys(*(Key(one, plain, "a mapping") for one in DECLARATIONS))),
        Key("rules", listed, "a list of rules", item=_rule()),
        Key("declined", listed, "a list of sentences with reasons", item=_DECLINED),
        Key("ambiguous", listed, "a list of sentences with questions", item=_AMBIGUOUS),
        Key("followed", listed, "a list of doubts with readings", item=_FOLLOWED),
    ),
)


def read_draft(
    answer: str, sentences: Collection[int], known: Collection[str] = (), doubts: Sequence[Ambiguity] = ()
) -> Draft:
    """Reads a draft.

    Args:
        answer: the text of the answer.
        sentences: the numbers of the sentences that were to be translated.
        known: the names of the facts that need no declaration.
        doubts: the ambiguities of which the answer says what the rules follow.

    Raises:
        AnswerError: the answer is no draft; with the line.
    """
    found = read_answer(answer, _ANSWER)
    if not any(found.get(one) for one in ("rules", "declined", "ambiguous")):
        raise AnswerError(
            "the answer has no 'rules' and no 'declined' sentences; expected each sentence in one of them"
        )
    draft = Draft(
        tuple(sentences),
        tuple(map(_rule_draft, found.get("rules", ()))),
        {key: _names(key, value) for key, value in found.get("declarations", {}).items() if value},
        tuple(NeededFact(**one) for one in found.get("facts", ()) if one["name"] not in known),
        {one["sentence"]: " ".join(one["reason"].split()) for one in found.get("declined", ())},
        tuple(map(_ambiguous, found.get("ambiguous", ()))),
    )
    settled = {*draft.declined, *(number for rule in draft.rules for number in rule.quotes)}
    followed = [_followed(one, doubts) for one in found.get("followed", ())]
    return replace(draft, ambiguities=(*draft.ambiguities, *(one for one in followed if one.sentence in settled)))


def _ambiguous(found: Mapping[str, Any]) -> Ambiguity:
    one = ambiguity(found["sentence"], found["question"], found.get("readings", ()))
    return _following(one, found["follows"]) if "follows" in found else one


def _followed(found: Mapping[str, Any], doubts: Sequence[Ambiguity]) -> Ambiguity:
    if found["doubt"] > len(doubts):
        raise AnswerError(f"'followed' has the doubt {found['doubt']}; there are {len(doubts)} of them")
    return _following(doubts[found["doubt"] - 1], found["reading"])


def _following(one: Ambiguity, reading: int) -> Ambiguity:
    if reading > len(one.readings):
        raise AnswerError(f"sentence {one.sentence}: the reading {reading} is followed; there are {len(one.readings)}")
    return replace(one, follows=one.readings[reading - 1])


def _names(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise AnswerError(f"'declarations: {key}' is a {type(value).__name__}; expected names with their values")
    return value


def _rule_draft(found: Mapping[str, Any]) -> RuleDraft:
    quotes: dict[int, str] = {}
    for one in found["quotes"]:
        number, words = one["sentence"], " ".join(one["words"].split())
        quotes[number] = f"{quotes[number]} … {words}" if number in quotes else words
    rule = {key: value for key, value in found.items() if key not in ("id", "quotes", "cases")}
    return RuleDraft(found["id"], rule, quotes, found.get("cases", ()))
