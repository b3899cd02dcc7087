"""GitHub Copilot CLI, as 1.0.102 runs hooks (November 2026)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from guardagent.hooks.calls import SHELL_TOOLS
from guardagent.hooks.hook_event import HookEvent, HookKind, text_field
from guardagent.hooks.hosts.claude_code import EVENTS
from guardagent.hooks.hosts.claude_code import Host as ClaudeCodeHost

_EXIT = re.compile(r"completed with exit code (-?\d+)>\s*\Z")


class Host(ClaudeCodeHost):
    """Has the events and answers of Claude Code, if their names are written like there; its calls have no id."""

    title: ClassVar[str] = "GitHub Copilot CLI"
    settings_path: ClassVar[str] = ".copilot/settings.json"
    local_settings_path: ClassVar[str] = ".github/copilot/settings.local.json"
    events: ClassVar[Mapping[str, HookKind]] = EVENTS
    hook_options: ClassVar[Mapping[str, Any]] = {}
    caveats: ClassVar[tuple[str, ...]] = (
        "it runs the tool if the hook takes too long",
        "it skips the hooks of a project whose folder the user has not trusted",
        "a sub-agent of a sub-agent has a history of its own",
    )

    def read(self, payload: Mapping[str, Any]) -> HookEvent:
        result = payload.get("tool_result")
        output = result.get("text_result_for_llm") if isinstance(result, Mapping) else payload.get("error")
        event, parent = replace(super().read(payload), output=output), text_field(payload, "parent_agent_id", "")
        if not parent:
            return event
        kind = HookKind.OTHER if event.kind is HookKind.STOP else event.kind
        return replace(event, session=parent, kind=kind)  # a sub-agent has a session of its own

    def has_failed(self, name: str, payload: Mapping[str, Any]) -> bool | None:
        """Whether the tool failed: a command that fails has a result of the type `success`, with its exit status."""
        result = payload.get("tool_result", {"result_type": "failure"} if name == "PostToolUseFailure" else None)
        if not isinstance(result, Mapping):
            return None
        if result.get("result_type") != "success" or payload.get("tool_name") not in SHELL_TOOLS:
            return result.get("result_type") != "success"
        ended = _EXIT.search(str(result.get("text_result_for_llm", "")))
        return None if ended is None else ended[1] != "0"

    def agent_files(self, project: Path | None) -> tuple[Path, ...]:
        shared = () if project is None else (project / ".github" / "copilot" / "settings.json",)
        return (
            self.settings_file(None),
            self.settings_file(project),
            *shared,
            Path.home() / ".copilot" / "config.json",
        )
