"""`guardagent memory review`: a reviewer decides on the pending entries of an agent.

An executed guard may become a demonstration, and a disagreement between program and model a labelled example.
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
    """The pending entries in an agent's folder."""

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
        pairs = [one.rpartition("=") for one in right]
        for name, _, side in pairs:
            if not name or side not in (*SIDES, NEITHER):
                raise InputError(
                    f"invalid option '--right {name}={side}'; expected 'ID=program', 'ID=generated' or 'ID=neither'"
                )
        found = {name: side for name, _, side in pairs}
        if len(found) < len(pairs):
            raise InputError("an id appears twice in '--right'; expected it once")
        return cls(list(accept), list(reject), found)

    def __bool__(self) -> bool:
        return bool(self.accepted or self.rejected or self.right)


def apply_choices(folder: Path, choices: Choices) -> None:
    """Applies the reviewer's choices.

    Raises:
        InputError: an id is unknown, or is both accepted and rejected.
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
        raise InputError(f"id {both.pop()!r} is both accepted and rejected; expected one of these")
    # Disagreements first: they may raise, and nothing must change then.
    disagreements.resolve(folder, choices.right, [name for name in choices.rejected if name in runs])
    learning.resolve(folder, accepted=choices.accepted, rejected=[name for name in choices.rejected if name in guards])


def show_queue(waiting: ReviewQueue, console: Console) -> None:
    """Prints all entries, and the options for a review without a terminal."""
    hints = []
    for candidate in waiting.candidates:
        show_guard(candidate, console)
    for found in waiting.disagreements:
        show_disagreement(found, console)
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
    """Prints an executed guard: run, plan, code and verdict, escaped since all of it may be hostile."""
    found = candidate.demonstration
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(found.plan, start=1))
    verdict = _judged(candidate.label, candidate.reasons)
    parts = {"input": found.agent_input, "output": found.agent_output, "plan": steps, "code": found.code}
    _show_parts(f"{candidate.id}  {candidate.time}", {**parts, "verdict": verdict}, console)


def show_disagreement(found: Disagreement, console: Console) -> None:
    """Prints a run and both verdicts, the enforced one marked, escaped since all of it may be hostile."""
    parts = {"input": found.agent_input, "output": found.agent_output}
    if found.facts:
        parts["facts"] = "\n".join(f"{name}: {value}" for name, value in found.facts.items())
    for name in SIDES:
        side = found.sides[name]
        failure = "could not judge, so denied: " + "; ".join(side.errors) if side.errors else ""
        parts[f"{name}{' (enforced)' if name == found.enforced_side else ''}"] = failure or _judged(
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
