"""Options that several commands have, and what they make of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent.models import Model

AgentName = Annotated[str | None, typer.Option("--agent", help="A known agent: a folder in the memory.")]
RequestFile = Annotated[str | None, typer.Option("--request", help="The guard request, in words (a file).")]
SpecificationFile = Annotated[str | None, typer.Option("--specification", help="What the agent does (a file).")]
FactsText = Annotated[
    str | None,
    typer.Option("--facts", help='What the host knows: a JSON object (a file, or the text itself: {"role": "sales"}).'),
]
ToolboxFolder = Annotated[list[str] | None, typer.Option("--toolbox", help="A folder of functions to add; repeatable.")]
MemoryFolder = Annotated[str | None, typer.Option("--memory", help="A folder with one folder per agent.")]
PromptsFolder = Annotated[str | None, typer.Option("--prompts", help="A folder of templates of your own.")]
SandboxName = Annotated[str, typer.Option("--sandbox", help="The engine that runs programs: auto, monty, restricted.")]
RequireHardening = Annotated[
    bool,
    typer.Option(
        "--require-hardening",
        envvar="GUARDAGENT_REQUIRE_HARDENING",
        help="Deny where a hardening layer is missing; see doctor.",
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option("--model", help="The model that writes code, such as openai/gpt-4.1. [env: GUARDAGENT_MODEL]"),
]
RequestModelName = Annotated[
    str | None,
    typer.Option("--model", envvar="GUARDAGENT_MODEL", help="The model for `request:` policies without a program."),
]
Prices = Annotated[
    str | None, typer.Option("--prices", help="US dollars per million prompt,completion tokens, such as 2,8.")
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", help="Seconds for one answer of the model, with all waits and retries (default 120)."),
]
MaxCost = Annotated[float | None, typer.Option("--max-cost", help="US dollars that a check may take.")]
CacheFolder = Annotated[str | None, typer.Option("--cache", help="A folder that keeps the model's answers.")]
Redact = Annotated[
    list[str] | None, typer.Option("--redact", help="What no model may see: a regular expression; repeatable.")
]
Votes = Annotated[int, typer.Option("--votes", help="How many plans vote on the verdict.")]
DebugRounds = Annotated[int, typer.Option("--debug-rounds", help="How often the model may mend its code.")]
Locked = Annotated[
    Path | None, typer.Option("--locked", help="A lock file; nothing runs that does not stand in it. See lock.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON object in a line and nothing else.")]


def model_of(name: str | None, prices: str | None, timeout: float | None) -> Model | str | None:
    """The model of an option, with what others say of it.

    Raises:
        InputError: they say something, and no model is named.
    """
    options = {"prices": prices and tuple(prices.split(",")), "timeout": timeout}
    wanted = {option: value for option, value in options.items() if value is not None}
    if not wanted:
        return name
    from guardagent.models import load_model

    chosen = name or os.environ.get("GUARDAGENT_MODEL")
    if not chosen:
        raise InputError(f"--{next(iter(wanted))} without a model; expected --model or GUARDAGENT_MODEL")
    return load_model(chosen, **wanted)


def read_facts(facts: str | None) -> dict[str, Any]:
    """The facts of a JSON text, which begins with `{`, or of a file; none where nothing is given.

    Raises:
        InputError: it holds no JSON object.
    """
    from guardagent._support.files import parse_json, read_text

    if facts is None:
        return {}
    itself = facts.lstrip().startswith("{")
    name = "--facts" if itself else facts
    value = parse_json(facts if itself else read_text(facts), name)
    if not isinstance(value, dict):
        raise InputError(f"{name}: holds a {type(value).__name__}; expected a JSON object of facts")
    return value


def refuse_two_stdin(*paths: str | None) -> None:
    """Makes sure that standard input is read once.

    Raises:
        InputError: two options name it.
    """
    if paths.count("-") > 1:
        raise InputError("standard input (-) is named twice; expected it at most once")
