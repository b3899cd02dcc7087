"""Tool calls of coding agents: arguments as rules judge them, the calls of earlier sessions, and nested hooks.

Arguments are judged with their working folder, and with resolved paths. Earlier calls come from the transcripts that
Claude Code keeps. In the settings of several hosts an event has groups of hooks, each with a matcher:
`hooks.EVENT[].hooks[]`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardagent.errors import InputError
from guardagent.policy.policies import Policies

SHELL_TOOLS = frozenset(("Bash", "Shell", "run_shell_command", "shell", "local_shell", "exec_command", "Terminal"))
PATCH_TOOLS = frozenset(("apply_patch", "ApplyPatch"))
PATHS = ("file_path", "notebook_path", "path", "dir_path", "target_file", "absolute_path")
_FOLDERS = ("cwd", "workdir", "dir_path", "directory", "working_directory")


def judged_arguments(tool: str, args: Mapping[str, Any], cwd: str) -> dict[str, Any]:
    """Returns the arguments of a call.

    Args:
        tool: its name.
        args: the arguments of the host.
        cwd: the working folder of the agent; empty if the host does not say.
    """
    judged_arguments = dict(args)
    if tool in PATCH_TOOLS and isinstance(judged_arguments.get("command"), str):
        judged_arguments["patch"] = judged_arguments.pop("command")
    if tool in SHELL_TOOLS or tool in PATCH_TOOLS:
        if cwd:
            folder = next(
                (
                    judged_arguments[name]
                    for name in _FOLDERS
                    if isinstance(judged_arguments.get(name), str) and judged_arguments[name]
                ),
                "",
            )
            judged_arguments["cwd"] = os.path.join(cwd, folder) if folder else cwd
            if (branch := checked_out_branch(judged_arguments["cwd"])) is not None:
                judged_arguments["git_branch"] = branch
        return judged_arguments
    for name in PATHS:
        if isinstance(value := judged_arguments.get(name), str) and value:
            judged_arguments[name] = real_path(value, cwd)
    return judged_arguments


def checked_out_branch(folder: str) -> str | None:
    """Returns the branch of the repository around a folder: empty without one, None if it cannot be told."""
    while not os.path.exists(os.path.join(folder, ".git")):
        if folder == (above := os.path.dirname(folder)):
            return ""
        folder = above
    try:
        with open(os.path.join(folder, ".git", "HEAD"), encoding="utf-8") as file:
            head = file.read(1000).strip()
    except (OSError, ValueError):  # such as a worktree, whose .git is a file
        return None
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") else None


def real_path(path: str, cwd: str) -> str:
    """Returns a path without links, relative to a working folder if it is relative.

    A path that cannot be resolved stays as it is.
    """
    whole = os.path.join(cwd or os.sep, os.path.expanduser(path))
    try:
        return os.path.realpath(whole)
    except (OSError, ValueError):
        return path


MAX_BYTES = 20 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TranscriptCall:
    """One tool call of a transcript.

    Attributes:
        failed: None if the transcript has no result of it.
    """

    tool: str
    args: dict[str, Any]
    cwd: str
    output: Any = None
    failed: bool | None = None


_MAX_TRANSCRIPTS = 3


def transcripts_of(project: Path, home: Path) -> list[Path]:
    """Returns the newest transcripts of a project."""
    folder = (
        home / ".claude" / "projects" / "".join(character if character.isalnum() else "-" for character in str(project))
    )
    files = [path for path in folder.glob("*.jsonl") if path.stat().st_size <= MAX_BYTES] if folder.is_dir() else []
    return sorted(files, key=lambda file: file.stat().st_mtime, reverse=True)[:_MAX_TRANSCRIPTS]


def read_transcript(path: Path) -> list[TranscriptCall]:
    """Returns the calls of a transcript in order. Lines that cannot be read are left out."""
    lines = list(_lines(path))
    results = {
        block.get("tool_use_id"): block
        for line in lines
        for block in _content(line)
        if block.get("type") == "tool_result"
    }
    calls = []
    for line in lines:
        for block in _content(line):
            if block.get("type") == "tool_use" and isinstance(block.get("input"), dict):
                result = results.get(block.get("id"), {})
                failed = bool(result.get("is_error")) if result else None
                cwd = str(line.get("cwd") or "")
                calls.append(TranscriptCall(str(block.get("name")), block["input"], cwd, result.get("content"), failed))
    return calls


def stopped_calls(policies: Policies, calls: list[TranscriptCall]) -> list[tuple[TranscriptCall, str]]:
    """Returns the calls that a policy would have stopped or warned about, with the reasons."""
    session, stopped_calls = policies.session(), []
    for call in calls:
        args = judged_arguments(call.tool, call.args, call.cwd)
        verdict = session.check(call.tool, args)
        if verdict.violations or verdict.label:
            stopped_calls.append((call, "; ".join(verdict.reasons)))
        if verdict.label == 0:
            session.record(call.output, failed=bool(call.failed), permit=verdict.permit)
    return stopped_calls


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for text in file:
            try:
                value = json.loads(text)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value


def _content(line: dict[str, Any]) -> list[dict[str, Any]]:
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


# --- settings with hooks


MARK = "guardagent/hooks/client.py"
"""A part of each installed command, by which it is found again."""


def event_hooks(settings: dict[str, Any], commands: Mapping[str, str]) -> Iterator[tuple[list[Any], str]]:
    """Yields the hooks of each event in settings, to add to, and the command for the event.

    Raises:
        InputError: the settings have another shape.
    """
    events = settings.setdefault("hooks", {})
    if not isinstance(events, dict):
        raise InputError(f"'hooks' of the settings is a {type(events).__name__}; expected an object")
    for event, command in commands.items():
        hooks = events.setdefault(event, [])
        if not isinstance(hooks, list):
            kind = type(hooks).__name__
            raise InputError(f"the hooks of {event!r} in the settings are a {kind}; expected a list")
        yield hooks, command


def add_hooks(settings: dict[str, Any], commands: Mapping[str, str], **options: Any) -> None:
    """Adds a group for all tools to each event. Errors as for `event_hooks`."""
    for groups, command in event_hooks(settings, commands):
        groups.append({"matcher": "*", "hooks": [{"type": "command", "command": command, **options}]})


def remove_hooks(settings: dict[str, Any]) -> int:
    """Removes the hooks of this package, and groups and events that are empty then. Returns how many there were."""
    events, count = settings.get("hooks"), 0
    if not isinstance(events, dict):
        return 0
    for event, entries in list(events.items()):
        for entry in list(entries) if isinstance(entries, list) else []:
            group = entry.get("hooks") if isinstance(entry, dict) else None
            hooks = group if isinstance(group, list) else [entry]  # some hosts have no groups
            others = [hook for hook in hooks if not is_ours(hook)]
            count += len(hooks) - len(others)
            if hooks and not others:
                entries.remove(entry)
            elif len(others) < len(hooks):
                entry["hooks"] = others
        if entries == []:
            del events[event]
    if not events:
        del settings["hooks"]
    return count


def is_ours(hook: Any) -> bool:
    """Whether a hook is one of this package."""
    return isinstance(hook, dict) and MARK in str(hook.get("command", "")).replace("\\", "/")
