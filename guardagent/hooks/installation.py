"""Installs the hooks of a host in its settings, with a backup in the state folder; takes them out; sets a project up.

The setup finds the coding agents and frameworks of a project, and writes a policy on trial.
"""

from __future__ import annotations

import ast
import difflib
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
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
    Mode,
    delete_old_sessions,
    installable_digest,
    read_lock,
    read_locks,
    state_folder,
    state_path,
)
from guardagent.packs.shell.script import require_parser
from guardagent.policy.file.policy_file import read_policy_file
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
    name: str,
    policy: Path,
    project: Path | None,
    keep_days: int = KEEP_DAYS,
    ask: AskPlace = "host",
    mode: Mode = "enforce",
) -> tuple[HookLock, Path | None]:
    """Installs the hooks of a host with a copy of a policy; those that were there are replaced.

    Args:
        name: the name of the host.
        policy: the policy file.
        project: the folder of the project; None for all projects of the user.
        keep_days: for how many days after its last use a session is kept.
        ask: as of `HookLock`.
        mode: as of `HookLock`.

    Returns:
        The lock, and the backup of the settings; None if there were no settings.

    Raises:
        InputError: the policy, the settings or the number of days is invalid, or the settings are committed.
    """
    require_parser()
    host = host_named(name)
    if not policy.exists():
        hosts = find_hosts(project or Path.cwd(), Path.home())
        there = ", ".join(f"{host_named(other).title} ({sign})" for other, sign in hosts.items()) or "none"
        raise InputError(f"{policy}: is not there; next: 'guardagent init' writes it. Coding agents found: {there}")
    path = host.settings_file(project)
    settings = _read(path)
    lock = HookLock.of(name.replace("-", "_"), path, policy, project, keep_days, ask, mode)
    if project is not None:
        _keep_out_of_git(path, host, project)
    host.remove(settings)
    locked = lock.write(state_folder())
    host.install(settings, _commands(host, lock.host, locked))
    backup = _backup(path, lock)
    _write(path, settings)
    return read_lock(locked), backup


def _keep_out_of_git(path: Path, host: HookHost, project: Path) -> None:
    """Has git ignore the settings in this clone: they hold a path of this machine, and a stash would take them away.

    Raises:
        InputError: they are committed.
    """

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", "-C", str(project), *words], capture_output=True, text=True, check=False)  # noqa: S603, S607

    if shutil.which("git") is None:
        return
    if git("ls-files", "--error-unmatch", "--", str(path)).returncode == 0:
        raise InputError(
            f"{path}: git tracks it, and the hooks would put a path of this machine into it; untrack it "
            f"('git rm --cached'), or install the hooks of {host.title} for all your projects, with '--user'"
        )
    if git("check-ignore", "-q", "--", str(path)).returncode == 1:
        exclude = project / git("rev-parse", "--git-path", "info/exclude").stdout.strip()
        exclude.parent.mkdir(exist_ok=True)
        with exclude.open("a", encoding="utf-8") as file:
            file.write(f"\n**/{host.local_settings_path or host.settings_path}\n")


def locks_of(names: Collection[str], project: Path | None) -> list[HookLock]:
    """Returns the installed hooks of a project, or those for all projects of the user.

    Args:
        names: the hosts; all without one.
        project: the folder of the project; None for the hooks of the user.

    Raises:
        InputError: there are none, or one is missing.
    """
    folder = "" if project is None else str(project.resolve())
    wanted = [name.replace("-", "_") for name in names if host_named(name)]
    there = [lock for lock in read_locks(state_folder()) if lock.project == folder]
    missing = [name for name in wanted if name not in [lock.host for lock in there]]
    if missing or not there:
        where = "for all your projects" if project is None else f"for the project {folder}"
        what = " of " + ", ".join(host_named(name).title for name in missing) if missing else ""
        raise InputError(f"no hooks{what} are installed {where}; 'guardagent hook status' shows those that are")
    return [lock for lock in there if not wanted or lock.host in wanted]


def switch(lock: HookLock, mode: Mode) -> None:
    """Begins or ends the trial of an installed policy, for running sessions, too."""
    replace(lock, mode=mode).write(state_folder())


