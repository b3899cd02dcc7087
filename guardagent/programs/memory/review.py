"""Pending entries of an agent, and their review: executed guards, and disagreements of a program and a model.

The other side judges a sample of the runs again, a model for a program and a program for a model. This happens in the
background after the verdict, and changes no verdict. If the sides disagree, or the other side could not judge, the run
is pending in the agent's folder `disagreements/`, a file each.

A reviewer decides on the pending entries (`guardagent memory review`). An executed guard may become a demonstration. A
run on which the sides disagree becomes a labelled example in the agent's `examples.jsonl`, an input of `guardagent
compile`.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guardagent._support.execution import WorkerThread
from guardagent._support.files import (
    MAX_BYTES,
    folder_lock,
    parse_json,
    read_json_lines,
    read_text,
    replace_file,
)
from guardagent._terminal import printable
from guardagent.errors import ContentError, InputError, UnknownNameError
from guardagent.models.redaction import Redactor
from guardagent.programs.memory.agents import AgentMemory
from guardagent.programs.memory.learning import (
    MAX_PENDING,
    PendingGuard,
    own_folder,
    pending_guards,
    resolve_guards,
    write_pending,
)
from guardagent.types import Context, Verdict, thaw

if TYPE_CHECKING:
    from rich.console import Console

# --- disagreements

FOLDER = "disagreements"
EXAMPLES = "examples.jsonl"
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
            **{name: asdict(self.sides[name]) for name in SIDES},
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


def record_disagreement(folder: Path, disagreement: Disagreement) -> None:
    """Records a disagreement as pending, unless it is pending already or became an example.

    Raises:
        InputError: too many disagreements are pending, or the file cannot be written.
    """
    path = _file(folder, disagreement.id)
    if not path.exists() and disagreement.id not in {row.get("id") for row in _examples(folder)}:
        write_pending(path, disagreement.to_dict(), MAX_PENDING)


def pending_disagreements(folder: Path) -> list[Disagreement]:
    """Returns the pending disagreements, oldest first.

    Args:
        folder: the agent's folder.

    Raises:
        ContentError: a file is invalid.
    """
    return sorted(map(_read, (folder / FOLDER).glob("*.json")), key=lambda run: (run.time, run.id))


def resolve_disagreements(folder: Path, right: Mapping[str, str], dropped: Collection[str] = ()) -> None:
    """Turns disagreements into examples, and drops others.

    Args:
        folder: the agent's folder.
        right: id -> the side that is right: one of `SIDES`, or `neither` if both gave the same wrong label.
        dropped: the ids to drop without an example.

    Raises:
        InputError: an id or side is unknown, or an example has another label. Then nothing is changed.
    """
    known = {pending_disagreement.id: pending_disagreement for pending_disagreement in pending_disagreements(folder)}
    for name in (*right, *dropped):
        if name not in known:
            raise UnknownNameError("disagreement", name, known, where=str(folder / FOLDER))
        if name in right and name in dropped:
            raise InputError(f"disagreement {name!r} is both resolved and dropped; expected one of these")
    for side in right.values():
        if side not in (*SIDES, NEITHER):
            raise UnknownNameError("side", side, (*SIDES, NEITHER))
    _add_examples(folder, [known[name].example(side) for name, side in right.items()])
    for name in (*right, *dropped):
        _file(folder, name).unlink(missing_ok=True)


def _add_examples(folder: Path, rows: Sequence[Mapping[str, Any]]) -> None:
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
    same = next((old for old in written if old.get("id") == row["id"] or _run_of(old) == _run_of(row)), None)
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


# --- the other side

MAX_LATE = 16
"""The maximal length of the queue; while it is full, further runs are not judged again."""

MAX_ERRORS = 100
"""How many errors of the other side one guard records: a model that is down must not fill the folder."""

Judge = Callable[[str, str, Mapping[str, Any]], Verdict]

_log = logging.getLogger("guardagent")


class Shadow:
    """Judges a sample of runs again, and records the disagreements.

    Args:
        folder: the agent's folder.
        rate: the share of runs, from 0 to 1. The sample depends on the content of the runs only.
        judges: side (of `disagreements.SIDES`) -> its judge.
        redactor: redacts the recorded files like prompts.
    """

    def __init__(self, folder: Path, rate: float, judges: Mapping[str, Judge], redactor: Redactor) -> None:
        self._folder, self._rate, self._judges, self._redactor = folder, rate, judges, redactor
        self._later = WorkerThread(MAX_LATE)
        self._errors = 0

    def observe(self, agent_input: Any, output_log: Any, facts: Any, enforced_side: str, verdict: Verdict) -> None:
        """Queues a run with its enforced verdict. Never raises and never blocks."""
        try:
            if not (_is_run(agent_input) and _is_run(output_log)):
                return  # not a valid run
            name = run_id(agent_input, output_log, facts)
            if sampled(name, self._rate):
                now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
                copied = Context(facts=facts or {}).facts  # the host may change its own
                sides = {enforced_side: SideVerdict.of(verdict)}
                run = Disagreement(name, now, agent_input, output_log, copied, enforced_side, sides)
                if not self._later.submit(partial(self._rejudge, run)):
                    _log.info("run %s was not judged again: %d runs are queued", name, MAX_LATE)
        except Exception as error:  # noqa: BLE001 - a verdict never fails for its shadow
            _log.warning("a run was not judged again: %s", error)

    def wait(self) -> None:
        """Blocks until the queued runs are judged."""
        self._later.wait()

    def _rejudge(self, run: Disagreement) -> None:
        """Judges a run by the other side, and records it with both verdicts if they disagree."""
        try:
            other = next(side for side in SIDES if side != run.enforced_side)
            verdict = SideVerdict.of(self._judges[other](run.agent_input, run.agent_output, run.facts))
            if self._differ(run.sides[run.enforced_side], verdict):
                record_disagreement(self._folder, self._redacted(replace(run, sides={**run.sides, other: verdict})))
        except Exception as error:  # noqa: BLE001 - as above
            _log.warning("run %s was not judged again: %s", run.id, error)

    def _differ(self, enforced: SideVerdict, other: SideVerdict) -> bool:
        if not other.errors:
            return enforced.label != other.label
        self._errors += 1
        return self._errors <= MAX_ERRORS

    def _redacted(self, run: Disagreement) -> Disagreement:
        """Returns the disagreement, redacted like a prompt."""
        hide = self._redactor.redaction().redact
        return replace(
            run,
            agent_input=hide(run.agent_input),
            agent_output=hide(run.agent_output),
            facts=json.loads(json.dumps(hide(thaw(run.facts)), default=str)),
            sides={
                name: SideVerdict(side.label, tuple(hide(list(side.reasons))), tuple(hide(list(side.errors))))
                for name, side in run.sides.items()
            },
        )


def run_id(agent_input: str, output_log: str, facts: Any) -> str:
    """Returns the id of a run, a digest of its content."""
    content = json.dumps([agent_input, output_log, thaw(facts or {})], sort_keys=True, default=str)
    return f"run-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def sampled(name: str, rate: float) -> bool:
    """Whether the run with this id is in a sample of this rate."""
    return int(name.removeprefix("run-"), 16) < rate * 16**16


def shadow_folder(rate: float, agent: AgentMemory | None) -> Path | None:
    """Returns the folder for an agent's disagreements; None for a rate of 0.

    Raises:
        InputError: the rate is invalid, no agent is named, or it is a shipped one.
    """
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
        raise InputError(f"'shadow' is {rate!r}; expected the share of runs to judge again, a number from 0 to 1")
    return own_folder(agent, "shadow") if rate else None


def _is_run(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip()) and len(text) <= MAX_BYTES


# --- review

_RIGHT = {"p": "program", "g": "generated", "n": NEITHER}


@dataclass(frozen=True)
class ReviewQueue:
    """The pending entries in an agent's folder."""

    candidates: Sequence[PendingGuard]
    disagreements: Sequence[Disagreement]

    @classmethod
    def of(cls, folder: Path) -> ReviewQueue:
        return cls(pending_guards(folder), pending_disagreements(folder))

    def __len__(self) -> int:
        return len(self.candidates) + len(self.disagreements)

    def to_dict(self) -> dict[str, Any]:
        return {
            "pending": [candidate.to_dict() for candidate in self.candidates],
            "disagreements": [disagreement.to_dict() for disagreement in self.disagreements],
        }


