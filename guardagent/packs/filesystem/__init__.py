"""Judges paths after resolving them, for the pack `guardagent:filesystem`."""
