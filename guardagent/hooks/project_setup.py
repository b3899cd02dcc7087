"""Sets GuardAgent up in a project: finds its coding agents and frameworks, and writes a policy on trial."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from pathlib import Path

from guardagent._support.plugins import Plugins
from guardagent.errors import InputError
from guardagent.hooks.calls import read_transcript, stopped_calls, transcripts_of
from guardagent.policy.load import load_policies

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
    found = transcripts_of(project, home) if hosts else []
    stopped = [one for file in found for one in stopped_calls(policies, read_transcript(file))]
    warnings = [
        (str(call.args.get("command") or call.args.get("file_path") or call.tool), why) for call, why in stopped
    ]
    return ProjectSetup(path, hosts, frameworks, len(found), warnings)


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
        if any((project / one).exists() for one in signs) or (home / signs[0]).is_dir()
    ]


def find_frameworks(project: Path) -> list[str]:
    """Returns the agent frameworks that the project's Python files import."""
    imported = {name for path in islice(_python_files(project), _MAX_FILES) for name in _imports(path)}
    found = []
    for name in Plugins("framework", "guardagent.frameworks", ()).shipped():
        packages = import_module(f"guardagent.frameworks.{name}.package").PACKAGES
        if imported & set(packages):
            found.append(name)
    return found


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
        one.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names
    }
    return names | {
        (node.module or "").partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and not node.level
    }
