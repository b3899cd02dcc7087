"""Plain Python: guarded functions, and the tool loop of a chat model.

@guarded(guard)                          a function whose calls are judged
guard_tools([...], guard)                several, compared with the rules at once
run_tool_calls(message.tool_calls, ...)  the tool calls of one message
run_agent(ask, messages, tools, guard)   a small agent
with conversation("id"):                 the conversation of the calls within
"""

from guardagent.frameworks.python.adapter.functions import (
    attach,
    conversation,
    current_conversation,
    guard_tools,
    guarded,
)
from guardagent.frameworks.python.adapter.tool_calls import (
    Answer,
    ToolTurn,
    arun_agent,
    arun_tool_calls,
    run_agent,
    run_tool_calls,
)

__all__ = [
    "Answer",
    "ToolTurn",
    "arun_agent",
    "arun_tool_calls",
    "attach",
    "conversation",
    "current_conversation",
    "guard_tools",
    "guarded",
    "run_agent",
    "run_tool_calls",
]
