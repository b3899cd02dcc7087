"""The pack `guardagent:secrets`."""
