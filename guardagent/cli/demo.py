"""The tour of the command `demo`: runs of three agents, judged offline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guardagent._terminal import printable
from guardagent.cli.render import show_calls, show_verdict
from guardagent.guard import GuardAgent

if TYPE_CHECKING:
    from rich.console import Console

    from guardagent.programs.memory.agents import Demonstration

_STOPS = (
    ("ehragent", "an agent that answers questions over health records"),
    ("seeact", "an agent that acts on websites"),
    ("csqa", "a model that answers multiple-choice questions"),
)
_SHOWN_LINES = 14

_NEXT = """\
What to try next
  guardagent init my-guard         create a project with a rule, an agent and runs to try
  guardagent toolbox list          list the functions that guard programs may call
  guardagent memory list           list the known agents
  guardagent guard --agent ehragent --input INPUT.txt --output-log LOG.txt --show-code
                                   judge a run of your own
The documentation is in docs/."""


def tour(console: Console) -> None:
    """Shows for each agent the guard request, an allowed and a denied run, the checks and the verdicts."""
    console.rule("GuardAgent: six runs of three agents, judged without a model")
    for name, description in _STOPS:
        _stop(console, name, description)
    console.rule()
    console.print(_NEXT, markup=False, highlight=False)


def _stop(console: Console, name: str, description: str) -> None:
    guard = GuardAgent(agent=name, mode="program")
    assert guard.known_agent is not None
    console.print()
    console.rule(f"[bold]{name}[/]: {description}", align="left")
    console.print("The guard request, in short:", style="bold")
    for line in guard.request.split("\n\n")[0].splitlines():
        console.print(f"  {line}", markup=False, highlight=False)
    runs = [(guard.guard(run.agent_input, run.agent_output), run) for run in guard.known_agent.demonstrations]
    for label in (0, 1):
        verdict, run = next(pair for pair in runs if pair[0].label == label)
        console.print()
        _show_run(console, run)
        for who, title in (("program", "Calls of the program:"), ("host", "Required checks of the host:")):
            if calls := [call for call in verdict.calls if call.made_by == who and (who == "program" or call.is_check)]:
                console.print(title, style="bold")
                show_calls(calls, console)
        show_verdict(verdict, console)


def _show_run(console: Console, run: Demonstration) -> None:
    for title, text in (("Input of the agent:", run.agent_input), ("Output of the agent:", run.agent_output)):
        console.print(title, style="bold")
        lines = printable(text).splitlines()
        for line in lines[:_SHOWN_LINES]:
            console.print(f"  {line}", style="cyan", markup=False, highlight=False)
        if len(lines) > _SHOWN_LINES:
            console.print(f"  … {len(lines) - _SHOWN_LINES} more lines", style="dim")
