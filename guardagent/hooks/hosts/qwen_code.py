"""Qwen Code, as 0.24 runs hooks (November 2026)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from guardagent.hooks.hook_event import HookEvent, HookHost, HookKind
from guardagent.hooks.hosts.claude_code import EVENTS
from guardagent.hooks.hosts.claude_code import Host as ClaudeCodeHost


class Host(ClaudeCodeHost):
    """Has the events and answers of Claude Code; without a terminal, it denies what is asked about."""

    title: ClassVar[str] = "Qwen Code"
    settings_path: ClassVar[str] = ".qwen/settings.json"
    local_settings_path: ClassVar[str] = ""
    events: ClassVar[Mapping[str, HookKind]] = EVENTS
    hook_options: ClassVar[Mapping[str, Any]] = {}
    caveats: ClassVar[tuple[str, ...]] = (
        "it runs the tool if the hook cannot start, is killed or takes too long",
        "it skips the hooks of a project whose folder is not trusted; '--bare' and '--safe-mode' skip all",
    )

    def read(self, payload: Mapping[str, Any]) -> HookEvent:
        event = super().read(payload)
        goes_on = event.kind is HookKind.PROMPT and not payload.get("submitted_prompt")  # after each result of a tool
        return replace(event, kind=HookKind.OTHER) if goes_on else event

    def has_failed(self, name: str, payload: Mapping[str, Any]) -> bool | None:
        """Whether the tool failed; the end of a command in the background is unknown."""
        args = payload.get("tool_input")
        goes_on = isinstance(args, Mapping) and args.get("is_background") is True
        return None if goes_on else super().has_failed(name, payload)

    def agent_files(self, project: Path | None) -> tuple[Path, ...]:
        return (*HookHost.agent_files(self, project), Path.home() / ".qwen" / "trustedFolders.json")
