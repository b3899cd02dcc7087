"""The arguments that a rule names, and those that their tools do not have."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from guardagent.errors import name_hint
from guardagent.policy.language import ast


@dataclass(frozen=True, slots=True)
class NamedArgument:
    """An argument that a rule names.

    Attributes:
        tools: the tools as the pattern writes them; `@name` stands for a set.
        name: the argument.
        place: the place of the pattern in the rule.
    """

    tools: tuple[str, ...]
    name: str
    place: ast.Place = field(default_factory=ast.Place)


@dataclass(frozen=True, slots=True)
class UnknownArgument:
    """An argument that a rule names and the tool does not have."""

    problem: str
    place: ast.Place


def unknown_arguments(
    rule: ast.Rule, sets: Mapping[str, Collection[str]], signatures: Mapping[str, Collection[str] | None]
) -> Iterator[UnknownArgument]:
    """Yields the named arguments that a tool does not have.

    Args:
        rule: the rule.
        sets: the sets of tools, by name.
        signatures: the arguments of each known tool; None if it takes any.
    """
    for one in named_arguments(rule):
        written = [sets[name[1:]] if name.startswith("@") else [name] for name in one.tools]
        for tool in sorted({tool for tools in written for tool in tools}):
            known = signatures.get(tool)
            if known is not None and one.name not in known:
                yield UnknownArgument(
                    f"unknown argument {one.name!r} of {tool!r}{name_hint(one.name, known)}", one.place
                )


def named_arguments(rule: ast.Rule) -> Iterator[NamedArgument]:
    """Yields the arguments in call patterns, those read as `args(f).name`, and those that a solver rule reads."""
    nodes = list(ast.walk(rule))
    patterns = [node for node in nodes if isinstance(node, ast.Pattern)]
    for pattern in patterns:
        yield from (NamedArgument(pattern.tools, one.name, pattern.place) for one in pattern.arguments)
    for node in nodes:
        if isinstance(node, ast.Field) and isinstance(node.body, ast.OfCall) and node.body.what == "args":
            call_pattern = _pattern_of(node.body.call, patterns)
            if call_pattern is not None:
                yield NamedArgument(call_pattern.tools, node.name, call_pattern.place)
        elif isinstance(node, ast.SolverRule):
            yield from (NamedArgument((tool,), name) for tool, name in sorted(node.arguments))


def _pattern_of(call: ast.Label | ast.Selected, patterns: list[ast.Pattern]) -> ast.Pattern | None:
    """Returns the pattern of a call; None if several patterns of the rule share its label."""
    if isinstance(call, ast.Selected):
        return call.pattern
    labelled = [pattern for pattern in patterns if pattern.label == call.name]
    return labelled[0] if len(labelled) == 1 else None
