"""Gemini CLI, as 0.61 runs hooks (November 2026)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from guardagent.hooks.calls import add_hooks
from guardagent.hooks.hook_event import HookAnswer, HookDecision, HookEvent, HookHost, HookKind, HookOutput


class Host(HookHost):
    """Answers `BeforeTool` with a decision. It has no id for a call, and cannot ask."""

    title: ClassVar[str] = "Gemini CLI"
    asks: ClassVar[bool] = False
    settings_path: ClassVar[str] = ".gemini/settings.json"
    events: ClassVar[Mapping[str, HookKind]] = {
        "BeforeTool": HookKind.BEFORE,
        "AfterTool": HookKind.AFTER,
        "BeforeAgent": HookKind.PROMPT,
        "AfterAgent": HookKind.STOP,
        "SessionStart": HookKind.START,
    }
    caveats: ClassVar[tuple[str, ...]] = ("it runs the tool with a warning if the hook is killed or takes too long",)

    def read(self, payload: Mapping[str, Any]) -> HookEvent:
        response = payload.get("tool_response")
        return replace(
            self.common_fields(payload, call_id=""),
            output=response,
            failed=_has_failed(response),
            repeated=payload.get("stop_hook_active") is True,
            resumed=payload.get("source") == "resume",
        )

    def write(self, event: HookEvent, answer: HookAnswer) -> HookOutput:  # noqa: ARG002 - as of its base
        if answer.decision is not HookDecision.ALLOW:
            return HookOutput(json.dumps({"decision": "deny", "reason": answer.reason}))
        return HookOutput(json.dumps({"systemMessage": answer.note} if answer.note else {}))

    def install(self, settings: dict[str, Any], commands: Mapping[str, str]) -> None:
        add_hooks(settings, commands, name="guardagent", timeout=self.seconds * 1000)


def _has_failed(response: Any) -> bool | None:
    """Whether a tool failed: it has an error, or a shell command another exit code than 0, or a signal.

    The end of a command in the background is unknown.
    """
    if not isinstance(response, Mapping):
        return None
    if response.get("error"):
        return True
    text = str(response.get("llmContent", ""))
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip().lower() in ("exit code", "signal") and value.strip() not in ("0", "(none)"):
            return True
    return None if "Command moved to background (PID: " in text else False
