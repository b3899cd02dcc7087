"""The table of all commands: module, function and help. A command's module is loaded when the command runs."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.core import TyperGroup

from guardagent.cli.group import LazyCommand, Subcommands, group_of

TOOLBOX = {
    "list": LazyCommand("guardagent.cli.toolbox", "list_functions", "List the toolbox functions without running them."),
    "show": LazyCommand("guardagent.cli.toolbox", "show", "Show the signature and documentation of one function."),
    "accept": LazyCommand("guardagent.cli.toolbox", "accept", "Review a proposed function and add it to a toolbox."),
}
MEMORY = {
    "list": LazyCommand("guardagent.cli.memory", "list_agents", "List the known agents."),
    "add": LazyCommand("guardagent.cli.memory", "add", "Add demonstrations to an agent in your own memory."),
    "export": LazyCommand("guardagent.cli.memory", "export", "Print all demonstrations of an agent."),
    "review": LazyCommand("guardagent.cli.memory", "review", "Accept or reject entries that await review."),
}
LOG = {
    "show": LazyCommand("guardagent.cli.log", "show", "Show the entries of a log, one per line."),
    "verify": LazyCommand("guardagent.cli.log", "verify", "Verify that a log is complete and unchanged."),
    "export": LazyCommand("guardagent.cli.log", "export", "Export all entries as JSON Lines or CSV."),
    "anchor": LazyCommand("guardagent.cli.log", "anchor", "Allow the removal of a log's oldest entries."),
}
TOKEN = {
    "create": LazyCommand("guardagent.cli.token", "create", "Create a token, and show it once."),
    "list": LazyCommand("guardagent.cli.token", "list_tokens", "List the tokens, without their secrets."),
    "revoke": LazyCommand("guardagent.cli.token", "revoke", "Revoke a token at once."),
}
PACK = {
    "list": LazyCommand("guardagent.cli.packs", "list_packs", "List the rule sets that ship."),
    "show": LazyCommand("guardagent.cli.packs", "show_pack", "Show the page, the rules and the parameters of a pack."),
    "add": LazyCommand("guardagent.cli.packs", "add", "Add a pack to 'include:' of a policy file."),
}
HOOK = {
    **{
        name: LazyCommand(
            "guardagent.cli.hook", name.replace("-", "_"), f"Answer one event of {title}, from standard input."
        )
        for name, title in (
            ("claude-code", "Claude Code"),
            ("codex", "Codex CLI"),
            ("cursor", "Cursor"),
            ("gemini-cli", "Gemini CLI"),
        )
    },
    "install": LazyCommand("guardagent.cli.hook", "install", "Install the hooks of a coding agent, bound to a policy."),
    "status": LazyCommand("guardagent.cli.hook", "status", "Show the installed hooks, and what is wrong with them."),
    "uninstall": LazyCommand("guardagent.cli.hook", "uninstall", "Remove the hooks of a coding agent."),
}
COMMANDS: dict[str, LazyCommand | Subcommands] = {
    "guard": LazyCommand("guardagent.cli.guard", "guard", "Judge one run of an agent by its input and output log."),
    "run": LazyCommand("guardagent.cli.run", "run", "Run a guard program in the sandbox."),
    "check": LazyCommand("guardagent.cli.policies", "check", "Judge the proposed call of each case."),
    "test": LazyCommand("guardagent.cli.policies", "compare", "Compare verdicts with the expected ones, as a diff."),
    "audit": LazyCommand("guardagent.cli.policies", "audit", "Replay whole traces up to their end."),
    "report": LazyCommand("guardagent.cli.report", "report", "Report on the results of an audit over tables."),
    "replay": LazyCommand("guardagent.cli.replay", "replay", "Replay a log under a candidate policy."),
    "verify": LazyCommand("guardagent.cli.workflow", "verify", "Verify a workflow graph before it runs."),
    "graph": LazyCommand("guardagent.cli.workflow", "graph", "Extract and draw the graph of a workflow."),
    "lint": LazyCommand("guardagent.cli.lint", "lint", "Find contradictory, vacuous and otherwise faulty rules."),
    "review": LazyCommand("guardagent.cli.review", "review", "Review a translated policy, sentence by sentence."),
    "lock": LazyCommand("guardagent.cli.lock", "lock", "Write a lock file with the hashes of all content."),
    "serve": LazyCommand("guardagent.cli.serve", "serve", "Serve guards to the agents of a team over HTTP."),
    "generate-server": LazyCommand(
        "guardagent.cli.generate_server", "generate_server", "Serve a local model that writes no forbidden call."
    ),
    "mcp-proxy": LazyCommand("guardagent.cli.mcp", "mcp_proxy", "Run a guard in front of an MCP server."),
    "compile": LazyCommand(
        "guardagent.cli.compile", "compile_", "Compile a guard request into a program that needs no model."
    ),
    "translate": LazyCommand("guardagent.cli.translate", "translate", "Translate a policy document into a policy."),
    "bench": LazyCommand("guardagent.cli.bench", "bench", "Run one evaluation and report the paper's metrics."),
    "bench-compare": LazyCommand(
        "guardagent.cli.compare", "bench_compare", "Compare the results of several evaluations."
    ),
    "init": LazyCommand(
        "guardagent.cli.project", "init", "Create a starter project, or guard the project of this folder."
    ),
    "doctor": LazyCommand("guardagent.cli.project", "doctor", "Check which sandbox protections work on this machine."),
    "demo": LazyCommand("guardagent.cli.project", "demo", "Show a two-minute tour, offline."),
    "toolbox": Subcommands("List, show and add toolbox functions.", TOOLBOX),
    "memory": Subcommands("Manage the known agents and their demonstrations.", MEMORY),
    "watch": LazyCommand(
        "guardagent.cli.watch", "watch", "Show the verdicts of hooks as they come, and answer calls that wait."
    ),
    "hook": Subcommands("Guard coding agents by their hooks.", HOOK),
    "pack": Subcommands("List, show and add the rule sets that ship.", PACK),
    "token": Subcommands("Create, list and revoke the tokens of agents and people.", TOKEN),
    "log": Subcommands("Show, verify, export and anchor audit logs.", LOG),
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
