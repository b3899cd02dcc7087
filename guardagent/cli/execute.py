"""Runs one command line. Exit status: 0 allowed or clean, 1 denied, 2 invalid input, 3 could not be checked."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import typer

from guardagent.cli.commands import command_line
from guardagent.cli.output import print_error
from guardagent.errors import GuardError, InputError, ModelError, error_text

INTERRUPTED = 130


def execute(arguments: Sequence[str]) -> int:
    """Runs a command line and returns its exit status. Errors end with a message, never with a traceback."""
    if sys.stdout is None:
        return 3  # no verdict can be delivered
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        ended = command_line().main([*arguments], "guardagent", standalone_mode=False)
    except typer.Abort:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - an internal error must not look like status 0 or 1
        return _report_failure(error, as_json="--json" in _own_arguments(arguments))
    return ended if isinstance(ended, int) else 0


def _own_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """The arguments before `--`; those after it belong to another program."""
    for argument in arguments:
        if argument == "--":
            return
        yield argument


def _report_failure(error: Any, *, as_json: bool) -> int:
    usage = hasattr(
        error, "format_message"
    )  # Typer's usage errors; the module of their class depends on Typer's version
    kind, status = ("usage", 2) if usage else _kind(error)
    message = error.format_message() if usage else str(error)
    if kind == "internal":
        message = f"internal error, nothing was checked: {error_text(error)}"
    with contextlib.suppress(OSError):  # standard error may be closed
        if usage and not as_json:
            error.show()
        else:
            print_error(kind, message, status, as_json=as_json)
    return status


def _kind(error: Exception) -> tuple[str, int]:
    """(kind, exit status): a `ContentError` has the kind `content`, an `UnknownNameError` the kind `unknown_name`."""
    if not isinstance(error, GuardError):
        return "internal", 3
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__.removesuffix("Error")).lower()
    return name, 2 if isinstance(error, InputError) and not isinstance(error, ModelError) else 3
