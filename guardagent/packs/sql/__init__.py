"""Reads SQL with a parser, for the pack `guardagent:sql`."""