def update(lock: HookLock) -> list[str]:
    """Takes the policy file of a hook into force as it is now. Returns the changed lines, as a diff.

    Raises:
        InputError: the policy is invalid.
    """
    source, copied = Path(lock.source), Path(lock.policy)
    before = copied.read_text(encoding="utf-8").splitlines() if copied.exists() else []
    new = replace(lock, policy="", digest=installable_digest(source))
    new.write(state_folder())
    return list(
        difflib.unified_diff(
            before, source.read_text(encoding="utf-8").splitlines(), "in force", "new", lineterm="", n=0
        )
    )


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
    lock = HookLock(name.replace("-", "_"), str(path), "", "")
    if count:
        _backup(path, lock)
        _write(path, settings)
    (state_folder() / f"{lock.name}.json").unlink(missing_ok=True)
    for copied in (state_folder() / "policies").glob(f"{lock.name}-*"):
        shutil.rmtree(copied, ignore_errors=True)
    return count


@dataclass(frozen=True, slots=True)
class InstalledHook:
    """An installed hook, and what is wrong with it.

    Attributes:
        problems: empty if it works.
        warnings: the hooks of others that may answer in place of the person that the host is to ask.
        change: how the policy file differs from its copy in force; empty if it does not.
    """

    lock: HookLock
    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    change: str = ""


def installed(project: Path) -> list[InstalledHook]:
    """Returns the hooks of this user, and those in settings of a project or the user whose state is gone.

    Raises:
        InputError: the state folder cannot be used.
    """
    folder = state_folder() if state_path().exists() else state_path()
    hooks = [
        InstalledHook(lock, tuple(_problems(lock)), tuple(_answering(lock)), _change(lock))
        for lock in read_locks(folder)
    ]
    return [*hooks, *_hooks_without_state(project)]


def _hooks_without_state(project: Path) -> Iterator[InstalledHook]:
    for name in HOSTS:
        for path, folder in {host_named(name).settings_file(folder): folder for folder in (project, None)}.items():
            try:
                locks = {words[-1] for words in _own_commands(_read(path))}
            except InputError:
                continue  # whether our hooks are in it is unknown
            if any(not Path(lock).exists() for lock in locks):
                lost = HookLock(name, str(path), "", "", "" if folder is None else str(folder.resolve()))
                yield InstalledHook(lost, (f"{path}: its hooks deny every call: {client.lost(name)}",))


def hooks_of(project: Path, hooks: list[InstalledHook]) -> list[InstalledHook]:
    """Returns the hooks that guard agents in a folder: its own, and those for all projects."""
    return [hook for hook in hooks if hook.lock.project in ("", str(project.resolve()))]


def next_step(project: Path) -> str:
    """Returns the command with which a folder without hooks comes to have some."""
    hosts = " ".join(find_hosts(project, Path.home())) or "NAME"
    return f"guardagent hook install --trial {hosts}" if (project / FILE).exists() else "guardagent init"


def _change(lock: HookLock) -> str:
    stays = "its copy stays in force"
    if not Path(lock.source).exists():
        return f"{lock.source} is not there now; {stays}"
    try:
        is_changed = read_policy_file(lock.source).digest != lock.digest
    except GuardError as error:
        return f"{error}; {stays}"
    return f"{lock.source} has changed; {stays} until 'guardagent hook update'" if is_changed else ""


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
    for file in host.agent_files(Path(lock.project) if lock.project else None) if host.off_switch else ():
        try:
            if _read(file).get(host.off_switch, False) is not False:
                problems.append(f"{file}: {host.off_switch!r} switches all hooks off; remove it")
        except InputError as error:
            problems.append(f"{error}; it may switch all hooks off")
    hooks = {words[-2]: words for words in _own_commands(settings) if _works(words, lock)}
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
    return Path(words[0]).exists() and Path(words[-4]).exists()


