"""The tools that no rule of a policy looks at: an audit needs only the number and the times of their calls."""

from __future__ import annotations

from functools import lru_cache

from guardagent.policy.policies import Policies
from guardagent.types import Event

MAX_TOOLS = 10_000  # that are kept; names are unbounded


class IgnoredTools(dict[str, bool]):
    """Whether no rule looks at the calls of a tool, if they have no labels and no principal of their own."""

    def __init__(self, policies: Policies) -> None:
        super().__init__()
        self._policies = policies
        self._is_possible = not policies.is_scoped and policies.sources is None and not policies.counters

    def __missing__(self, tool: str) -> bool:
        found = self._is_possible and self._policies.for_everyone(Event(tool)).ignored
        if len(self) < MAX_TOOLS:
            self[tool] = found
        return found


@lru_cache(8)
def ignored_tools(policies: Policies) -> IgnoredTools:
    """The ignored tools of a policy, with what has been learned about names."""
    return IgnoredTools(policies)
