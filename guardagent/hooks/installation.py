"""Installs the hooks of a host in its settings, with a backup; takes them out again; and sets a project up.

The setup finds the coding agents and frameworks of a project, and writes a policy on trial.
"""

from __future__ import annotations

import ast
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from guardagent._support import json_values
from guardagent._support.files import save_text
from guardagent._support.plugins import Plugins
from guardagent.errors import GuardError, InputError, UnknownNameError
from guardagent.hooks import client
from guardagent.hooks.calls import MARK, read_transcript, stopped_calls, transcripts_of
from guardagent.hooks.hook_event import HOSTS, HookHost, HookKind, HookOutput
from guardagent.hooks.hook_state import (
    KEEP_DAYS,
    AskPlace,
    HookLock,
    delete_old_sessions,
    read_locks,
    state_folder,
    state_path,
)
from guardagent.packs.shell.script import require_parser
from guardagent.policy.load import load_policies


def host_named(name: str) -> HookHost:
    """Returns a host by its name, such as `claude-code`.

    Raises:
        UnknownNameError: there is no such host.
    """
    module = name.replace("-", "_")
    if module not in HOSTS:
        raise UnknownNameError(HOSTS.kind, name, (known.replace("_", "-") for known in HOSTS))
    hook_host: HookHost = HOSTS.load(module).Host()
    return hook_host


def install(
    name: str, policy: Path, project: Path | None, keep_days: int = KEEP_DAYS, ask: AskPlace = "host"
) -> tuple[HookLock, Path | None]:
    """Installs the hooks of a host; those that were there are replaced.

    Args:
        name: the name of the host.
        policy: the policy file.
        project: the folder of the project; None for all projects of the user.
        keep_days: for how many days after its last use a session is kept.
        ask: as of `HookLock`.

    Returns:
        The lock, and the backup of the settings; None if there were no settings.

    Raises:
        InputError: the policy, the settings or the number of days is invalid.
    """
    require_parser()
    host = host_named(name)
    path = host.settings_file(project)
    settings = _read(path)
    lock = HookLock.of(name.replace("-", "_"), path, policy, project, keep_days, ask)
    host.remove(settings)
    locked = lock.write(state_folder())
    host.install(settings, _commands(host, lock.host, locked))
    backup = _backup(path)
    _write(path, settings)
    return lock, backup


def answer_once(name: str, policy: Path, text: bytes) -> HookOutput:
    """Answers one event in this process, by a policy as it is now. Its state is apart from that of installed hooks."""
    from guardagent.hooks.hook_daemon import HookDaemon

    host, folder = host_named(name), state_folder() / "tries"
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = HookLock.of(name, host.settings_file(None), policy, None).write(folder)
    delete_old_sessions(folder)
    return HookDaemon(folder).output(name, next(iter(host.events)), str(lock), text)


def uninstall(name: str, project: Path | None) -> int:
    """Removes the hooks of a host. Returns how many there were.

    Raises:
        InputError: the settings are invalid.
    """
    host = host_named(name)
    path = host.settings_file(project)
    settings = _read(path)
    count = host.remove(settings)
    if count:
        _backup(path)
        _write(path, settings)
    (state_folder() / f"{HookLock(name.replace('-', '_'), str(path), '', '').name}.json").unlink(missing_ok=True)
    return count


@dataclass(frozen=True, slots=True)
class InstalledHook:
    """An installed hook, and what is wrong with it.

    Attributes:
        problems: empty if it works.
        warnings: the hooks of others that may answer in place of the person that the host is to ask.
    """

    lock: HookLock
    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def installed() -> list[InstalledHook]:
    """Returns the hooks of this user.

    Raises:
        InputError: the state folder cannot be used.
    """
    folder = state_folder() if state_path().exists() else state_path()
    return [InstalledHook(lock, tuple(_problems(lock)), tuple(_answering(lock))) for lock in read_locks(folder)]


def _answering(lock: HookLock) -> Iterator[str]:
    """Yields the hooks of others that may answer the prompts of a host."""
    host = host_named(lock.host)
    files = () if lock.ask == "watch" else host.agent_files(Path(lock.project) if lock.project else None)
    for file in files:
        try:
            hooks = _read(file).get("hooks")
        except InputError as error:
            yield f"{error}; its hooks may answer prompts"
            continue
        for event in host.prompt_events:
            for command in _commands_in(hooks.get(event)) if isinstance(hooks, Mapping) else ():
                yield (
                    f"{file}: the hook {command!r} for {event} may answer in place of a person; with "
                    "'hook install --ask watch' a person answers in 'guardagent watch'"
                )


def _problems(lock: HookLock) -> list[str]:
    host = host_named(lock.host)
    problems = []
    try:
        lock.load()
    except GuardError as error:
        problems.append(str(error))
    path = Path(lock.settings)
    try:
        settings = _read(path)
    except InputError as error:
        return [*problems, str(error)]
    hooks = {words[-2]: words for words in map(shlex.split, _commands_in(settings)) if _works(words, lock)}
    missing = [event for event in host.events if event not in hooks]
    if missing:
        return [*problems, f"{path}: lacks the hook for {', '.join(missing)}; install them again"]
    before = next(event for event, kind in host.events.items() if kind is HookKind.BEFORE)
    return problems if _denies(hooks[before]) else [*problems, f"the hook for {before} does not deny invalid events"]


