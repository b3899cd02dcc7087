"""Codex CLI, as 0.171 runs hooks (November 2026)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from guardagent.hooks.calls import SHELL_TOOLS
from guardagent.hooks.hook_event import HookKind
from guardagent.hooks.hosts.claude_code import EVENTS
from guardagent.hooks.hosts.claude_code import Host as ClaudeCodeHost


class Host(ClaudeCodeHost):
    """Has the events of Claude Code, without one for failures, and cannot ask: it ignores the answer `ask`."""

    title: ClassVar[str] = "Codex CLI"
    asks: ClassVar[bool] = False
    prompt_events: ClassVar[tuple[str, ...]] = ()
    settings_path: ClassVar[str] = ".codex/hooks.json"
    local_settings_path: ClassVar[str] = ""
    events: ClassVar[Mapping[str, HookKind]] = {
        name: kind for name, kind in EVENTS.items() if name != "PostToolUseFailure"
    }
    hook_options: ClassVar[Mapping[str, Any]] = {}
    caveats: ClassVar[tuple[str, ...]] = (
        "it runs the tool if the hook cannot start, crashes or takes too long",
        "it skips the hooks, without a word, until the user has trusted them with '/hooks', also after each change",
        "its events have no exit status: the outcome of a shell command is unknown",
        "what goes into a running program ('write_stdin') passes no hook",
    )

    def has_failed(self, name: str, payload: Mapping[str, Any]) -> bool | None:  # noqa: ARG002 - as of its base
        """Whether the tool failed: others have no event then, but the response of a shell is the output alone."""
        return None if payload.get("tool_name") in SHELL_TOOLS else False

    def agent_files(self, project: Path | None) -> tuple[Path, ...]:
        folders = [Path.home() / ".codex", *([] if project is None else [project / ".codex"])]
        return tuple(folder / name for folder in folders for name in ("hooks.json", "config.toml", "requirements.toml"))
