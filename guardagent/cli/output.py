"""Output of the commands: as text or as JSON."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from guardagent.types import Verdict


def print_line(text: str) -> None:
    """Prints a line on standard output; lone surrogates are escaped."""
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")


def print_json(value: Any) -> None:
    """Prints a value as one line of JSON."""
    print_line(json.dumps(value, ensure_ascii=False))


def note(text: str) -> None:
    """Prints a line on standard error."""
    sys.stderr.write(f"{text}\n")


def print_error(kind: str, message: str, status: int, *, as_json: bool) -> None:
    """Prints an error on standard error, with `--json` as one JSON object."""
    error = {"kind": kind, "message": message, "status": status}
    note(json.dumps({"error": error}) if as_json else f"guardagent: {message}")


def unreadable(problem: str, *, as_json: bool) -> None:
    """Prints the error of an unreadable line; the other lines are still judged."""
    print_error("content", problem, 2, as_json=as_json)


def report(verdict: Verdict, *, as_json: bool, explain: bool = False) -> None:
    """Prints a verdict and ends the command with its exit status."""
    if as_json:
        typer.echo(verdict.to_json(explain=explain))
    else:
        from guardagent.cli.render import show_story, show_verdict

        if explain:
            show_story(verdict, screen())
        show_verdict(verdict, screen())
    raise typer.Exit(3 if verdict.errors else verdict.label)


def screen(*, stderr: bool = False) -> Console:
    """A Rich console."""
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704 - Rich would exit with 1, which means denied

    return Screen(stderr=stderr, soft_wrap=True)
