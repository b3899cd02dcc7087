"""`starts_with(text, start)`: whether a string starts with another."""

from __future__ import annotations

from guardagent.policy.functions import RuleFunction

FUNCTION = RuleFunction(str.startswith, (("text",), ("text",)), result="truth value")
