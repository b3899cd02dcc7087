"""The pack `guardagent:mcp`."""