@dataclass
class Choices:
    """The reviewer's choices: accepted and rejected ids, and id -> the side that is right."""

    accepted: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    right: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, accept: Sequence[str], reject: Sequence[str], right: Sequence[str]) -> Choices:
        """Parses the options of the command.

        Raises:
            InputError: an item of `right` is not `ID=SIDE`, or an id appears twice.
        """
        pairs = [option.rpartition("=") for option in right]
        for name, _, side in pairs:
            if not name or side not in (*SIDES, NEITHER):
                raise InputError(
                    f"invalid option '--right {name}={side}'; expected 'ID=program', 'ID=generated' or 'ID=neither'"
                )
        sides = {name: side for name, _, side in pairs}
        if len(sides) < len(pairs):
            raise InputError("an id appears twice in '--right'; expected it once")
        return cls(list(accept), list(reject), sides)

    def __bool__(self) -> bool:
        return bool(self.accepted or self.rejected or self.right)


def apply_choices(folder: Path, choices: Choices) -> None:
    """Applies the reviewer's choices.

    Raises:
        InputError: an id is unknown, or is both accepted and rejected.
    """
    waiting = ReviewQueue.of(folder)
    runs, guards = ({entry.id for entry in entries} for entries in (waiting.disagreements, waiting.candidates))
    for name in (*choices.accepted, *choices.rejected):
        known = guards if name in choices.accepted else runs | guards
        if name not in known:
            raise UnknownNameError("id", name, known, where=str(folder))
    if both := set(choices.accepted) & set(choices.rejected):
        raise InputError(f"id {both.pop()!r} is both accepted and rejected; expected one of these")
    # Disagreements first: they may raise, and nothing must change then.
    resolve_disagreements(folder, choices.right, [name for name in choices.rejected if name in runs])
    resolve_guards(folder, accepted=choices.accepted, rejected=[name for name in choices.rejected if name in guards])


