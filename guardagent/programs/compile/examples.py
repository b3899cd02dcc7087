"""Labelled examples: runs of the target agent, each with the label that the guard should return."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from guardagent._support.files import read_json_lines
from guardagent.errors import ContentError, InputError, name_hint
from guardagent.programs.program_file import digest_of
from guardagent.types import Context, Event, thaw

_KEYS = ("id", "agent_input", "agent_output", "label")


@dataclass(frozen=True, slots=True)
class Example:
    """One run with its label: 1 if the guard should deny it, else 0.

    Attributes:
        facts: the host's facts for this run.
        clauses: the numbers of the request's sentences that the run violates, if annotated.
        details: the details that the program must return, if annotated; it may return more.
    """

    id: str
    agent_input: str
    agent_output: str
    label: int
    facts: Mapping[str, Any] = field(default_factory=dict)
    clauses: tuple[int, ...] = ()
    details: Mapping[str, Any] | None = None

    @property
    def run(self) -> str:
        """The run without its annotations, as a string for comparison."""
        return json.dumps([self.agent_input, self.agent_output, thaw(self.facts)], sort_keys=True, default=str)

    def with_text(self, origin: str, text: str, label: int | None = None) -> Example:
        """Returns the example with another input or output, and optionally another label."""
        label = self.label if label is None else label
        if origin == "agent_input":
            return replace(self, agent_input=text, label=label)
        return replace(self, agent_output=text, label=label)

    @property
    def event(self) -> Event:
        return Event("agent_run", args={"input": self.agent_input}, output=self.agent_output)

    @property
    def context(self) -> Context:
        return Context(facts=self.facts)


def read_examples(source: Path | str | Iterable[Example | Mapping[str, Any]]) -> list[Example]:
    """Reads the examples of a JSON Lines file, or of records of the same shape. Ignores unknown keys.

    Raises:
        ContentError: a record is invalid, an id appears twice, or the same run has both labels; with the location.
        InputError: one of the labels has no example, so that a constant program would pass.
    """
    if isinstance(source, Path | str):
        name = "standard input" if str(source) == "-" else str(source)
        examples = [read_example(record, name, line) for line, record in read_json_lines(source)]
    else:
        name = "examples"
        examples = [
            record if isinstance(record, Example) else read_example(record, name, number)
            for number, record in enumerate(source, start=1)
        ]
    _refuse_unusable(examples, name)
    return examples


def digest_of_examples(examples: Sequence[Example]) -> str:
    """Returns the digest of the examples, independent of the order and layout of the file."""
    rows = sorted(
        json.dumps(
            [
                *(e.id, e.agent_input, e.agent_output, e.label, thaw(e.facts)),
                *([e.clauses] if e.clauses else []),
                *([] if e.details is None else [thaw(e.details)]),
            ],
            sort_keys=True,
            default=str,
        )
        for e in examples
    )
    return digest_of("\n".join(rows))


def read_example(record: Mapping[str, Any], path: str, line: int) -> Example:
    """Converts one record.

    Raises:
        ContentError: the record is invalid; with its location and the expected value.
    """
    if not isinstance(record, Mapping):
        raise ContentError(
            f"is a {type(record).__name__}; expected an object with {', '.join(map(repr, _KEYS))}", path, line
        )
    for key in _KEYS:
        if key not in record:
            raise ContentError(f"key {key!r} is missing{name_hint(key, map(str, record))}", path, line)
    for key in ("agent_input", "agent_output"):
        if not isinstance(record[key], str) or not record[key].strip():
            raise ContentError(f"key {key!r} is empty or not a string; expected a non-empty string", path, line)
    label, name, facts = record["label"], record["id"], record.get("facts") or {}
    if type(label) is not int or label not in (0, 1):
        raise ContentError(f"key 'label' is {label!r}; expected the number 0 or 1", path, line)
    if not isinstance(name, str | int) or isinstance(name, bool) or not str(name).strip():
        raise ContentError(f"key 'id' is {name!r}; expected a non-empty string", path, line)
    if not isinstance(facts, Mapping):
        raise ContentError("key 'facts' is not an object; expected an object with the host's facts", path, line)
    clauses, details = _clauses(record, label, path, line), _details(record, path, line)
    return Example(str(name), record["agent_input"], record["agent_output"], label, dict(facts), clauses, details)


def _clauses(record: Mapping[str, Any], label: int, path: str, line: int) -> tuple[int, ...]:
    clauses = record.get("clauses") or []
    if not isinstance(clauses, list) or not all(type(one) is int for one in clauses) or (clauses and label == 0):
        raise ContentError(
            f"key 'clauses' is {clauses!r}; expected the numbers of the sentences that a run with label 1 violates",
            path,
            line,
        )
    return tuple(clauses)


def _details(record: Mapping[str, Any], path: str, line: int) -> Mapping[str, Any] | None:
    details = record.get("details")
    if details is None or isinstance(details, Mapping):
        return details
    raise ContentError("key 'details' is not an object; expected the details that the program must return", path, line)


def _refuse_unusable(examples: Sequence[Example], name: str) -> None:
    twice = [one for one, count in Counter(example.id for example in examples).items() if count > 1]
    if twice:
        raise ContentError(f"id {twice[0]!r} appears twice; expected each id once", name)
    seen: dict[str, Example] = {}
    for example in examples:
        other = seen.setdefault(example.run, example)
        if other.label != example.label:
            raise ContentError(
                f"{other.id!r} and {example.id!r} are the same run with different labels; expected one label", name
            )
    missing = {0, 1} - {example.label for example in examples}
    if missing:
        raise InputError(
            f"{name}: no example has label {min(missing)}; expected at least one run that is allowed (0) and one that "
            "is denied (1), otherwise a program with a constant answer would pass"
        )
