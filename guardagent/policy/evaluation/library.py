"""The names that rules can refer to: state functions, sets of tools, tools and their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from guardagent.errors import InputError, UnknownNameError
from guardagent.policy.evaluation.counters import Counter
from guardagent.policy.evaluation.history_index import HistoryQuery
from guardagent.policy.evaluation.tool_sets import ANY, AnyTool, union_of
from guardagent.policy.language import ast
from guardagent.policy.language.answer_step import ANSWER, ANSWER_TEXT
from guardagent.policy.language.declarations import NO_DECLARATIONS, Declarations
from guardagent.policy.provenance.labels import NO_LABELS, DeclaredLabels


class CompileError(InputError):
    """A rule refers to an unknown name, or cannot be compiled.

    Attributes:
        place: the place in the rule.
    """

    def __init__(self, problem: str, place: ast.Place | None = None) -> None:
        super().__init__(problem)
        self.place = place or ast.Place()


@dataclass
class Library:
    """The names that rules can refer to.

    Attributes:
        functions: the state functions, by name.
        tags: the sets of tools, by name.
        tools: the declared tools, each with its argument names, or None for any arguments. None declares no tools.
        declarations: the constants, labels and counters.
        sources: the sources of the labels.
        history_queries: the history queries of the rules; compiling a rule adds to them.
        features: the names of optional parts of a session that the rules use; compiling a rule adds to them.
        counters: the compiled counters, by name.
    """

    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    tags: Mapping[str, frozenset[str]] = field(default_factory=dict)
    tools: Mapping[str, Sequence[str] | None] | None = None
    declarations: Declarations = NO_DECLARATIONS
    sources: DeclaredLabels = NO_LABELS
    history_queries: list[HistoryQuery] = field(default_factory=list)
    features: set[str] = field(default_factory=set)
    counters: dict[str, Counter] = field(default_factory=dict)

    @property
    def names(self) -> Declarations:
        """The declarations with the functions of the toolbox and the labels and the tags."""
        counters = {name: len(one.keys) for name, one in self.counters.items()} or self.declarations.counters
        return replace(
            self.declarations,
            functions=frozenset(self.functions),
            labels=self.sources.declared,
            counters=counters,
            tags=frozenset(self.tags),
        )

    @property
    def known_tools(self) -> frozenset[str]:
        """The declared tools and those of the sets."""
        return frozenset(self.tools or ()).union(*self.tags.values())

    def scoped(self, scopes: tuple[str, ...]) -> Library:
        """This library for a rule of an included file."""
        if scopes == self.declarations.scopes:
            return self
        return replace(self, declarations=replace(self.declarations, scopes=scopes))

    def tools_of(self, pattern: ast.Pattern) -> frozenset[str]:
        """The tools that a pattern matches.

        Raises:
            CompileError: the pattern has an unknown tool, tag or argument.
        """
        tools: set[str] = set()
        try:
            if ANY in pattern.tools:
                return AnyTool((*(self.tools or ()), *union_of(self.tags.values()), "another_tool"))
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
        if self.tools is not None and name not in self.tools and name != ANSWER:
            raise UnknownNameError("tool", name, self.tools)
        return name

    def _check_argument(self, name: str, tools: Iterable[str]) -> None:
        for tool in sorted(tools):
            declared = (ANSWER_TEXT,) if tool == ANSWER else (self.tools or {}).get(tool)
            if declared is not None and name not in declared:
                raise UnknownNameError(f"argument of {tool}", name, declared)
