"""`keys(m)`: the keys of a mapping, as a list."""

from __future__ import annotations

from guardagent.policy.functions._entries import of_mapping

FUNCTION = of_mapping(list)
