"""Reads shell commands with a parser, for the pack `guardagent:shell`."""
