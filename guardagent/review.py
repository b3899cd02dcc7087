"""`guardagent memory review`: a person reads what was executed, and says what may become a demonstration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guardagent.render import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from guardagent.learn import Candidate


def show_waiting(waiting: Sequence[Candidate], console: Console) -> None:
    """All of them, and how to go on without a terminal."""
    for candidate in waiting:
        show(candidate, console)
    hint = "accept or reject them by their ids: --accept ID, --reject ID" if waiting else "nothing is waiting"
    console.print(hint, markup=False, highlight=False)


def ask_each(waiting: Sequence[Candidate], console: Console) -> tuple[list[str], list[str]]:
    """(accepted, rejected): the ids that a person chose at the terminal. What was skipped goes on waiting."""
    from rich.prompt import Prompt

    chosen: dict[str, list[str]] = {"a": [], "r": [], "s": []}
    for candidate in waiting:
        show(candidate, console)
        answer = Prompt.ask("accept, reject, skip or quit", choices=["a", "r", "s", "q"], default="s", console=console)
        if answer == "q":
            break
        chosen[answer].append(candidate.id)
    return chosen["a"], chosen["r"]


def show(candidate: Candidate, console: Console) -> None:
    """One executed guard: the run, the plan, the code, and the verdict that it gave. All of it may be hostile text."""
    found = candidate.demonstration
    console.rule(f"{candidate.id}  {candidate.time}", style="bold")
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(found.plan, start=1))
    verdict = "denied: " + "; ".join(candidate.reasons) if candidate.label else "allowed"
    parts = {"input": found.agent_input, "output": found.agent_output, "plan": steps, "code": found.code}
    for label, text in {**parts, "verdict": verdict}.items():
        console.print(label, style="bold")
        console.print(printable(text), markup=False, highlight=False)
