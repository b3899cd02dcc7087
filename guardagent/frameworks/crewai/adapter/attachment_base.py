"""The parts of an attachment that guarded crews, agents and executors use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from guardagent.enforcement import EnforcementPoint
from guardagent.frameworks.crewai.adapter.runs import CrewScope


class CrewParts(ABC):
    """One guard, and the crews and agents that it guards.

    Attributes:
        guard: decides.
    """

    guard: EnforcementPoint

    def __deepcopy__(self, memo: Any) -> CrewParts:
        """Returns itself: copies of an agent have the same guard."""
        return self

    @abstractmethod
    def guard_agent(self, agent: Any) -> Any:
        """Guards an agent in place, and returns it.

        Raises:
            InputError: it cannot be guarded.
        """

    @abstractmethod
    def guard_crew(self, crew: Any) -> Any:
        """As `guard_agent`, for a crew and its agents."""

    @abstractmethod
    def guard_executor(self, executor: Any) -> None:
        """Guards the tools of an executor before it runs.

        Raises:
            InputError: a tool cannot be guarded.
        """

    @abstractmethod
    def guarded_tools(self, tools: Iterable[Any]) -> list[Any]:
        """Returns the guarded forms of tools.

        Raises:
            InputError: one cannot be guarded.
        """

    @abstractmethod
    def begin(self, executor: Any = None, last_task: Any = None) -> CrewScope:
        """Returns the surroundings of a new run: within a tool, those of the call.

        Args:
            executor: the executor of an agent's run; its tools are compared with the rules.
            last_task: the last task of a crew's run.

        Raises:
            InputError: a rule names a tool that is probably a misspelling of one of the agents'.
        """

    @abstractmethod
    def propose(self, proposed: Iterable[Any] | None) -> CrewScope:
        """Notes a call that a model proposed. Returns the surroundings in which it runs."""
