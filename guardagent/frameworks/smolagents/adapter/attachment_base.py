"""The parts of an attachment that guarded agents and executors use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any

from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.frameworks.smolagents.adapter.arguments import ToolArguments
from guardagent.frameworks.smolagents.adapter.runs import SmolagentsScope


class SmolagentsParts(ABC):
    """One guard, and the agents that it guards.

    Attributes:
        guard: decides.
        unjudged: tool -> its unjudged arguments.
    """

    guard: EnforcementPoint
    unjudged: Mapping[str, Collection[str]]

    @abstractmethod
    def refresh(self, agent: Any) -> None:
        """Guards additions to an agent, and compares them with the rules.

        Raises:
            InputError: an addition cannot be guarded.
        """

    @abstractmethod
    def code_function(self, name: str, tool: Any) -> Callable[..., Any]:
        """Returns the guarded function that generated code calls for a tool, an agent or a function."""

    @abstractmethod
    def list_tool(self, spec: ToolSpec) -> None:
        """Adds a tool to those that are compared with the rules."""

    @abstractmethod
    def begin(self, agent: Any) -> SmolagentsScope:
        """Returns the surroundings of a new run."""

    @abstractmethod
    def propose(self, call: Any) -> None:
        """Notes a call that the model proposed in this conversation."""

    @abstractmethod
    def invoke(
        self, arguments: ToolArguments, args: tuple[Any, ...], kwargs: Mapping[str, Any], work: Callable[..., Any]
    ) -> Any:
        """Judges a call, and runs it with the judged arguments.

        Raises:
            ToolDenied: the call may not run.
        """

    @abstractmethod
    def invoke_agent(self, agent: Any, task: Any, kwargs: Mapping[str, Any], work: Callable[..., Any]) -> Any:
        """As `invoke`, for an agent that another agent manages."""
