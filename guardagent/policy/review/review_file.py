"""The review file beside a policy file. It is read strictly: a record that is misread confirms something else."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast, get_args

from guardagent._support.files import parse_json, read_text, save_text
from guardagent._support.json_values import plain, record_of
from guardagent.errors import ContentError
from guardagent.policy.documents.sentences import Kind, identity
from guardagent.policy.review.record import Confirmation, RecordedAnswer, Review, ReviewedSentence

VERSION = 1
SUFFIX = ".review.json"
MAX_BYTES = 50_000_000


def review_path(policies: Path | str) -> Path:
    """Returns the review file of a policy file: `policies.review.json` beside `policies.yaml`."""
    path = Path(policies)
    return path.with_name(path.stem + SUFFIX)


def read_review(path: Path | str) -> Review:
    """Reads a review file.

    Raises:
        InputError: the file is missing or unreadable.
        ContentError: it is not a review file, or contradicts itself; the message has the path of keys.
    """
    path = Path(path)
    if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe or a device may never end
        raise ContentError("is not a regular file; expected a review file", path)
    return _parsed(read_text(path, limit=MAX_BYTES), path)


def write_review(path: Path | str, review: Review) -> None:
    """Writes a review file, as a whole or not at all.

    Raises:
        InputError: it cannot be written.
        ContentError: nobody could read the file again; nothing is written.
    """
    try:
        text = json.dumps({"version": VERSION, **plain(review)}, indent=1, ensure_ascii=False) + "\n"
    except RecursionError:
        raise ContentError("is nested too deep to be written; expected fewer levels", path) from None
    _parsed(text, Path(path))
    save_text(path, text)


def instant(text: str) -> dt.datetime | None:
    """Returns the time of a record; None if it is no time or has no zone."""
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if found.utcoffset() is None else found


def _parsed(text: str, path: Path) -> Review:
    value = parse_json(text, path)
    if not isinstance(value, dict) or "version" not in value:
        raise ContentError("is not a review file; expected a JSON object with 'version' and 'sentences'", path)
    version = value.pop("version")
    if type(version) is not int or version != VERSION:
        raise ContentError(f"version: is {str(version)[:60]!r}; expected {VERSION}", path)
    try:
        review = record_of(Review, value)
    except ValueError as error:
        raise ContentError(str(error), path) from None
    for problem in _problems(review):
        raise ContentError(problem, path)
    return review


def _problems(review: Review) -> Iterator[str]:
    """Yields contradictions in a review, with the path of keys."""
    if not re.fullmatch("[0-9a-f]{64}", review.document_hash):
        yield "document_hash: is not a SHA-256; expected 64 hexadecimal digits"
    yield from _sentence_problems(review.sentences)
    yield from _repeated("rules", (one.id for one in review.rules))
    yield from _repeated("questions", (one.id for one in review.questions))
    yield from _repeated("answers", (one.question for one in review.answers))
    yield from _answer_problems(review)
    yield from _signature_problems("answers", review.answers)
    yield from _signature_problems("confirmations", review.confirmations)


def _sentence_problems(sentences: tuple[ReviewedSentence, ...]) -> Iterator[str]:
    same: dict[str, tuple[Any, ...]] = {}
    for at, one in enumerate(sentences):
        if one.number != at + 1:
            yield f"sentences[{at}].number: is {one.number}; expected {at + 1}, as all sentences are listed in order"
        if one.kind not in get_args(Kind):
            yield f"sentences[{at}].kind: is {one.kind!r}; expected one of {', '.join(map(repr, get_args(Kind)))}"
        if one.hash not in _identities(one, sentences[0]):
            yield (
                f"sentences[{at}].hash: is not the hash of sentence {one.number} ({one.text[:60]!r}): it was edited "
                "here; edit the document instead, and run 'guardagent translate' again"
            )
        yield from _repeated(f"sentences[{at}].rules", one.rules)
        if same.setdefault(one.hash, result := (one.fate, frozenset(one.rules))) != result:
            yield (
                f"sentences[{at}]: sentence {one.number} repeats an earlier one with another fate or other rules; "
                "expected the same, since one confirmation is for both"
            )


def _identities(one: ReviewedSentence, first: ReviewedSentence) -> Iterator[str]:
    """The hashes that a sentence can have. The title of the document, its first sentence, is in the path only."""
    kind = cast("Kind", one.kind)
    yield identity(one.text, kind, one.path, one.context)
    if first.kind == "heading" and one.path[:1] == (first.text,):
        yield identity(one.text, kind, one.path[1:], one.context)


def _repeated(place: str, names: Iterable[str]) -> Iterator[str]:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{place}: {name[:60]!r} appears {count} times; expected it once"


def _answer_problems(review: Review) -> Iterator[str]:
    for at, question in enumerate(review.questions):
        if len(question.choices) < 2:
            yield f"questions[{at}].choices: has {len(question.choices)} entries; expected at least two"
    choices = {one.id: len(one.choices) for one in review.questions}
    for at, answer in enumerate(review.answers):
        if answer.question not in choices:
            yield f"answers[{at}].question: there is no question {answer.question[:60]!r}; expected one of 'questions'"
        elif problem := _choice_problem(answer, choices[answer.question] - 1):
            yield f"answers[{at}].{problem}"


def _choice_problem(answer: RecordedAnswer, last: int) -> str:
    """The problem of an answer, which is either a choice or in own words; empty if there is none."""
    if answer.choice is None:
        return "" if answer.words.strip() else f"choice: is null; expected a position from 0 to {last}, or 'words'"
    if answer.words:
        return "words: are given with a choice; expected one of both, and null for the other or no key"
    if not 0 <= answer.choice <= last:
        return f"choice: is {answer.choice}; expected a position from 0 to {last}, or null with 'words'"
    return ""


def _signature_problems(key: str, signed: Iterable[RecordedAnswer | Confirmation]) -> Iterator[str]:
    for at, one in enumerate(signed):
        if not one.by.strip():
            yield f"{key}[{at}].by: is empty; expected the name of a person"
        if instant(one.at) is None:
            yield f"{key}[{at}].at: is {one.at[:60]!r}; expected a time with zone, such as 2026-01-31T09:00:00+01:00"
