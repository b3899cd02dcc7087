"""The scenarios that a host cannot play, with the reasons, for the hosts' tests and docs/conformance.md."""

from __future__ import annotations

OWN_TOOLS = "cannot occur because the tools are the operator's own code; the guard judges later tools like the others"
APPROVED_WITHIN_CALL = "cannot occur because the reviewer decides within the call, and nothing is stored meanwhile"
THREADS = (
    "cannot be closed because a thread that a tool starts by hand inherits no context, and could belong to another "
    "user; start it with `asyncio.to_thread`, or with `contextvars.copy_context().run`"
)

PYTHON = {
    "another call than was shown": APPROVED_WITHIN_CALL,
    "late tools of a server": OWN_TOOLS,
    "sub-agent in a thread of its own": THREADS,
    "streaming": "cannot occur because `run_agent` does not stream",
}

LANGGRAPH = {
    "sub-agent in a thread of its own": THREADS,
    "late tools of a server": "cannot be closed because a tool does not name its server; pass the server's list "
    "to `ToolGuard.update_server_tools`, or put the proxy before it",
}

OPENAI_AGENTS = {"sub-agent in a thread of its own": THREADS}

UNSEEN_ANSWERS = "cannot occur because an MCP server does not see its client's answers; its client's host judges them"
UNSEEN_MESSAGES = "cannot occur because an MCP server does not see its client's messages"
ANOTHER_CONNECTION = "cannot be closed because another connection is another session, without a link to the first"

MCP = {
    "forged history": UNSEEN_MESSAGES,
    "streaming": UNSEEN_ANSWERS,
    "final answer": UNSEEN_ANSWERS,
    "rules about the answer": UNSEEN_ANSWERS,
    "sub-agent under another id": ANOTHER_CONNECTION,
    "sub-agent in a thread of its own": ANOTHER_CONNECTION,
}
MCP_LIBRARY = {
    **MCP,
    "late tools of a server": OWN_TOOLS,
    "retry": "cannot be closed because the library turns every exception of a tool, also a time-out, into a failed "
    "result before its middlewares see it; return the outcome from the tool instead",
}

CANNOT: dict[str, dict[str, str]] = {
    "Plain Python": PYTHON,
    "LangChain, LangGraph": LANGGRAPH,
    "OpenAI Agents SDK": OPENAI_AGENTS,
    "MCP proxy": MCP,
    "FastMCP middleware": MCP,
    "mcp middleware": MCP_LIBRARY,
}
