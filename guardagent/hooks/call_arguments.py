"""The arguments of an agent's tool call as rules judge them: with its working folder, and with resolved paths."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

SHELL_TOOLS = frozenset(("Bash", "Shell", "run_shell_command", "shell", "local_shell", "exec_command", "Terminal"))
_PATCH_TOOLS = frozenset(("apply_patch", "ApplyPatch"))
_PATHS = ("file_path", "notebook_path", "path", "dir_path", "target_file", "absolute_path")
_FOLDERS = ("cwd", "workdir", "dir_path", "directory", "working_directory")


def judged_arguments(tool: str, args: Mapping[str, Any], cwd: str) -> dict[str, Any]:
    """Returns the arguments of a call.

    Args:
        tool: its name.
        args: the arguments of the host.
        cwd: the working folder of the agent; empty if the host does not say.
    """
    found = dict(args)
    if tool in _PATCH_TOOLS and isinstance(found.get("command"), str):
        found["patch"] = found.pop("command")
    if tool in SHELL_TOOLS or tool in _PATCH_TOOLS:
        if cwd:
            folder = next((found[name] for name in _FOLDERS if isinstance(found.get(name), str) and found[name]), "")
            found["cwd"] = os.path.join(cwd, folder) if folder else cwd
            if (branch := checked_out_branch(found["cwd"])) is not None:
                found["git_branch"] = branch
        return found
    for name in _PATHS:
        if isinstance(value := found.get(name), str) and value:
            found[name] = real_path(value, cwd)
    return found


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
