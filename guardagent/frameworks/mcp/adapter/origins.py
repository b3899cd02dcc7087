"""The origin of a FastMCP tool: the operator's own code, or a server that others may change."""

from __future__ import annotations

from fastmcp.server.providers.fastmcp_provider import FastMCPProviderTool
from fastmcp.tools.base import Tool
from fastmcp.tools.function_tool import FunctionTool
from fastmcp.tools.tool_transform import TransformedTool

from guardagent.frameworks.mcp.adapter.guarded_tools import GuardedTool


async def from_elsewhere(tool: Tool) -> bool:
    """Whether a tool, or the tool that it wraps, belongs to a proxy or API rather than to a function here."""
    while isinstance(tool, GuardedTool | TransformedTool):
        tool = tool.inner if isinstance(tool, GuardedTool) else tool.parent_tool
    if isinstance(tool, FastMCPProviderTool):  # of a server in this process
        within = await tool._server.get_tool(tool._original_name)  # noqa: SLF001 - there is no public way to it
        return within is None or await from_elsewhere(within)
    return not isinstance(tool, FunctionTool)
