"""Cursor, by the hooks page of its documentation as of November 2026."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from guardagent.hooks.calls import event_hooks
from guardagent.hooks.hook_event import HookAnswer, HookDecision, HookEvent, HookHost, HookKind, HookOutput


class Host(HookHost):
    """Answers `preToolUse` with a permission; `ask` is not enforced there."""

    title: ClassVar[str] = "Cursor"
    asks: ClassVar[bool] = False
    settings_path: ClassVar[str] = ".cursor/hooks.json"
    reports_edits: ClassVar[bool] = False  # its documentation does not say
    events: ClassVar[Mapping[str, HookKind]] = {
        "preToolUse": HookKind.BEFORE,
        "postToolUse": HookKind.AFTER,
        "postToolUseFailure": HookKind.AFTER,
        "beforeSubmitPrompt": HookKind.PROMPT,
        "stop": HookKind.STOP,
    }
    caveats: ClassVar[tuple[str, ...]] = (
        "versions without 'preToolUse' ignore the hook; look at the tab Hooks of its settings",
        "it denies if the hook fails, as 'failClosed' is set",
    )

    def read(self, payload: Mapping[str, Any]) -> HookEvent:
        event = self.common_fields(payload, session="conversation_id")
        roots = payload.get("workspace_roots")
        root = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
        loops = payload.get("loop_count")
        return replace(
            event,
            cwd=event.cwd or root,
            output=payload.get("tool_output", payload.get("error_message")),
            failed=_has_failed(event.name, payload),
            repeated=type(loops) is int and loops > 0,
            ran=payload.get("failure_type") != "permission_denied",
        )

    def write(self, event: HookEvent, answer: HookAnswer) -> HookOutput:
        is_allowed = answer.decision is HookDecision.ALLOW
        if event.kind is HookKind.BEFORE:
            output: dict[str, Any] = {"permission": "allow" if is_allowed else "deny"}
            if not is_allowed:
                output |= {"user_message": answer.reason, "agent_message": answer.reason}
            return HookOutput(json.dumps(output))
        if event.kind is HookKind.PROMPT:
            return HookOutput(
                json.dumps({"continue": is_allowed} | ({} if is_allowed else {"user_message": answer.reason}))
            )
        if event.kind is HookKind.STOP and not is_allowed:
            return HookOutput(json.dumps({"followup_message": answer.reason}))
        return HookOutput("{}")

    def install(self, settings: dict[str, Any], commands: Mapping[str, str]) -> None:
        settings.setdefault("version", 1)
        for hooks, command in event_hooks(settings, commands):
            hooks.append({"command": command, "timeout": self.seconds, "failClosed": True})


def _has_failed(name: str, payload: Mapping[str, Any]) -> bool | None:
    if name == "postToolUseFailure":
        return None if payload.get("failure_type") == "timeout" or payload.get("is_interrupt") is True else True
    output = payload.get("tool_output")
    if isinstance(output, str):
        try:
            output = json.loads(output)
        except ValueError:
            return False
    code = output.get("exitCode", output.get("exit_code")) if isinstance(output, Mapping) else None
    return code != 0 if type(code) is int else False
