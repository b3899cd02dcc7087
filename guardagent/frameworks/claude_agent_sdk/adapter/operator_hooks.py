"""The operator's own hooks before a call: they may stop it, and may not change it once it is judged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from guardagent.frameworks.claude_agent_sdk.adapter.calls import ClaudeCalls, same
from guardagent.frameworks.claude_agent_sdk.adapter.hook_outputs import deny_output

_CHANGES = (
    "a hook of the operator changes the arguments of this call, which the guard has judged as they were; change them "
    "in the tool, or in can_use_tool"
)


def watched(matchers: Iterable[Any], calls: ClaudeCalls) -> list[Any]:
    """Returns the matchers of PreToolUse with hooks whose answers the guard knows."""
    return [replace(one, hooks=[_watched(hook, calls) for hook in one.hooks]) for one in matchers]


def _watched(own: Any, calls: ClaudeCalls) -> Any:
    async def hook(found: Any, tool_use_id: str | None, context: Any) -> Any:
        output = await own(found, tool_use_id, context)
        if _changes(output, found):
            output = deny_output(_CHANGES)
        if _stops(output):
            await calls.veto(str(found["tool_use_id"]))
        return output

    return hook


def _changes(output: Any, found: Any) -> bool:
    changed = _specific(output).get("updatedInput")
    return changed is not None and not same(changed, found["tool_input"])


def _stops(output: Any) -> bool:
    if not isinstance(output, dict):
        return False
    stopped = _specific(output).get("permissionDecision") in ("deny", "defer") or output.get("decision") == "block"
    return stopped or output.get("continue_", output.get("continue")) is False


def _specific(output: Any) -> dict[str, Any]:
    found = output.get("hookSpecificOutput") if isinstance(output, dict) else None
    return found if isinstance(found, dict) else {}
