"""The commands `memory list`, `memory add`, `memory export` and `memory review`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from guardagent.cli.options import Json, JsonLines, MemoryFolder
from guardagent.cli.output import print_json, print_line, screen

AgentMemory = Annotated[str, typer.Option("--memory", help="The memory that holds the agent's folder.")]


def list_agents(*, memory: MemoryFolder = None, as_json: Json = False) -> None:
    """List the known agents with their demonstrations, program and required checks."""
    from guardagent.programs.memory.agents import Memory, load_agent

    folders = Memory(*([memory] if memory else [])).names()
    agents = [load_agent(path) for path in folders.values()]
    rows: list[dict[str, Any]] = [
        {
            "name": agent.name,
            "demonstrations": len(agent.demonstrations),
            "program": agent.program is not None,
            "required_checks": [check.text for check in agent.required],
            "path": str(agent.path),
        }
        for agent in agents
    ]
    if as_json:
        print_json({"agents": rows})
        return
    console = screen()
    for row in rows:
        console.print(row["name"], style="bold cyan", end="")
        program = "a program" if row["program"] else "no program"
        checks = f"required checks: {len(row['required_checks'])}"
        console.print(f"  {row['demonstrations']} demonstrations, {program}, {checks}  ({row['path']})", markup=False)


def add(
    demonstrations: Annotated[
        str, typer.Argument(help="Demonstrations (JSON Lines; a file, or - for standard input).")
    ],
    *,
    agent: Annotated[str, typer.Option("--agent", help="The agent that they belong to.")],
    memory: AgentMemory,
    as_json: Json = False,
) -> None:
    """Add demonstrations to an agent in your own memory.

    If one is invalid, none is added.
    """
    from guardagent.programs.memory.agents import add_demonstrations, storage_location

    folder = Path(memory) / agent
    count = add_demonstrations(folder, demonstrations)
    if as_json:
        print_json({"added": count, "to": str(storage_location(folder))})
    else:
        print_line(f"added {count} to {storage_location(folder)}")


def export(
    *,
    agent: Annotated[str, typer.Option("--agent", help="The agent.")],
    memory: MemoryFolder = None,
    as_json: JsonLines = False,  # noqa: ARG001 - the output is always JSON Lines
) -> None:
    """Print all demonstrations of an agent as JSON Lines."""
    from guardagent.programs.memory.agents import Memory

    for one in Memory(*([memory] if memory else [])).agent(agent).demonstrations:
        print_line(one.to_json())


def review(
    *,
    agent: Annotated[str, typer.Option("--agent", help="The agent.")],
    memory: AgentMemory,
    accept: Annotated[
        list[str] | None, typer.Option("--accept", help="Add the entry with this id as a demonstration; repeatable.")
    ] = None,
    reject: Annotated[
        list[str] | None, typer.Option("--reject", help="Discard the entry with this id; repeatable.")
    ] = None,
    right: Annotated[
        list[str] | None,
        typer.Option(
            "--right",
            help="Say who judged right, and keep it as an example: ID=program, ID=generated or ID=neither; repeatable.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Accept or reject entries that await review.

    These are executed guards, and runs on which program and model disagreed. Without options, asks for each on a
    terminal, and lists them elsewhere.
    """
    from guardagent.programs.memory.agents import Memory
    from guardagent.programs.memory.review import Choices, ReviewQueue, apply_choices, prompt_each, show_queue

    folder = Memory(memory).agent(agent).path
    choices = Choices.of(accept or (), reject or (), right or ())
    if not choices:
        waiting = ReviewQueue.of(folder)
        if as_json:
            print_json(waiting.to_dict())
            return
        if not sys.stdin.isatty():
            show_queue(waiting, screen())
            return
        choices = prompt_each(waiting, screen())
    apply_choices(folder, choices)
    accepted = len(choices.accepted) + len(choices.right)
    counts = {"accepted": accepted, "rejected": len(choices.rejected), "waiting": len(ReviewQueue.of(folder))}
    if as_json:
        print_json(counts)
    else:
        print_line(", ".join(f"{count} {name}" for name, count in counts.items()))
