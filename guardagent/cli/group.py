"""Typer groups that load a command when it runs, and skip conversions that would load Pydantic."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, TextIO, cast

import typer
from typer.core import TyperCommand, TyperGroup

CLOSED_PIPE = 141  # the status that shells give a program ended by SIGPIPE


class LazyCommand(NamedTuple):
    """A command by module and function, with one line of help."""

    module: str
    function: str
    help: str

    def load(self) -> Any:
        app = _app(add_completion=False)
        app.command(cls=Command)(getattr(import_module(self.module), self.function))
        return typer.main.get_command(app)


class Subcommands(NamedTuple):
    """A group of commands, with one line of help."""

    help: str
    entries: Mapping[str, LazyCommand]

    def load(self) -> Any:
        return group_of(self.help, self.entries)


def group_of(
    text: str,
    entries: Mapping[str, LazyCommand | Subcommands],
    options: Callable[..., None] = lambda: None,
    *,
    completion: bool = False,
) -> TyperGroup:
    """A Typer group of lazily loaded commands."""
    app = _app(cls=Group, help=text, no_args_is_help=True, add_completion=completion)
    app.callback(cls=Group)(options)
    group = cast("Group", typer.main.get_command(app))
    group.entries = entries
    group.commands = dict.fromkeys(entries)  # type: ignore[assignment]  # Typer needs only their names
    return group


def _app(**options: Any) -> typer.Typer:
    names = {"help_option_names": ["-h", "--help"]}
    return typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, context_settings=names, **options)


class _FastParameters:
    """Skips the conversion of values that need none: Typer loads Pydantic for it, which takes as long as a check."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if "process_value" not in vars(param):
                param.process_value = partial(_process_value, param, param.process_value)
        return params


def _process_value(param: Any, process: Callable[[Any, Any], Any], ctx: Any, value: Any) -> Any:
    kind = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    absent = value is None and not param.required
    if kind == list[str] and value and all(type(one) is str for one in value):
        return param.callback(ctx, param, list(value)) if param.callback else list(value)
    if not absent and not (kind is str and type(value) is str) and (value is None or value is not param.default):
        return process(ctx, value)
    if absent and (param.multiple or param.nargs == -1):
        value = ()
    return param.callback(ctx, param, value) if param.callback else value


class Command(_FastParameters, TyperCommand):
    """A single command."""


class Group(_FastParameters, TyperGroup):
    """A group whose commands are loaded when they run."""

    entries: Mapping[str, LazyCommand | Subcommands] = {}

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - Typer's signature
        return list(self.entries)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - Typer's signature
        place = self.entries.get(cmd_name)
        return None if place is None else place.load()

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - Typer's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, place.help) for name, place in self.entries.items()])

    def make_context(self, *args: Any, **options: Any) -> Any:
        with _closed_pipe_exit():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        with _closed_pipe_exit():
            return super().invoke(ctx)


@contextmanager
def _closed_pipe_exit() -> Iterator[None]:
    """Exits with 141 when the reader of a pipe has closed it: Typer's status would be 1, which means denied."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError as error:
        closed = [stream for stream in (sys.stdout, sys.stderr) if _is_closed(stream)]
        if not closed:
            raise RuntimeError(f"another process ended: {error}") from None
        for stream in closed:  # so that the flush at exit does not raise again
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise typer.Exit(CLOSED_PIPE) from None


def _is_closed(stream: TextIO) -> bool:
    """Whether the reader of a stream has closed it, according to the system: the buffer may already be dropped."""
    try:
        ends = select.poll()
        ends.register(stream.fileno(), 0)
        return bool(ends.poll(0))
    except (OSError, ValueError):  # not a file of the system
        return False
