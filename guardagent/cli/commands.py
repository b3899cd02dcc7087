"""Every command, by its name: where it lives and what it does. A command's module is loaded when the command is run."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.core import TyperGroup

from guardagent.cli.group import Branch, Place, group_of

TOOLBOX = {
    "list": Place("guardagent.cli.toolbox", "list_functions", "List the functions, without running any of them."),
    "show": Place("guardagent.cli.toolbox", "show", "Show one function: its signature and documentation."),
    "accept": Place("guardagent.cli.toolbox", "accept", "Read a proposed function, and take it into a toolbox."),
}
MEMORY = {
    "list": Place("guardagent.cli.memory", "list_agents", "List the known agents and what is known of them."),
    "add": Place("guardagent.cli.memory", "add", "Add demonstrations to an agent of yours."),
    "export": Place("guardagent.cli.memory", "export", "Print all demonstrations of an agent."),
    "review": Place("guardagent.cli.memory", "review", "Confirm or drop what waits to be remembered."),
}
LOG = {
    "show": Place("guardagent.cli.log", "show", "Show entries, a line for each."),
    "verify": Place("guardagent.cli.log", "verify", "Check that every entry is there and as it was written."),
    "export": Place("guardagent.cli.log", "export", "Write all entries, as JSON Lines or as a table."),
}
COMMANDS: dict[str, Place | Branch] = {
    "guard": Place("guardagent.cli.guard", "guard", "Judge one run of an agent: its input and its output log."),
    "run": Place("guardagent.cli.run", "run", "Run one guard program file in the sandbox."),
    "check": Place("guardagent.cli.policies", "check", "Judge the call that each case proposes."),
    "test": Place("guardagent.cli.policies", "compare", "Compare verdicts with what cases expect, as a diff."),
    "audit": Place("guardagent.cli.policies", "audit", "Replay whole traces, with what is owed at their end."),
    "verify": Place("guardagent.cli.workflow", "verify", "Prove a workflow graph against checks and rules."),
    "graph": Place("guardagent.cli.workflow", "graph", "Extract the graph of a workflow, and draw it."),
    "lint": Place("guardagent.cli.lint", "lint", "Find what is wrong with rules themselves."),
    "lock": Place("guardagent.cli.lock", "lock", "Write down the hashes of what may run."),
    "mcp-proxy": Place("guardagent.cli.mcp", "mcp_proxy", "Guard an MCP server."),
    "compile": Place("guardagent.cli.compile", "compile_", "Compile a request into a program that needs no model."),
    "bench": Place("guardagent.cli.bench", "bench", "Run one evaluation, with the paper's metrics."),
    "bench-compare": Place("guardagent.cli.compare", "bench_compare", "Put evaluations side by side."),
    "init": Place("guardagent.cli.project", "init", "Make a starter project."),
    "doctor": Place("guardagent.cli.project", "doctor", "Say what protects this machine, and what is missing."),
    "demo": Place("guardagent.cli.project", "demo", "A two-minute tour, offline."),
    "toolbox": Branch("The functions that guard programs may call.", TOOLBOX),
    "memory": Branch("The known target agents and their demonstrations.", MEMORY),
    "log": Branch("Audit logs: what guards have decided.", LOG),
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