def show_queue(waiting: ReviewQueue, console: Console) -> None:
    """Prints all entries, and the options for a review without a terminal."""
    hints = []
    for candidate in waiting.candidates:
        show_guard(candidate, console)
    for disagreement in waiting.disagreements:
        show_disagreement(disagreement, console)
    if waiting.candidates:
        hints.append("accept or reject guards by id: '--accept ID', '--reject ID'")
    if waiting.disagreements:
        hints.append(
            "decide who is right: '--right ID=SIDE' with 'program', 'generated' or 'neither'; drop a run: '--reject ID'"
        )
    console.print("\n".join(hints) or "nothing is pending", markup=False, highlight=False)


def prompt_each(waiting: ReviewQueue, console: Console) -> Choices:
    """Prompts for each entry at the terminal. Skipped entries stay pending."""
    choices = Choices()
    if _ask_guards(waiting.candidates, choices, console):
        _ask_runs(waiting.disagreements, choices, console)
    return choices


def _ask_guards(candidates: Sequence[PendingGuard], choices: Choices, console: Console) -> bool:
    """Prompts for each guard; returns False if the reviewer quits."""
    for candidate in candidates:
        show_guard(candidate, console)
        answer = _ask("accept, reject, skip or quit", ["a", "r", "s", "q"], console)
        if answer == "q":
            return False
        if answer != "s":
            (choices.accepted if answer == "a" else choices.rejected).append(candidate.id)
    return True


def _ask_runs(disagreements: Sequence[Disagreement], choices: Choices, console: Console) -> None:
    for disagreement in disagreements:
        show_disagreement(disagreement, console)
        same = disagreement.sides["program"].label == disagreement.sides["generated"].label
        neither = ", neither (n)" if same else ""
        question = f"who is right: program (p), generated (g){neither}; drop (d), skip (s) or quit (q)"
        answer = _ask(question, ["p", "g", *(["n"] if same else []), "d", "s", "q"], console)
        if answer == "q":
            return
        if answer == "d":
            choices.rejected.append(disagreement.id)
        elif answer != "s":
            choices.right[disagreement.id] = _RIGHT[answer]


def _ask(question: str, answers: list[str], console: Console) -> str:
    from rich.prompt import Prompt

    return Prompt.ask(question, choices=answers, default="s", console=console)


def show_guard(candidate: PendingGuard, console: Console) -> None:
    """Prints an executed guard: run, plan, code and verdict, escaped since all of it may be hostile."""
    demonstration = candidate.demonstration
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(demonstration.plan, start=1))
    verdict = _judged(candidate.label, candidate.reasons)
    parts = {
        "input": demonstration.agent_input,
        "output": demonstration.agent_output,
        "plan": steps,
        "code": demonstration.code,
    }
    _show_parts(f"{candidate.id}  {candidate.time}", {**parts, "verdict": verdict}, console)


def show_disagreement(disagreement: Disagreement, console: Console) -> None:
    """Prints a run and both verdicts, the enforced one marked, escaped since all of it may be hostile."""
    parts = {"input": disagreement.agent_input, "output": disagreement.agent_output}
    if disagreement.facts:
        parts["facts"] = "\n".join(f"{name}: {value}" for name, value in disagreement.facts.items())
    for name in SIDES:
        side = disagreement.sides[name]
        failure = "could not judge, so denied: " + "; ".join(side.errors) if side.errors else ""
        parts[f"{name}{' (enforced)' if name == disagreement.enforced_side else ''}"] = failure or _judged(
            side.label, side.reasons
        )
    _show_parts(f"{disagreement.id}  {disagreement.time}", parts, console)


def _judged(label: int, reasons: Sequence[str]) -> str:
    return "denied: " + "; ".join(reasons) if label else "allowed"


def _show_parts(title: str, parts: Mapping[str, str], console: Console) -> None:
    console.rule(title, style="bold")
    for label, text in parts.items():
        console.print(label, style="bold")
        console.print(printable(text), markup=False, highlight=False)