def _own_commands(settings: Any) -> list[list[str]]:
    """Returns the words of each command of this package in settings."""
    return [shlex.split(command) for command in _commands_in(settings) if MARK in command]


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
    """Writes settings; links to them stay, and so do their permissions: they may hold keys."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o666
    save_text(path, json.dumps(settings, indent=2, ensure_ascii=False) + "\n", mode=mode)


def _backup(path: Path, lock: HookLock) -> Path | None:
    if not path.exists():
        return None
    backup = state_folder() / "backups" / f"{lock.name}-{path.name}"
    backup.parent.mkdir(exist_ok=True)
    shutil.copy2(path, backup)
    return backup


# --- the setup of a project


FILE = "guardagent.yaml"
_MAX_FILES = 2000
_SIGNS = {  # the settings folder, the file of a project, and the program
    "claude-code": (".claude", "CLAUDE.md", "claude"),
    "codex": (".codex", "AGENTS.md", "codex"),
    "cursor": (".cursor", ".cursorrules", "cursor-agent"),
    "gemini-cli": (".gemini", "GEMINI.md", "gemini"),
    "qwen-code": (".qwen", "QWEN.md", "qwen"),
    "copilot-cli": (".github/copilot", ".github/copilot-instructions.md", "copilot"),
}
_SKIPPED = frozenset((".venv", "venv", "node_modules", ".git", "site-packages", "build", "dist", ".tox"))
_CODING = ("shell", "filesystem", "git", "secrets", "tests_first", "network", "runaway")
_SETTINGS = {
    "runaway": {
        "constants": {"failures": 20, "tool_calls": 1000, "total_calls": 2000, "polls": 50},
        "on_violation": "escalate",
    },
}


@dataclass(frozen=True, slots=True)
class ProjectSetup:
    """The result of setting a project up.

    Attributes:
        policy: the policy file.
        hosts: the coding agents: name -> the path by which it was found.
        frameworks: the agent frameworks that the project's code imports.
        transcripts: the sessions that were replayed.
        warnings: the calls that the policy would have stopped, or warned about, with the reasons.
    """

    policy: Path
    hosts: dict[str, str]
    frameworks: list[str]
    transcripts: int = 0
    warnings: list[tuple[str, str]] = field(default_factory=list)


def set_up(project: Path, home: Path) -> ProjectSetup:
    """Writes a policy into a project, and replays the last sessions under it.

    Raises:
        InputError: there is a policy already, or nothing to guard was found.
    """
    path = project / FILE
    if path.exists():
        raise InputError(f"{path}: is there already, and stays as it is; next: {next_step(project)}")
    hosts, frameworks = find_hosts(project, home), find_frameworks(project)
    if not hosts and not frameworks:
        raise InputError(
            f"{project}: no coding agent and no agent framework was found, neither by settings nor by a program on the "
            "PATH; name a folder for a starter project: guardagent init FOLDER"
        )
    text = policy_text(hosts)
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
    policies = load_policies(path)
    transcripts = transcripts_of(project, home) if hosts else []
    stopped = [stopped_call for file in transcripts for stopped_call in stopped_calls(policies, read_transcript(file))]
    warnings = [
        (str(call.args.get("command") or call.args.get("file_path") or call.tool), why) for call, why in stopped
    ]
    return ProjectSetup(path, hosts, frameworks, len(transcripts), warnings)


def policy_text(hosts: Collection[str]) -> str:
    """Returns the policy of a project, without any path of this machine.

    Hooks can put a policy on trial as a whole; without them, its own violations only warn.
    """
    lines = []
    for name in _CODING if hosts else ("secrets", "runaway"):
        keys = {"pack": f"guardagent:{name}", **_SETTINGS.get(name, {})}
        written = json.dumps(keys if hosts else {**keys, "on_violation": "warn"}).replace('"', "")
        lines.append(f"  - {written if written.count(':') > 2 else keys['pack']}")
    trial = "" if hosts else "  # on trial: remove 'on_violation: warn' after some days"
    return "\n".join(["version: 1", "unlisted: allow", f"include:{trial}", *lines, ""])


def find_hosts(project: Path, home: Path) -> dict[str, str]:
    """Returns the coding agents that a project or its user has settings for, or that are installed: name -> a sign."""
    hosts = {}
    for name, (folder, file, program) in _SIGNS.items():
        own = home / Path(host_named(name).settings_path).parent
        paths = [path for path in (project / folder, project / file, own) if path.exists()]
        if sign := str(paths[0]) if paths else shutil.which(program):
            hosts[name] = sign
    return hosts


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
