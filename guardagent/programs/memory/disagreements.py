"""Disagreements between a program and a model on a run, pending in the agent's folder `disagreements/`, a file each.

A reviewer decides who is right (`guardagent memory review`). The run then becomes a labelled example in the agent's
`examples.jsonl`, an input of `guardagent compile`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardagent._support.files import parse_json, read_json_lines, read_text
from guardagent._support.locks import folder_lock, replace_file
from guardagent.errors import ContentError, InputError, UnknownNameError
from guardagent.programs.memory.learning import write_pending
from guardagent.types import Verdict, thaw

FOLDER = "disagreements"
EXAMPLES = "examples.jsonl"
MAX_PENDING = 1000
SIDES = ("program", "generated")
NEITHER = "neither"
_MAX_BYTES = 20_000_000


@dataclass(frozen=True, slots=True)
class SideVerdict:
    """The verdict of one side on a run; with `errors` if it could not judge."""

    label: int
    reasons: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    @classmethod
    def of(cls, verdict: Verdict) -> SideVerdict:
        return cls(verdict.label, verdict.reasons, verdict.errors)

    def to_dict(self) -> dict[str, Any]:
        return {"label": self.label, "reasons": list(self.reasons), "errors": list(self.errors)}


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One run, and both verdicts on it.

    Attributes:
        facts: the host's facts.
        enforced_side: the side whose verdict was enforced, one of `SIDES`.
        sides: name -> verdict.
    """

    id: str
    time: str
    agent_input: str
    agent_output: str
    facts: Mapping[str, Any]
    enforced_side: str
    sides: Mapping[str, SideVerdict]

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "time": self.time,
            **self._run(),
            "given": self.enforced_side,
            **{name: self.sides[name].to_dict() for name in SIDES},
        }

    def label(self, right: str) -> int:
        """Returns the label of the run if this side is right.

        Raises:
            InputError: `neither` was chosen although the labels differ, so one side must be right.
        """
        labels = {side.label for side in self.sides.values()}
        if right != NEITHER:
            return self.sides[right].label
        if len(labels) > 1:
            raise InputError(
                f"disagreement {self.id!r}: the labels differ; expected {' or '.join(map(repr, SIDES))} to be right"
            )
        return 1 - labels.pop()

    def example(self, right: str) -> dict[str, Any]:
        """Returns the run as a labelled example."""
        return {"id": self.id, **self._run(), "label": self.label(right)}

    def _run(self) -> dict[str, Any]:
        facts = {"facts": thaw(self.facts)} if self.facts else {}
        return {"agent_input": self.agent_input, "agent_output": self.agent_output, **facts}


def record_disagreement(folder: Path, found: Disagreement) -> None:
    """Records a disagreement as pending, unless it is pending already or became an example.

    Raises:
        InputError: too many disagreements are pending, or the file cannot be written.
    """
    path = _file(folder, found.id)
    if not path.exists() and found.id not in {row.get("id") for row in _examples(folder)}:
        write_pending(path, found.to_dict(), MAX_PENDING)


def pending(folder: Path) -> list[Disagreement]:
    """Returns the pending disagreements, oldest first.

    Args:
        folder: the agent's folder.

    Raises:
        ContentError: a file is invalid.
    """
    found = [_read(path) for path in (folder / FOLDER).glob("*.json")]
    return sorted(found, key=lambda one: (one.time, one.id))


def resolve(folder: Path, right: Mapping[str, str], dropped: Collection[str] = ()) -> None:
    """Turns disagreements into examples, and drops others.

    Args:
        folder: the agent's folder.
        right: id -> the side that is right: one of `SIDES`, or `neither` if both gave the same wrong label.
        dropped: the ids to drop without an example.

    Raises:
        InputError: an id or side is unknown, or an example has another label. Then nothing is changed.
    """
    known = {one.id: one for one in pending(folder)}
    for name in (*right, *dropped):
        if name not in known:
            raise UnknownNameError("disagreement", name, known, where=str(folder / FOLDER))
        if name in right and name in dropped:
            raise InputError(f"disagreement {name!r} is both resolved and dropped; expected one of these")
    for side in right.values():
        if side not in (*SIDES, NEITHER):
            raise UnknownNameError("side", side, (*SIDES, NEITHER))
    _add(folder, [known[name].example(side) for name, side in right.items()])
    for name in (*right, *dropped):
        _file(folder, name).unlink(missing_ok=True)


def _add(folder: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path = folder / EXAMPLES
    if not rows:
        return
    with folder_lock(folder):
        written = _examples(folder)
        new = [row for row in rows if not _is_known(row, written, path)]
        if not new:
            return
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in new)
        replace_file(path, old + ("" if not old or old.endswith("\n") else "\n") + lines)


def _is_known(row: Mapping[str, Any], written: Sequence[Mapping[str, Any]], path: Path) -> bool:
    """Whether an example exists already.

    Raises:
        ContentError: it exists with another label, which no program could satisfy.
    """
    same = next((one for one in written if one.get("id") == row["id"] or _run_of(one) == _run_of(row)), None)
    if same is not None and same.get("label") != row["label"]:
        raise ContentError(
            f"example {same.get('id')!r} is the same run as {row['id']!r} with label {same.get('label')} instead of "
            f"{row['label']}; expected one label: change the example, or drop the disagreement",
            path,
        )
    return same is not None


def _run_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (row.get("agent_input"), row.get("agent_output"), row.get("facts") or {})


def _examples(folder: Path) -> list[dict[str, Any]]:
    path = folder / EXAMPLES
    there = path.exists() and path.stat().st_size
    return [row for _, row in read_json_lines(path)] if there else []


def _file(folder: Path, name: str) -> Path:
    return folder / FOLDER / f"{name}.json"


def _read(path: Path) -> Disagreement:
    record = parse_json(read_text(path, limit=_MAX_BYTES), path)
    try:
        sides = {name: _side(record[name]) for name in SIDES}
        time, agent_input, log = (str(record[name]) for name in ("time", "agent_input", "agent_output"))
        facts, enforced_side = dict(record.get("facts") or {}), str(record["given"])
        return Disagreement(path.stem, time, agent_input, log, facts, enforced_side, sides)
    except (AttributeError, KeyError, TypeError, ValueError):
        wanted = "the keys 'time', 'agent_input', 'agent_output', 'given', 'program' and 'generated'"
        raise ContentError(f"is not a disagreement; expected {wanted}", path) from None


def _side(record: Mapping[str, Any]) -> SideVerdict:
    label = int(record["label"])
    if label not in (0, 1):
        raise ValueError(label)
    return SideVerdict(label, tuple(map(str, record["reasons"])), tuple(map(str, record["errors"])))
