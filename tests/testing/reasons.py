"""Reasons that several hosts share for a scenario that their tests do not play."""

from __future__ import annotations

OWN_TOOLS = "cannot occur because the tools are the operator's own code; the guard judges later tools like the others"
APPROVED_WITHIN_CALL = "cannot occur because the reviewer decides within the call, and nothing is stored meanwhile"
THREADS = (
    "cannot be closed because a thread that a tool starts by hand inherits no context, and could belong to another "
    "user; start it with `asyncio.to_thread`, or with `contextvars.copy_context().run`"
)
NO_SERVER_NAME = (
    "cannot be closed because a tool does not name its server; pass the server's list to "
    "`ToolGuard.update_server_tools`, or put the proxy before it"
)
PLAIN_TOOLS = (
    "cannot be closed because the host calls its tools in a plain way, in which nothing can cancel them; the guard "
    "denies a tool that has a time in the policy"
)
