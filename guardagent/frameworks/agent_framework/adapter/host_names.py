"""The private names of the host that the adapter relies on. If one is missing, importing the adapter fails."""

from __future__ import annotations

from agent_framework import _mcp, _sessions, _tools

from guardagent._support.requirements import require_parts

require_parts(_tools, "_APPROVAL_SESSION_IS_AUTHORITATIVE_KEY", "_APPROVAL_REQUEST_ID_KEY")
require_parts(_sessions, "_WORKFLOW_DEFER_COMPUTER_FUNCTION_RESULTS_KEY")
require_parts(_mcp, "MCPTool", "_MCP_REMOTE_NAME_KEY", "_MCP_NORMALIZED_NAME_KEY", "_MCP_FRAMEWORK_DENYLIST")

OWN_SESSION: str = _tools._APPROVAL_SESSION_IS_AUTHORITATIVE_KEY  # noqa: SLF001 - false if the host made the session
REQUEST_ID: str = _tools._APPROVAL_REQUEST_ID_KEY  # noqa: SLF001 - of a repeated approval request
IN_WORKFLOW: str = _sessions._WORKFLOW_DEFER_COMPUTER_FUNCTION_RESULTS_KEY  # noqa: SLF001 - in a workflow's session
SERVER_MARKS = (_mcp._MCP_REMOTE_NAME_KEY, _mcp._MCP_NORMALIZED_NAME_KEY)  # noqa: SLF001 - of the tools of a server
KEPT_FROM_SERVERS = frozenset(_mcp._MCP_FRAMEWORK_DENYLIST)  # noqa: SLF001 - arguments that no server gets
MCPTool = _mcp.MCPTool
