"""The pack `guardagent:email`."""
