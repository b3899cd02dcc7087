"""The commands of hooks of coding agents: `hook NAME`, `hook install`, `status`, `enforce`, `update`, ..., and `watch`.

`watch` shows the verdicts of hooks as they come, and answers calls that wait for a person.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from guardagent._terminal import printable
from guardagent.cli.options import Json, print_json, print_line, print_result
from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent.hooks.hook_state import Mode, PendingAsk, PendingAsks

_NAMES = "claude-code, codex, cursor, gemini-cli, qwen-code or copilot-cli"
HostName = Annotated[str, typer.Argument(metavar="NAME", help=f"The coding agent: {_NAMES}.")]
PolicyFile = Annotated[Path, typer.Option("-p", "--policies", help="The policy file.")]
HostNames = Annotated[list[str], typer.Argument(metavar="NAME...", help=f"The coding agents: {_NAMES}.")]
SomeHosts = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="The coding agents; without one, all with hooks here.")
]
ProjectPolicy = Annotated[Path, typer.Option("-p", "--policies", help="The policy file, which is copied.")]
Trial = Annotated[bool, typer.Option("--trial", help="At first, rules only warn; 'hook enforce' ends the trial.")]
Project = Annotated[
    bool, typer.Option("--project/--user", help="For the project of this folder, or for all projects of this user.")
]

KeepDays = Annotated[
    int, typer.Option(metavar="DAYS", help="For how many days after its last use the history of a session is kept.")
]
AskPlace = Annotated[
    str,
    typer.Option(
        metavar="PLACE",
        help="Who asks a person about a call: 'host', the coding agent itself, or 'watch', this program.",
    ),
]


def _answers(module: str, title: str) -> Callable[..., None]:
    def answer(*, policies: PolicyFile) -> None:
        _run(module, policies)

    answer.__doc__ = f"Answer one event of {title}, from standard input. For tries: installed hooks are faster."
    return answer


claude_code = _answers("claude_code", "Claude Code")
codex = _answers("codex", "Codex CLI")
cursor = _answers("cursor", "Cursor")
gemini_cli = _answers("gemini_cli", "Gemini CLI")
qwen_code = _answers("qwen_code", "Qwen Code")
copilot_cli = _answers("copilot_cli", "GitHub Copilot CLI")


def _run(name: str, policies: Path) -> None:
    from guardagent.hooks.installation import answer_once

    output = answer_once(name, policies, sys.stdin.buffer.read())
    sys.stdout.write(output.stdout)
    sys.stderr.write(f"{output.stderr}\n" if output.stderr else "")
    raise typer.Exit(output.status)


def install(
    hosts: HostNames,
    *,
    policies: ProjectPolicy = Path("guardagent.yaml"),
    project: Project = True,
    trial: Trial = False,
    keep_days: KeepDays = 30,
    ask: AskPlace = "host",
    as_json: Json = False,
) -> None:
    """Install the hooks of coding agents, with a copy of a policy as it is now. Other hooks stay.

    The hooks of a project are in settings that git ignores.
    """
    from guardagent.hooks.installation import host_named
    from guardagent.hooks.installation import install as install_hooks

    folder = Path.cwd() if project else None
    for host in hosts:
        lock, backup = install_hooks(
            host, policies, folder, keep_days, cast("Any", ask), "trial" if trial else "enforce"
        )
        if as_json:
            described = {"settings": lock.settings, "policy": lock.source, "digest": lock.digest, "mode": lock.mode}
            print_json({**described, "backup": None if backup is None else str(backup)})
            continue
        print_line(f"{lock.settings}: {host_named(host).title} asks before each tool call, by a copy of {lock.source}")
        if backup is not None:
            print_line(f"the settings before are in {backup}")
        for caveat in host_named(host).caveats:
            print_line(f"note: {caveat}")
    if not as_json:
        print_line("next: start a new session; 'guardagent hook status' shows whether the hooks work")
        if trial:
            print_line("      'guardagent hook enforce' ends the trial, in which rules only warn")


def status(*, as_json: Json = False) -> None:
    """Show the installed hooks, and what is wrong with them. Exits with 1 if something is, or without hooks here."""
    from guardagent.hooks.hook_state import STOP_FILE, state_path
    from guardagent.hooks.installation import hooks_of, host_named, installed, next_step

    installed_hooks = installed(Path.cwd())
    here = hooks_of(Path.cwd(), installed_hooks)
    installed_hooks.sort(key=lambda hook: hook not in here)
    if as_json:
        hooks = [
            {
                "host": hook.lock.host,
                "settings": hook.lock.settings,
                "policy": hook.lock.source,
                "project": hook.lock.project,
                "mode": hook.lock.mode,
                "change": hook.change,
                "problems": list(hook.problems),
                "warnings": list(hook.warnings),
            }
            for hook in installed_hooks
        ]
        is_guarded = bool(here) and not any(hook.problems for hook in here)
        print_json({"guarded": is_guarded, "hooks": hooks})
    else:
        print_line(f"this folder: {'has hooks' if here else f'not guarded; next: {next_step(Path.cwd())}'}")
    for installed_hook in [] if as_json else installed_hooks:
        host = host_named(installed_hook.lock.host)
        lock = installed_hook.lock
        print_line(f"{host.title}, in {lock.project or 'all projects'}: {_MODES[lock.mode]}")
        print_line(f"  {lock.settings}" + (f", by a copy of {lock.source}" if lock.source else ""))
        if installed_hook.change:
            print_line(f"  note: {installed_hook.change}")
        notes = [f"note: {caveat}" for caveat in host.caveats]
        for line in [*(installed_hook.problems or notes), *(f"warning: {line}" for line in installed_hook.warnings)]:
            print_line(f"  {line}")
    if installed_hooks and not as_json:
        print_line(f"stop them all: guardagent stop --file {state_path() / STOP_FILE} --reason …")
    raise typer.Exit(1 if not here or any(hook.problems for hook in installed_hooks) else 0)


def enforce(hosts: SomeHosts = None, *, project: Project = True, as_json: Json = False) -> None:
    """End the trial of a policy: from now on, hooks deny and ask as its rules say, in running sessions, too."""
    _switch("enforce", hosts, project=project, as_json=as_json)


def trial(hosts: SomeHosts = None, *, project: Project = True, as_json: Json = False) -> None:
    """Put a policy on trial: its rules only warn. Denied are events that cannot be read, and changes of the guard."""
    _switch("trial", hosts, project=project, as_json=as_json)


def _switch(mode: Mode, hosts: list[str] | None, *, project: bool, as_json: bool) -> None:
    from guardagent.hooks.installation import locks_of, switch

    locks = locks_of(hosts or (), Path.cwd() if project else None)
    for lock in locks:
        switch(lock, mode)
    lines = [f"{lock.settings}: {_MODES[mode]}" for lock in locks]
    print_result({"mode": mode, "settings": [lock.settings for lock in locks]}, "\n".join(lines), as_json=as_json)


def update(hosts: SomeHosts = None, *, project: Project = True, as_json: Json = False) -> None:
    """Take the policy file of installed hooks into force as it is now, and show what has changed in it."""
    from guardagent.hooks.installation import locks_of
    from guardagent.hooks.installation import update as update_hooks

    changes = {lock: update_hooks(lock) for lock in locks_of(hosts or (), Path.cwd() if project else None)}
    rows = [{"settings": lock.settings, "policy": lock.source, "diff": lines} for lock, lines in changes.items()]
    text = [
        line
        for lock, lines in changes.items()
        for line in (f"{lock.source}: in force; start a new session of the agent", *lines)
    ]
    print_result({"hooks": rows}, printable("\n".join(text)), as_json=as_json)


def uninstall(host: HostName, *, project: Project = True, as_json: Json = False) -> None:
    """Remove the hooks of a coding agent from its settings. Other hooks stay."""
    from guardagent.hooks.installation import uninstall as uninstall_hooks

    count = uninstall_hooks(host, Path.cwd() if project else None)
    print_result({"removed": count}, f"removed {count} hooks" if count else "there were none", as_json=as_json)


_MODES: dict[Mode, str] = {"enforce": "enforced", "trial": "on trial: rules only warn"}


# --- watch


PAUSE_SECONDS = 0.5
_MARKS = {"allow": "+", "warn": "!", "deny": "-", "escalate": "?", "halt": "x"}
Once = Annotated[bool, typer.Option("--once", help="Show what is there now, answer what waits, and end.")]
Denials = Annotated[bool, typer.Option("--denials", help="Leave out calls that were allowed.")]


def watch(*, once: Once = False, denials: Denials = False) -> None:
    """Show the verdicts of installed hooks as they come, and answer calls that wait for a person."""
    from guardagent.hooks.hook_state import PendingAsks, state_folder
    from guardagent.server.state import open_state

    folder = state_folder()
    log = folder / "log.db"
    asks = PendingAsks(open_state(f"sqlite:{folder / 'asks.db'}"))
    seen, shown = 0, set[str]()
    while True:
        for seq, fields in _entries(log, seen):
            seen = seq
            is_allowed = fields.get("kind") == "verdict" and fields.get("decision") == "allow"
            if fields.get("kind") in ("verdict", "unchecked") and not (denials and is_allowed):
                print_line(_line(fields))
        _answer_new(asks, shown)
        if once:
            return
        time.sleep(PAUSE_SECONDS)


def _entries(log: Path, after: int) -> list[tuple[int, dict[str, Any]]]:
    """Returns the entries after a number, of those that are new at first: the last twenty."""
    from guardagent.log.verification import Selection

    if not log.exists():
        return []
    entries = Selection(last=20 if after == 0 else 500).entries([str(log)])
    return [(entry.entry.seq, entry.fields) for entry in entries if entry.entry.seq > after]


def _line(fields: dict[str, Any]) -> str:
    """Returns a verdict on one line, without control characters."""
    args = fields.get("args") or {}
    what = args.get("command") or args.get("file_path") or json.dumps(args, ensure_ascii=False, default=str)
    why = "" if fields.get("decision") == "allow" else "; ".join(map(str, fields.get("reasons") or []))
    mark = _MARKS.get(str(fields.get("decision")), " ")
    if fields.get("kind") == "unchecked":
        mark, why = "#", "; ".join(filter(None, ["it ran without a verdict that allows it", why]))
    parts = [mark, str(fields.get("time", ""))[11:19], str(fields.get("tool")), str(what)[:200], why and f"({why})"]
    return printable(" ".join(" ".join(parts).split()))


def _answer_new(asks: PendingAsks, shown: set[str]) -> None:
    """Shows each request that waits, once, and takes the answer if a person is at the terminal."""
    for ask in reversed(asks.pending()):
        if ask.name in shown:
            continue
        shown.add(ask.name)
        print_line(_question(ask))
        if not sys.stdin.isatty():
            continue
        answer = typer.prompt("approve this call, once? yes, no, or later", default="later")
        if answer.strip().lower() in ("y", "yes", "n", "no"):
            try:
                asks.answer(ask.name, approves=answer.strip().lower().startswith("y"))
            except InputError as error:
                print_line(str(error))


def _question(ask: PendingAsk) -> str:
    lines = [f"? {ask.host}, session {ask.session}, wants to call {ask.tool}:"]
    for name, value in ask.args.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        lines += [f"    {name}: {part}" for part in text.split("\n")]
    return "\n".join(printable(line) for line in [*lines, *(f"  because: {reason}" for reason in ask.reasons)])
