"""LangChain and LangGraph: a middleware of `create_agent`, and a ToolNode for graphs written by hand.

    create_agent(model, tools, middleware=[GuardMiddleware(guard)], checkpointer=...)
    graph.add_node("tools", guarded_tool_node(guard, tools))

A call is judged at its tool, after the host's validation: with the arguments that the tool gets, whatever the
middlewares have made of those that the model wrote.
"""

from guardagent._support.requirements import require
from guardagent.frameworks.langgraph.package import DISTRIBUTIONS, EXTRA

require(DISTRIBUTIONS, EXTRA)

from guardagent.frameworks.langgraph.adapter.errors import RunStopped  # noqa: E402
from guardagent.frameworks.langgraph.adapter.middleware import GuardMiddleware  # noqa: E402
from guardagent.frameworks.langgraph.adapter.node import guarded_answer_node, guarded_tool_node, unless_stopped  # noqa: E402
from guardagent.frameworks.langgraph.adapter.resume_commands import approve, edit, reject  # noqa: E402 - the host is there now

__all__ = [
    "GuardMiddleware",
    "RunStopped",
    "approve",
    "edit",
    "guarded_answer_node",
    "guarded_tool_node",
    "reject",
    "unless_stopped",
]
