"""The tools of an agent: from a JSON file, from Python objects, or from an MCP server."""

from guardagent.translation.tools import ToolSchema
from guardagent.translation.tools_pieces.reader import read_tools

__all__ = ["ToolSchema", "read_tools"]
