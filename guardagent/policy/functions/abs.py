"""`abs(n)`: a number without its sign."""

from __future__ import annotations

from guardagent.policy.functions import RuleFunction

FUNCTION = RuleFunction(abs, (("number",),), result="number")
