"""The pack `guardagent:runaway`."""