def _denies(words: list[str]) -> bool:
    """Whether a hook, run as its host runs it, denies what it cannot read."""
    try:
        ran = subprocess.run(words, input=b"{}", capture_output=True, timeout=60, check=False)  # noqa: S603 - our own
    except (OSError, subprocess.SubprocessError):
        return False
    return ran.returncode == 2 and bool(ran.stderr.strip())


def _works(words: list[str], lock: HookLock) -> bool:
    """Whether a command of the settings is that of a lock, and its programs exist."""
    if len(words) < 4 or words[-1] != str(state_folder() / f"{lock.name}.json"):
        return False
    return MARK in words[-4] and Path(words[0]).exists() and Path(words[-4]).exists()


def _commands_in(value: Any) -> list[str]:
    """Returns the commands in settings."""
    if isinstance(value, Mapping):
        own = [command for name, command in value.items() if name == "command" and isinstance(command, str)]
        return own + [command for item in value.values() for command in _commands_in(item)]
    return [command for item in value for command in _commands_in(item)] if isinstance(value, list) else []


def _commands(host: HookHost, name: str, lock: Path) -> dict[str, str]:
    program = str(Path(client.__file__).resolve())
    return {event: shlex.join([sys.executable, "-I", "-S", program, name, event, str(lock)]) for event in host.events}


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        value = json_values.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: the settings cannot be read: {error}; nothing was changed") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: the settings are not an object; nothing was changed")
    return value


def _write(path: Path, settings: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_text(path, json.dumps(settings, indent=2, ensure_ascii=False) + "\n")


def _backup(path: Path) -> Path | None:
    if not path.exists():
        return None
    backup = path.with_name(f"{path.name}.guardagent-backup")
    shutil.copy2(path, backup)
    return backup


# --- the setup of a project


FILE = "guardagent.yaml"
_MAX_FILES = 2000
_SIGNS = {
    "claude-code": (".claude", "CLAUDE.md"),
    "codex": (".codex", "AGENTS.md"),
    "cursor": (".cursor", ".cursorrules"),
    "gemini-cli": (".gemini", "GEMINI.md"),
}
_SKIPPED = frozenset((".venv", "venv", "node_modules", ".git", "site-packages", "build", "dist", ".tox"))
_CODING = ("shell", "filesystem", "git", "secrets", "tests_first", "network", "runaway")
_CONSTANTS = {
    "shell": "constants: {{workspace: {folder}}}, ",
    "filesystem": "constants: {{workspace: {folder}}}, ",
    "runaway": "constants: {{tool_calls: 1000, total_calls: 2000, polls: 50}}, ",
}


@dataclass(frozen=True, slots=True)
class ProjectSetup:
    """The result of setting a project up.

    Attributes:
        policy: the policy file.
        hosts: the coding agents.
        frameworks: the agent frameworks that the project's code imports.
        transcripts: the sessions that were replayed.
        warnings: the calls that the policy would have warned about, with the reasons.
    """

    policy: Path
    hosts: list[str]
    frameworks: list[str]
    transcripts: int = 0
    warnings: list[tuple[str, str]] = field(default_factory=list)


def set_up(project: Path, home: Path) -> ProjectSetup:
    """Writes a policy on trial into a project, and replays the last sessions under it.

    Raises:
        InputError: there is a policy already, or nothing to guard was found.
    """
    path = project / FILE
    if path.exists():
        raise InputError(f"{path}: is there already, and stays as it is; remove it to begin anew")
    hosts, frameworks = find_hosts(project, home), find_frameworks(project)
    if not hosts and not frameworks:
        raise InputError(
            f"{project}: no coding agent and no agent framework was found; "
            "name a folder for a starter project: guardagent init FOLDER"
        )
    text = policy_text(project, hosts)
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
    policies = load_policies(path)
    transcripts = transcripts_of(project, home) if hosts else []
    stopped = [stopped_call for file in transcripts for stopped_call in stopped_calls(policies, read_transcript(file))]
    warnings = [
        (str(call.args.get("command") or call.args.get("file_path") or call.tool), why) for call, why in stopped
    ]
    return ProjectSetup(path, hosts, frameworks, len(transcripts), warnings)


def policy_text(project: Path, hosts: list[str]) -> str:
    """Returns a policy whose violations only warn."""
    packs = _CODING if hosts else ("secrets", "runaway")
    lines = [
        f"  - {{pack: guardagent:{name}, {_CONSTANTS.get(name, '').format(folder=project)}on_violation: warn}}"
        for name in packs
    ]
    head = ["version: 1", "unlisted: allow", "include:  # on trial: remove 'on_violation: warn' after some days"]
    return "\n".join([*head, *lines, ""])


def find_hosts(project: Path, home: Path) -> list[str]:
    """Returns the coding agents that a project or its user has settings for."""
    return [
        name
        for name, signs in _SIGNS.items()
        if any((project / sign).exists() for sign in signs) or (home / signs[0]).is_dir()
    ]


def find_frameworks(project: Path) -> list[str]:
    """Returns the agent frameworks that the project's Python files import."""
    imported = {name for path in islice(_python_files(project), _MAX_FILES) for name in _imports(path)}
    frameworks = []
    for name in Plugins("framework", "guardagent.frameworks", ()).shipped():
        packages = import_module(f"guardagent.frameworks.{name}.package").PACKAGES
        if imported & set(packages):
            frameworks.append(name)
    return frameworks


def _python_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink() and path.name not in _SKIPPED:
            yield from _python_files(path)
        elif path.suffix == ".py":
            yield path


def _imports(path: Path) -> set[str]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError, RecursionError):
        return set()
    names = {
        name.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    }
    return names | {
        (node.module or "").partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and not node.level
    }
