"""The pack `guardagent:tests_first`."""
