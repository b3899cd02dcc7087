"""The host's own tools, so that a misspelt one in a rule is an error."""

from __future__ import annotations

from typing import Any

from guardagent.enforcement import ToolSpec

NAMES = (
    "Agent AskUserQuestion Bash CronCreate CronDelete CronList Edit EnterPlanMode EnterWorktree ExitPlanMode "
    "ExitWorktree Glob Grep ListAgents ListMcpResourcesTool Monitor NotebookEdit Read ReadMcpResourceTool "
    "ReportFindings ScheduleWakeup SendMessage Skill StructuredOutput TaskOutput TaskStop TodoWrite ToolSearch "
    "WebFetch WebSearch Workflow Write"
).split()
_OTHER_NAMES = {"Task": "Agent"}  # the host's hooks know a tool by one name


def built_in_tools(options: Any) -> list[ToolSpec]:
    """Returns the host's own tools with these options."""
    named = options.tools if isinstance(options.tools, list) else NAMES
    names = dict.fromkeys(_OTHER_NAMES.get(one, one) for one in named)
    return [ToolSpec(one) for one in names if one not in options.disallowed_tools]
