"""Reads git commands, for the pack `guardagent:git`."""
