"""`lower(text)`: the string in lower case."""

from __future__ import annotations

from guardagent.policy.functions import RuleFunction

FUNCTION = RuleFunction(str.lower, (("text",),), result="text")
