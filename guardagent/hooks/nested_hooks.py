"""Settings in which an event has groups of hooks, each with a matcher: `hooks.EVENT[].hooks[]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guardagent.errors import InputError

MARK = "guardagent/hooks/client.py"
"""A part of each installed command, by which it is found again."""


def add_hooks(settings: dict[str, Any], commands: Mapping[str, str], **options: Any) -> None:
    """Adds a group for all tools to each event.

    Raises:
        InputError: the settings have another shape.
    """
    events = _object(settings.setdefault("hooks", {}), "hooks")
    for event, command in commands.items():
        groups = _list(events.setdefault(event, []), event)
        groups.append({"matcher": "*", "hooks": [{"type": "command", "command": command, **options}]})


def remove_hooks(settings: dict[str, Any]) -> int:
    """Removes the hooks of this package, and groups and events that are empty then. Returns how many there were."""
    events, count = settings.get("hooks"), 0
    if not isinstance(events, dict):
        return 0
    for event, groups in list(events.items()):
        for group in list(groups) if isinstance(groups, list) else []:
            hooks = group.get("hooks") if isinstance(group, dict) else None
            if not isinstance(hooks, list):
                continue
            others = [one for one in hooks if not is_ours(one)]
            count += len(hooks) - len(others)
            if others:
                group["hooks"] = others
            elif hooks:
                groups.remove(group)
        if groups == []:
            del events[event]
    if not events:
        del settings["hooks"]
    return count


def is_ours(hook: Any) -> bool:
    """Whether a hook is one of this package."""
    return isinstance(hook, dict) and MARK in str(hook.get("command", "")).replace("\\", "/")


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{name!r} of the settings is a {type(value).__name__}; expected an object")
    return value


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"the hooks of {name!r} in the settings are a {type(value).__name__}; expected a list")
    return value
