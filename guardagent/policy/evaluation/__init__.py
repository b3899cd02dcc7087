"""Conditions evaluated over the calls of a conversation, in three-valued logic."""
