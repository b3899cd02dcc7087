"""Judges addresses on the web, for the pack `guardagent:web`."""
