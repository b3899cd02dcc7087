"""Options that several commands have, and what they make of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guardagent._support.files import parse_json, read_text
from guardagent.errors import InputError
from guardagent.models import Model, load_model
from guardagent.types import Verdict

if TYPE_CHECKING:
    from rich.console import Console

FactsFile = Annotated[str | None, typer.Option("--facts", help="What the host knows: a JSON object (a file).")]
ToolboxFolder = Annotated[list[str] | None, typer.Option("--toolbox", help="A folder of functions to add; repeatable.")]
SandboxName = Annotated[str, typer.Option("--sandbox", help="The engine that runs programs: auto, monty, restricted.")]
RequireHardening = Annotated[
    bool,
    typer.Option(
        "--require-hardening",
        envvar="GUARDAGENT_REQUIRE_HARDENING",
        help="Deny where a hardening layer is missing; see doctor.",
    ),
]
Prices = Annotated[
    str | None, typer.Option("--prices", help="US dollars per million prompt,completion tokens, such as 2,8.")
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", help="Seconds for one answer of the model, with all waits and retries (default 120)."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def model_of(name: str | None, prices: str | None, timeout: float | None) -> Model | str | None:
    """The model of an option, with what others say of it.

    Raises:
        InputError: they say something, and no model is named.
    """
    options = {"prices": prices and tuple(prices.split(",")), "timeout": timeout}
    wanted = {option: value for option, value in options.items() if value is not None}
    if not wanted:
        return name
    chosen = name or os.environ.get("GUARDAGENT_MODEL")
    if not chosen:
        raise InputError(f"--{next(iter(wanted))} without a model; expected --model or GUARDAGENT_MODEL")
    return load_model(chosen, **wanted)


def read_facts(path: str | None) -> dict[str, Any]:
    """The facts of a file; none where there is no file.

    Raises:
        InputError: it holds no JSON object.
    """
    if path is None:
        return {}
    value = parse_json(read_text(path), path)
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds a {type(value).__name__}; expected a JSON object of facts")
    return value


def refuse_two_stdin(*paths: str | None) -> None:
    """Makes sure that standard input is read once.

    Raises:
        InputError: two options name it.
    """
    if paths.count("-") > 1:
        raise InputError("standard input (-) is named twice; expected it at most once")


def report(verdict: Verdict, *, as_json: bool, explain: bool = False) -> None:
    """Prints a verdict, and ends the command with its exit status."""
    if as_json:
        typer.echo(verdict.to_json(explain=explain))
    else:
        from guardagent.cli.render import show_story, show_verdict

        if explain:
            show_story(verdict, screen())
        show_verdict(verdict, screen())
    raise typer.Exit(3 if verdict.errors else verdict.label)


def screen(*, stderr: bool = False) -> Console:
    """Where people read."""
    from rich.console import Console

    return Console(stderr=stderr, soft_wrap=True)
