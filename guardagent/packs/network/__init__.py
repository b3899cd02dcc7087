"""The pack `guardagent:network`."""
