"""Closes the ways in which the host's settings lead past its hooks, or refuses them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from guardagent.errors import InputError

SIMPLE = "CLAUDE_CODE_SIMPLE"  # the host then runs no hook at all
UNGUARDED = ("settings hooks", "skill shell")
_FLAGS = ("bare", "settings", "permission-prompt-tool", "permission-prompts", "bg", "background", "cloud")


def closed_options(options: Any, unguarded: Collection[str]) -> dict[str, Any]:
    """Returns the options that have to change.

    Args:
        options: the operator's.
        unguarded: what the operator leaves open, of UNGUARDED.

    Raises:
        InputError: an option leads past the guard.
    """
    for name in unguarded:
        if name not in UNGUARDED:
            raise InputError(f"unguarded has {name!r}; expected one or more of: {', '.join(UNGUARDED)}")
    _refuse_flags(options)
    _refuse_reviewers(options)
    settings = _settings(options)
    env = settings.get("env") or {}
    for place, found in (("env", options.env), ("the settings' env", env)):
        if str(found.get(SIMPLE) or "0") != "0":
            raise InputError(f"{place} has {SIMPLE}, with which the host runs no hooks; expected options without it")
    closing = {"disableAllHooks": "settings hooks", "disableSkillShellExecution": "skill shell"}
    closed = {key: True for key, name in closing.items() if name not in unguarded}
    merged = {**settings, **closed, "env": {**env, SIMPLE: "0"}}
    return {"settings": json.dumps(merged), "env": {**options.env, SIMPLE: "0"}}


def _refuse_flags(options: Any) -> None:
    for name in _FLAGS:
        if name in options.extra_args:
            raise InputError(
                f"extra_args has {name!r}, with which calls could get past the guard's hooks; expected options without "
                f"it{' (pass settings=...)' if name == 'settings' else ''}"
            )


def _refuse_reviewers(options: Any) -> None:
    if options.permission_prompt_tool_name is not None:
        raise InputError("permission_prompt_tool_name may change a judged call; pass can_use_tool=... instead")
    if "PermissionRequest" in (options.hooks or {}):
        raise InputError("a PermissionRequest hook approves calls that a rule escalates; pass can_use_tool=... instead")


def _settings(options: Any) -> dict[str, Any]:
    """Returns the settings of the options, as the host reads them.

    Raises:
        InputError: they cannot be read.
    """
    text = (options.settings or "{}").strip()
    try:
        if not text.startswith("{"):
            text = (Path(options.cwd or "") / text).read_text(encoding="utf-8-sig")
        found = json.loads(text)
    except (OSError, ValueError) as error:
        raise InputError(f"the settings of the options cannot be read: {error}") from None
    if not isinstance(found, Mapping) or not isinstance(found.get("env") or {}, Mapping):
        raise InputError("the settings of the options are not an object with an object 'env'")
    return dict(found)
