"""`values(m)`: the values of a mapping, as a list."""

from __future__ import annotations

from guardagent.policy.functions._entries import of_mapping

FUNCTION = of_mapping(lambda mapping: list(mapping.values()))
