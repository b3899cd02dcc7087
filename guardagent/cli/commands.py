"""The command line: groups whose commands load when they run, the table of all commands, and the run of one.

The table has the module, the function and the help of each command. The groups skip conversions that would load
Pydantic. Exit status: 0 allowed or clean, 1 denied, 2 invalid input, 3 could not be checked.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial, wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, NamedTuple, TextIO, cast

import typer
from typer.core import TyperCommand, TyperGroup

from guardagent.cli.options import print_error
from guardagent.errors import GuardError, InputError, ModelError, error_text

CLOSED_PIPE = 141  # the status that shells give a program ended by SIGPIPE


class LazyCommand(NamedTuple):
    """A command by its module in this package and its function, with one line of help."""

    module: str
    function: str
    help: str

    def load(self) -> Any:
        app = _app(add_completion=False)
        app.command(cls=Command)(_flat(getattr(import_module(f"guardagent.cli.{self.module}"), self.function)))
        return typer.main.get_command(app)


def _flat(command: Callable[..., None]) -> Callable[..., None]:
    """Returns a command that takes the options of a group, which is a dataclass, in place of the group."""
    parameters: list[Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in signature(command, eval_str=True).parameters.values():
        group = parameter.annotation
        if isinstance(group, type) and is_dataclass(group):
            groups[parameter.name] = group
            parameters += signature(group, eval_str=True).parameters.values()
        else:
            parameters.append(parameter)

    @wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{option.name: values.pop(option.name) for option in fields(group)})
        command(**values)

    vars(run)["__signature__"] = Signature(parameters)
    return run


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
    if kind == list[str] and value and all(type(entry) is str for entry in value):
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


TOOLBOX = {
    "list": LazyCommand("content", "list_functions", "List the toolbox functions without running them."),
    "show": LazyCommand("content", "show", "Show the signature and documentation of one function."),
    "accept": LazyCommand("content", "accept", "Review a proposed function and add it to a toolbox."),
}
MEMORY = {
    "list": LazyCommand("content", "list_agents", "List the known agents."),
    "add": LazyCommand("content", "add", "Add demonstrations to an agent in your own memory."),
    "export": LazyCommand("content", "export", "Print all demonstrations of an agent."),
    "review": LazyCommand("content", "review", "Accept or reject entries that await review."),
}
LOG = {
    "show": LazyCommand("log", "show", "Show the entries of a log, one per line."),
    "verify": LazyCommand("log", "verify", "Verify that a log is complete and unchanged."),
    "export": LazyCommand("log", "export", "Export all entries as JSON Lines or CSV."),
    "anchor": LazyCommand("log", "anchor", "Allow the removal of a log's oldest entries."),
    "new-key": LazyCommand("log", "new_key", "Create a key that signs logs."),
    "sign": LazyCommand("log", "sign", "Sign everything that a log has."),
}
TOKEN = {
    "create": LazyCommand("serve", "create", "Create a token, and show it once."),
    "list": LazyCommand("serve", "list_tokens", "List the tokens, without their secrets."),
    "rotate": LazyCommand("serve", "rotate", "Replace a token by a new one, and show it once."),
    "revoke": LazyCommand("serve", "revoke", "Revoke a token at once."),
}
APPROVALS = {
    "list": LazyCommand("approvals", "list_approvals", "List the calls that wait for a person."),
    "show": LazyCommand("approvals", "show", "Show all of a request."),
    "answer": LazyCommand("approvals", "answer", "Approve, reject or edit a call."),
    "follow": LazyCommand("approvals", "follow", "Show requests and answers as they come."),
}
STOPS = {
    "list": LazyCommand("approvals", "list_stops", "List the stops that are in force."),
    "lift": LazyCommand("approvals", "lift", "Lift a stop."),
}
PACK = {
    "list": LazyCommand("content", "list_packs", "List the rule sets that ship."),
    "show": LazyCommand("content", "show_pack", "Show the page, the rules and the parameters of a pack."),
    "add": LazyCommand("content", "include_pack", "Add a pack to 'include:' of a policy file."),
}
HOOK = {
    **{
        name: LazyCommand("hooks", name.replace("-", "_"), f"Answer one event of {title}, from standard input.")
        for name, title in (
            ("claude-code", "Claude Code"),
            ("codex", "Codex CLI"),
            ("cursor", "Cursor"),
            ("gemini-cli", "Gemini CLI"),
            ("qwen-code", "Qwen Code"),
            ("copilot-cli", "GitHub Copilot CLI"),
        )
    },
    "install": LazyCommand("hooks", "install", "Install the hooks of coding agents, with a copy of a policy."),
    "status": LazyCommand("hooks", "status", "Show the installed hooks, and what is wrong with them."),
    "enforce": LazyCommand("hooks", "enforce", "End the trial of a policy."),
    "trial": LazyCommand("hooks", "trial", "Put a policy on trial: its rules only warn."),
    "update": LazyCommand("hooks", "update", "Take the policy file into force as it is now."),
    "uninstall": LazyCommand("hooks", "uninstall", "Remove the hooks of a coding agent."),
}
COMMANDS: dict[str, LazyCommand | Subcommands] = {
    "guard": LazyCommand("guard", "guard", "Judge one run of an agent by its input and output log."),
    "run": LazyCommand("guard", "run", "Run a guard program in the sandbox."),
    "check": LazyCommand("policies", "check", "Judge the proposed call of each case."),
    "test": LazyCommand("policies", "compare", "Compare verdicts with the expected ones, as a diff."),
    "try": LazyCommand("trial", "try_", "Judge calls as you type them, with the result of each rule."),
    "ci": LazyCommand("project", "ci", "Lint, test, replay and verify what pyproject.toml names, for CI."),
    "audit": LazyCommand("policies", "audit", "Replay whole traces up to their end."),
    "report": LazyCommand("bench", "report", "Report on the results of an audit over tables."),
    "replay": LazyCommand("log", "replay", "Replay a log under a candidate policy."),
    "verify": LazyCommand("workflow", "verify", "Verify a workflow graph before it runs."),
    "graph": LazyCommand("workflow", "graph", "Extract and draw the graph of a workflow."),
    "lint": LazyCommand("policies", "lint", "Find contradictory, vacuous and otherwise faulty rules."),
    "review": LazyCommand("translate", "review", "Review a translated policy, sentence by sentence."),
    "lock": LazyCommand("compile", "lock", "Write a lock file with the hashes of all content."),
    "serve": LazyCommand("serve", "serve", "Serve guards to the agents of a team over HTTP."),
    "generate-server": LazyCommand("serve", "generate_server", "Serve a local model that writes no forbidden call."),
    "mcp-proxy": LazyCommand("mcp", "mcp_proxy", "Run a guard in front of an MCP server."),
    "compile": LazyCommand("compile", "compile_", "Compile a guard request into a program that needs no model."),
    "translate": LazyCommand("translate", "translate", "Translate a policy document into a policy."),
    "import": LazyCommand("translate", "import_", "Translate rules of another format into a policy."),
    "bench": LazyCommand("bench", "bench", "Run one evaluation and report the paper's metrics."),
    "bench-compare": LazyCommand("bench", "bench_compare", "Compare the results of several evaluations."),
    "init": LazyCommand("project", "init", "Create a starter project, or guard the project of this folder."),
    "doctor": LazyCommand("project", "doctor", "Check which sandbox protections work on this machine."),
    "demo": LazyCommand("demo", "demo", "Show a two-minute tour, offline."),
    "toolbox": Subcommands("List, show and add toolbox functions.", TOOLBOX),
    "memory": Subcommands("Manage the known agents and their demonstrations.", MEMORY),
    "watch": LazyCommand("hooks", "watch", "Show the verdicts of hooks as they come, and answer calls that wait."),
    "hook": Subcommands("Guard coding agents by their hooks.", HOOK),
    "pack": Subcommands("List, show and add the rule sets that ship.", PACK),
    "approvals": Subcommands("List, show, answer and follow the calls that wait on a server.", APPROVALS),
    "stop": LazyCommand("approvals", "stop", "Stop agents at once, on a server or by a file."),
    "stops": Subcommands("List and lift stops.", STOPS),
    "reload": LazyCommand(
        "approvals", "reload", "Load the files of a server's policy again, for running sessions, too."
    ),
    "token": Subcommands("Create, list, rotate and revoke the tokens of agents and people.", TOKEN),
    "log": Subcommands("Show, verify, export, sign and anchor audit logs.", LOG),
}


def command_line() -> TyperGroup:
    """The command line with all commands."""
    return group_of("Keep LLM agents inside the rules that their operators set.", COMMANDS, _options, completion=True)


def _version(wanted: bool) -> None:  # noqa: FBT001 - a Typer callback
    if wanted:
        from guardagent._version import __version__

        typer.echo(f"guardagent {__version__}")
        raise typer.Exit


def _options(
    *,
    version: Annotated[
        bool, typer.Option("-V", "--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


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
    is_input = isinstance(error, InputError) and not isinstance(error, ModelError)
    return name, getattr(error, "exit_status", 2 if is_input else 3)
