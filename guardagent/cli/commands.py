"""Every command, by its name: where it lives and what it does. A command's module is loaded when the command is run."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.core import TyperGroup

from guardagent.cli.group import LazyCommand, Subcommands, group_of

TOOLBOX = {
    "list": LazyCommand("guardagent.cli.toolbox", "list_functions", "List the functions, without running any of them."),
    "show": LazyCommand("guardagent.cli.toolbox", "show", "Show one function: its signature and documentation."),
    "accept": LazyCommand("guardagent.cli.toolbox", "accept", "Read a proposed function, and take it into a toolbox."),
}
MEMORY = {
    "list": LazyCommand("guardagent.cli.memory", "list_agents", "List the known agents and what is known of them."),
    "add": LazyCommand("guardagent.cli.memory", "add", "Add demonstrations to an agent of yours."),
    "export": LazyCommand("guardagent.cli.memory", "export", "Print all demonstrations of an agent."),
    "review": LazyCommand("guardagent.cli.memory", "review", "Confirm or drop what waits to be remembered."),
}
LOG = {
    "show": LazyCommand("guardagent.cli.log", "show", "Show entries, a line for each."),
    "verify": LazyCommand("guardagent.cli.log", "verify", "Check that every entry is there and as it was written."),
    "export": LazyCommand("guardagent.cli.log", "export", "Write all entries, as JSON Lines or as a table."),
}
COMMANDS: dict[str, LazyCommand | Subcommands] = {
    "guard": LazyCommand("guardagent.cli.guard", "guard", "Judge one run of an agent: its input and its output log."),
    "run": LazyCommand("guardagent.cli.run", "run", "Run one guard program file in the sandbox."),
    "check": LazyCommand("guardagent.cli.policies", "check", "Judge the call that each case proposes."),
    "test": LazyCommand("guardagent.cli.policies", "compare", "Compare verdicts with what cases expect, as a diff."),
    "audit": LazyCommand("guardagent.cli.policies", "audit", "Replay whole traces, with what is owed at their end."),
    "verify": LazyCommand("guardagent.cli.workflow", "verify", "Prove a workflow graph against checks and rules."),
    "graph": LazyCommand("guardagent.cli.workflow", "graph", "Extract the graph of a workflow, and draw it."),
    "lint": LazyCommand("guardagent.cli.lint", "lint", "Find what is wrong with rules themselves."),
    "lock": LazyCommand("guardagent.cli.lock", "lock", "Write down the hashes of what may run."),
    "mcp-proxy": LazyCommand("guardagent.cli.mcp", "mcp_proxy", "Guard an MCP server."),
    "compile": LazyCommand(
        "guardagent.cli.compile", "compile_", "Compile a request into a program that needs no model."
    ),
    "bench": LazyCommand("guardagent.cli.bench", "bench", "Run one evaluation, with the paper's metrics."),
    "bench-compare": LazyCommand("guardagent.cli.compare", "bench_compare", "Put evaluations side by side."),
    "init": LazyCommand("guardagent.cli.project", "init", "Make a starter project."),
    "doctor": LazyCommand("guardagent.cli.project", "doctor", "Say what protects this machine, and what is missing."),
    "demo": LazyCommand("guardagent.cli.project", "demo", "A two-minute tour, offline."),
    "toolbox": Subcommands("The functions that guard programs may call.", TOOLBOX),
    "memory": Subcommands("The known target agents and their demonstrations.", MEMORY),
    "log": Subcommands("Audit logs: what guards have decided.", LOG),
}


def command_line() -> TyperGroup:
    """The whole command line."""
    return group_of("Keeps LLM agents inside the rules their operators set.", COMMANDS, _options, completion=True)


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
