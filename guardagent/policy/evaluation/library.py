"""What the rules of a policy file may name: state functions, sets of tools, tools and their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from guardagent.errors import InputError, UnknownNameError
from guardagent.policy.evaluation.history_index import HistoryQuery
from guardagent.policy.language import ast


class CompileError(InputError):
    """A rule names what there is not.

    Attributes:
        place: where in its text.
    """

    def __init__(self, problem: str, place: ast.Place | None = None) -> None:
        super().__init__(problem)
        self.place = place or ast.Place()


@dataclass
class Library:
    """What the rules of a policy file may name.

    Attributes:
        functions: the state functions, by name.
        tags: the sets of tools, by name.
        tools: the tools that exist, with their arguments where these are declared; None where any may.
        history_queries: the views that the rules need, which grows as they are compiled.
    """

    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    tags: Mapping[str, frozenset[str]] = field(default_factory=dict)
    tools: Mapping[str, Sequence[str] | None] | None = None
    history_queries: list[HistoryQuery] = field(default_factory=list)

    def tools_of(self, pattern: ast.Pattern) -> frozenset[str]:
        """The tools that a pattern means.

        Raises:
            CompileError: there is no such tool, tag or argument.
        """
        tools: set[str] = set()
        try:
            for name in pattern.tools:
                tools |= self.tagged(name[1:]) if name.startswith("@") else {self._tool(name)}
            for argument in pattern.arguments:
                self._check_argument(argument.name, tools)
        except UnknownNameError as error:
            raise CompileError(str(error), pattern.place) from None
        return frozenset(tools)

    def tagged(self, tag: str) -> frozenset[str]:
        if tag not in self.tags:
            raise UnknownNameError("tag", tag, self.tags)
        return self.tags[tag]

    def _tool(self, name: str) -> str:
        if self.tools is not None and name not in self.tools:
            raise UnknownNameError("tool", name, self.tools)
        return name

    def _check_argument(self, name: str, tools: Iterable[str]) -> None:
        for tool in sorted(tools):
            declared = (self.tools or {}).get(tool)
            if declared is not None and name not in declared:
                raise UnknownNameError(f"argument of {tool}", name, declared)
