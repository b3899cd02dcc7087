"""The pack `guardagent:payments`."""
