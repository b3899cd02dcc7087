"""The commands `hook NAME`, `hook install`, `hook status` and `hook uninstall`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from guardagent.cli.options import Json
from guardagent.cli.output import print_json, print_line

HostName = Annotated[
    str, typer.Argument(metavar="NAME", help="The coding agent: claude-code, codex, cursor or gemini-cli.")
]
PolicyFile = Annotated[Path, typer.Option("-p", "--policies", help="The policy file.")]
Project = Annotated[
    bool, typer.Option("--project/--user", help="For the project of this folder, or for all projects of this user.")
]

KeepDays = Annotated[
    int, typer.Option(metavar="DAYS", help="For how many days after its last use the history of a session is kept.")
]


def claude_code(*, policies: PolicyFile) -> None:
    """Answer one event of Claude Code, from standard input. For tries: installed hooks are faster."""
    _run("claude_code", policies)


def codex(*, policies: PolicyFile) -> None:
    """Answer one event of Codex CLI, from standard input. For tries: installed hooks are faster."""
    _run("codex", policies)


def cursor(*, policies: PolicyFile) -> None:
    """Answer one event of Cursor, from standard input. For tries: installed hooks are faster."""
    _run("cursor", policies)


def gemini_cli(*, policies: PolicyFile) -> None:
    """Answer one event of Gemini CLI, from standard input. For tries: installed hooks are faster."""
    _run("gemini_cli", policies)


def _run(name: str, policies: Path) -> None:
    from guardagent.hooks.installation import answer_once

    output = answer_once(name, policies, sys.stdin.buffer.read())
    sys.stdout.write(output.stdout)
    sys.stderr.write(f"{output.stderr}\n" if output.stderr else "")
    raise typer.Exit(output.status)


def install(
    host: HostName, *, policies: PolicyFile, project: Project = False, keep_days: KeepDays = 30, as_json: Json = False
) -> None:
    """Install the hooks of a coding agent, bound to a policy as it is now. Other hooks stay."""
    from guardagent.hooks.installation import host_named
    from guardagent.hooks.installation import install as install_hooks

    lock, backup = install_hooks(host, policies, Path.cwd() if project else None, keep_days)
    found = host_named(host)
    if as_json:
        described = {"settings": lock.settings, "policy": lock.policy, "digest": lock.digest}
        print_json({**described, "backup": None if backup is None else str(backup)})
        return
    print_line(f"{lock.settings}: {found.title} asks before each tool call, by {lock.policy}")
    if backup is not None:
        print_line(f"the settings before are in {backup}")
    for caveat in found.caveats:
        print_line(f"note: {caveat}")
    print_line("next: start a new session; 'guardagent hook status' shows whether the hooks work")


def status(*, as_json: Json = False) -> None:
    """Show the installed hooks, and what is wrong with them. Exits with 1 if something is."""
    from guardagent.hooks.installation import host_named, installed

    found = installed()
    if as_json:
        rows = [{"host": one.lock.host, "settings": one.lock.settings, "policy": one.lock.policy} for one in found]
        problems = [list(one.problems) for one in found]
        print_json({"hooks": [{**row, "problems": these} for row, these in zip(rows, problems, strict=True)]})
    elif not found:
        print_line("No hooks are installed. Next: guardagent hook install NAME --policies FILE")
    for one in [] if as_json else found:
        host = host_named(one.lock.host)
        print_line(f"{host.title}: {one.lock.settings}, by {one.lock.policy}")
        for line in one.problems or [f"note: {caveat}" for caveat in host.caveats]:
            print_line(f"  {line}")
    raise typer.Exit(1 if any(one.problems for one in found) else 0)


def uninstall(host: HostName, *, project: Project = False, as_json: Json = False) -> None:
    """Remove the hooks of a coding agent from its settings. Other hooks stay."""
    from guardagent.hooks.installation import uninstall as uninstall_hooks

    count = uninstall_hooks(host, Path.cwd() if project else None)
    if as_json:
        print_json({"removed": count})
    else:
        print_line(f"removed {count} hooks" if count else "there were none")
