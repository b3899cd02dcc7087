"""`ends_with(text, end)`: whether a string ends with another."""

from __future__ import annotations

from guardagent.policy.functions import RuleFunction

FUNCTION = RuleFunction(str.endswith, (("text",), ("text",)), result="truth value")
