"""The tools of an agent: from a JSON file, from Python objects, or from an MCP server."""

from guardagent.translation.tools.reader import read_tools
from guardagent.translation.tools.schema import ToolSchema

__all__ = ["ToolSchema", "read_tools"]
