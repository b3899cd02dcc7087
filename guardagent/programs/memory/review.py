"""`guardagent memory review`: a person reads what waits, and says what becomes of it.

What was executed may become a demonstration, and a run that program and model judged differently a labelled example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from guardagent._terminal import printable
from guardagent.errors import InputError, UnknownNameError
from guardagent.programs.memory import disagreements, learning
from guardagent.programs.memory.disagreements import NEITHER, SIDES, Disagreement

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from guardagent.programs.memory.learning import PendingGuard

_RIGHT = {"p": "program", "g": "generated", "n": NEITHER}


@dataclass(frozen=True)
class ReviewQueue:
    """What waits in an agent's folder."""

    candidates: Sequence[PendingGuard]
    disagreements: Sequence[Disagreement]

    @classmethod
    def of(cls, folder: Path) -> ReviewQueue:
        return cls(learning.pending(folder), disagreements.pending(folder))

    def __len__(self) -> int:
        return len(self.candidates) + len(self.disagreements)

    def to_dict(self) -> dict[str, Any]:
        return {
            "pending": [candidate.to_dict() for candidate in self.candidates],
            "disagreements": [found.to_dict() for found in self.disagreements],
        }


@dataclass
class Choices:
    """What a person chose: ids that are accepted or rejected, and id -> who is right."""

    accepted: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    right: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, accept: Sequence[str], reject: Sequence[str], right: Sequence[str]) -> Choices:
        """Those of the command's options.

        Raises:
            InputError: one of `right` is no `ID=SIDE`, or an id is given twice.
        """
        pairs = [one.rpartition("=") for one in right]
        for name, _, side in pairs:
            if not name or side not in (*SIDES, NEITHER):
                raise InputError(f"--right {name}={side}; expected ID=program, ID=generated or ID=neither")
        found = {name: side for name, _, side in pairs}
        if len(found) < len(pairs):
            raise InputError("--right names an id twice; expected it once")
        return cls(list(accept), list(reject), found)

    def __bool__(self) -> bool:
        return bool(self.accepted or self.rejected or self.right)


def apply_choices(folder: Path, choices: Choices) -> None:
    """Does what a person chose.

    Raises:
        InputError: an id is not there, or is chosen for two things.
    """
    waiting = ReviewQueue.of(folder)
    runs, guards = {found.id for found in waiting.disagreements}, {one.id for one in waiting.candidates}
    for name, known in (
        *((name, guards) for name in choices.accepted),
        *((n, runs | guards) for n in choices.rejected),
    ):
        if name not in known:
            raise UnknownNameError("id", name, known, where=str(folder))
    if both := set(choices.accepted) & set(choices.rejected):
        raise InputError(f"{both.pop()!r} is both accepted and rejected; expected one of them")
    # What can still refuse comes first, so that nothing is changed then.
    disagreements.resolve(folder, choices.right, [name for name in choices.rejected if name in runs])
    learning.resolve(folder, accepted=choices.accepted, rejected=[name for name in choices.rejected if name in guards])


def show_queue(waiting: ReviewQueue, console: Console) -> None:
    """All of it, and how to go on without a terminal."""
    hints = []
    for candidate in waiting.candidates:
        show_guard(candidate, console)
    for found in waiting.disagreements:
        show_disagreement(found, console)
    if waiting.candidates:
        hints.append("accept or reject guards by their ids: --accept ID, --reject ID")
    if waiting.disagreements:
        hints.append(
            "say who is right about a run: --right ID=program, ID=generated or ID=neither; drop it: --reject ID"
        )
    console.print("\n".join(hints) or "nothing is waiting", markup=False, highlight=False)


def prompt_each(waiting: ReviewQueue, console: Console) -> Choices:
    """What a person chose at the terminal. What was skipped goes on waiting."""
    choices = Choices()
    if _ask_guards(waiting.candidates, choices, console):
        _ask_runs(waiting.disagreements, choices, console)
    return choices


def _ask_guards(candidates: Sequence[PendingGuard], choices: Choices, console: Console) -> bool:
    """False where the person quit."""
    for candidate in candidates:
        show_guard(candidate, console)
        answer = _ask("accept, reject, skip or quit", ["a", "r", "s", "q"], console)
        if answer == "q":
            return False
        if answer != "s":
            (choices.accepted if answer == "a" else choices.rejected).append(candidate.id)
    return True


def _ask_runs(found: Sequence[Disagreement], choices: Choices, console: Console) -> None:
    for one in found:
        show_disagreement(one, console)
        same = one.sides["program"].label == one.sides["generated"].label
        neither = ", neither (n)" if same else ""
        question = f"who is right: program (p), generated (g){neither}; drop (d), skip (s) or quit (q)"
        answer = _ask(question, ["p", "g", *(["n"] if same else []), "d", "s", "q"], console)
        if answer == "q":
            return
        if answer == "d":
            choices.rejected.append(one.id)
        elif answer != "s":
            choices.right[one.id] = _RIGHT[answer]


def _ask(question: str, answers: list[str], console: Console) -> str:
    from rich.prompt import Prompt

    return Prompt.ask(question, choices=answers, default="s", console=console)


def show_guard(candidate: PendingGuard, console: Console) -> None:
    """One executed guard: the run, the plan, the code, and the verdict that it gave. All of it may be hostile text."""
    found = candidate.demonstration
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(found.plan, start=1))
    verdict = _judged(candidate.label, candidate.reasons)
    parts = {"input": found.agent_input, "output": found.agent_output, "plan": steps, "code": found.code}
    _show_parts(f"{candidate.id}  {candidate.time}", {**parts, "verdict": verdict}, console)


def show_disagreement(found: Disagreement, console: Console) -> None:
    """One run and both verdicts on it, the one that was given marked. All of it may be hostile text."""
    parts = {"input": found.agent_input, "output": found.agent_output}
    if found.facts:
        parts["facts"] = "\n".join(f"{name}: {value}" for name, value in found.facts.items())
    for name in SIDES:
        side = found.sides[name]
        failure = "could not judge, so denied: " + "; ".join(side.errors) if side.errors else ""
        parts[f"{name}{' (given)' if name == found.enforced_side else ''}"] = failure or _judged(
            side.label, side.reasons
        )
    _show_parts(f"{found.id}  {found.time}", parts, console)


def _judged(label: int, reasons: Sequence[str]) -> str:
    return "denied: " + "; ".join(reasons) if label else "allowed"


def _show_parts(title: str, parts: Mapping[str, str], console: Console) -> None:
    console.rule(title, style="bold")
    for label, text in parts.items():
        console.print(label, style="bold")
        console.print(printable(text), markup=False, highlight=False)
