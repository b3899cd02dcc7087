"""Claude Code, as 2.1.332 runs hooks (November 2026)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from guardagent.hooks.calls import add_hooks
from guardagent.hooks.hook_event import HookAnswer, HookDecision, HookEvent, HookHost, HookKind, HookOutput, denied

EVENTS = {
    "PreToolUse": HookKind.BEFORE,
    "PostToolUse": HookKind.AFTER,
    "PostToolUseFailure": HookKind.AFTER,
    "UserPromptSubmit": HookKind.PROMPT,
    "Stop": HookKind.STOP,
    "SessionStart": HookKind.START,
}


class Host(HookHost):
    """Answers `PreToolUse` with a permission decision. An allowed call still passes the host's own permissions."""

    title: ClassVar[str] = "Claude Code"
    asks: ClassVar[bool] = True
    settings_path: ClassVar[str] = ".claude/settings.json"
    local_settings_path: ClassVar[str] = ".claude/settings.local.json"
    off_switch: ClassVar[str] = "disableAllHooks"
    events: ClassVar[Mapping[str, HookKind]] = {
        **EVENTS,
        "PreSkillShellCommand": HookKind.BEFORE,  # a command in the text of a skill; it has no event after it
    }
    hook_options: ClassVar[Mapping[str, Any]] = {"onFailure": "block"}
    prompt_events: ClassVar[tuple[str, ...]] = ("PermissionRequest",)
    caveats: ClassVar[tuple[str, ...]] = (
        "before 2.1.295 it runs the tool if the hook cannot start or takes too long; later ones obey 'onFailure'",
        "versions without 'PreSkillShellCommand', such as 2.1.317, run commands in the text of skills without a hook",
        "settings of the operating system's administrator, and '--bare', can switch hooks off",
        "a program that starts it, such as one with an SDK, may answer its prompts, but not with '--ask watch'",
    )

    def read(self, payload: Mapping[str, Any]) -> HookEvent:
        event = self.common_fields(payload)
        return replace(
            event,
            agent=payload.get("agent_id") or None,
            output=payload.get("tool_response", payload.get("error")),
            failed=self.has_failed(event.name, payload),
            repeated=payload.get("stop_hook_active") is True,
            resumed=payload.get("source") == "resume",
        )

    def has_failed(self, name: str, payload: Mapping[str, Any]) -> bool | None:
        """Whether the tool failed: the host has an event for failures of its own; without a response, it is unknown."""
        response = payload.get("tool_response")
        if name == "PostToolUseFailure":
            return None if payload.get("is_interrupt") is True else True
        goes_on = isinstance(response, Mapping) and (
            response.get("interrupted") is True or "backgroundTaskId" in response
        )
        return None if goes_on or response is None else False

    def asks_about(self, event: HookEvent) -> bool:
        return self.asks and event.name == "PreToolUse"

    def write(self, event: HookEvent, answer: HookAnswer) -> HookOutput:
        if event.kind is HookKind.BEFORE and answer.decision is not HookDecision.ALLOW:
            output = {
                "hookEventName": event.name,
                "permissionDecision": str(answer.decision),
                "permissionDecisionReason": answer.reason,
            }
            return HookOutput(json.dumps({"hookSpecificOutput": output}))
        if answer.decision is not HookDecision.ALLOW:
            if event.kind is HookKind.STOP:
                return HookOutput(json.dumps({"decision": "block", "reason": answer.reason}))
            return denied(answer.reason)
        return HookOutput(json.dumps({"systemMessage": answer.note})) if answer.note else HookOutput()

    def agent_files(self, project: Path | None) -> tuple[Path, ...]:
        shared = () if project is None else (project / self.settings_path,)
        return (*super().agent_files(project), *shared, Path.home() / ".claude.json")

    def install(self, settings: dict[str, Any], commands: Mapping[str, str]) -> None:
        add_hooks(settings, commands, timeout=self.seconds, **self.hook_options)
