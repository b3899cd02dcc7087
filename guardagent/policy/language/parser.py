"""Parses temporal rules to the syntax tree, and checks the names in them; writes trees as the text of a rule.

The variables and the label of a pattern are in scope in the conditions after it. `forall(f:A(...), ...)` can use the
arguments of the proposed call as `args(f)`, but not its output, which does not exist yet.

The text of a tree parses to the same rule. Constants and definitions are expanded in a tree, so the text is that of the
expanded rule.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

from guardagent.errors import name_hint
from guardagent.policy.language import ast
from guardagent.policy.language import formula as f
from guardagent.policy.language.declarations import NO_DECLARATIONS, Declarations
from guardagent.policy.language.formula import DATA_RULES, any_of, formula_of, looks_like_a_tool
from guardagent.policy.language.grammar import Node, TemporalError, tree_of
from guardagent.policy.language.printer import PRINTERS, Printer
from guardagent.policy.language.term_parser import RuleParser, qualified
from guardagent.policy.language.values import shown

# --- from text to trees


def read_rule(text: str, declarations: Declarations = NO_DECLARATIONS) -> ast.Rule:
    """Parses a rule.

    Args:
        text: the rule.
        declarations: the names that it can use.

    Raises:
        TemporalError: the rule does not parse or uses an unbound name; with the place and a correction.
    """
    try:
        return _rule(qualified(tree_of(text), declarations), text, declarations)
    except RecursionError:
        raise TemporalError("the rule is nested too deeply; simplify it", text[:80], 1, 1) from None


def _rule(tree: Node, text: str, declared: Declarations) -> ast.Rule:
    if not any(True for _ in tree.find_pred(lambda node: node.data in DATA_RULES)):
        return ast.Temporal(formula_of(tree, text))
    children = tree.children
    match tree.data:
        case "all_of":
            return ast.AllOf(tuple(_rule(child, text, declared) for child in children))
        case "any_of":
            return _any_of([_rule(child, text, declared) for child in children])
        case "implies":
            return _any_of([ast.Not(_rule(children[0], text, declared)), _rule(children[1], text, declared)])
        case "negation":
            return ast.Not(_rule(children[0], text, declared))
        case kind if kind in DATA_RULES:
            return RuleParser(text, declared).rule(tree)
    return ast.Temporal(formula_of(tree, text))  # raises: data rules cannot occur there


# --- calls with arguments as steps

CALL = "call:"
"""The beginning of an atom that is a call with constant arguments."""


def step_atoms(tree: Node, text: str) -> list[str]:
    """The atoms of a call with constant arguments, for each of its tools.

    Raises:
        TemporalError: it has arguments that are not constant, or no name of a tool.
    """
    pattern = RuleParser(text, NO_DECLARATIONS).constant_pattern(tree)
    arguments = tuple(sorted(pattern.arguments, key=lambda argument: argument.name))
    if not arguments:
        return [tool if tool[0] == "@" else f"tool:{tool}" for tool in pattern.tools]
    return [CALL + term_source(ast.Pattern((tool,), arguments)) for tool in pattern.tools]


@lru_cache(256)
def step_pattern(atom: str) -> ast.Pattern | None:
    """The pattern of an atom that is a call with arguments; None for other atoms."""
    if not atom.startswith(CALL):
        return None
    rule: Any = read_rule(f"exists({atom.removeprefix(CALL)})")
    return rule.pattern  # type: ignore[no-any-return]


def _any_of(parts: Sequence[ast.Rule]) -> ast.Rule:
    """Merges propositional alternatives into one formula, so that one automaton tracks all of them."""
    formulas = [part.formula for part in parts if isinstance(part, ast.Temporal)]
    others = tuple(part for part in parts if not isinstance(part, ast.Temporal))
    return ast.AnyOf((*others, ast.Temporal(any_of(formulas)))) if formulas else ast.AnyOf(others)


# --- from trees to text

_NAME = re.compile(r"(?!(?:AND|OR|NOT|U|W|R|S|G|F|X|O|H|Y|true|false)(?![\w.-]))[A-Za-z_]\w*(?:[.-]\w+)*")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def rule_text(rule: ast.Rule) -> str:
    """The source text of a rule over data, of a propositional rule, or of both joined."""
    match rule:
        case ast.Temporal(formula):
            return formula_text(formula)
        case ast.AllOf(parts):
            return " AND ".join(f"({rule_text(part)})" for part in parts)
        case ast.AnyOf(parts):
            return " OR ".join(f"({rule_text(part)})" for part in parts)
        case ast.Not(body):
            return f"NOT ({rule_text(body)})"
        case ast.Forall(pattern, condition):
            return f"forall({term_source(pattern)}, {term_source(condition)})"
        case ast.Exists(pattern, condition):
            return f"exists({term_source(pattern)}, {term_source(condition)})"
        case ast.Before() | ast.After():
            name = "before" if isinstance(rule, ast.Before) else "after"
            terms = (rule.pattern, rule.condition, rule.partner, rule.partner_condition)
            return f"{name}({', '.join(map(term_source, terms))})"
    raise AssertionError(rule)


def term_source(node: Any) -> str:
    """The source text of a term or a pattern."""
    return _SOURCE.text(node)


def number_text(value: int | Fraction) -> str:
    """A number with all of its digits; a fraction that is not a decimal is a quotient."""
    if isinstance(value, int):
        return str(value)
    places = 0
    while value.denominator > 1 and (value * 10**places).denominator > 1:
        places += 1
        if places > 40:
            return f"{value.numerator}/{value.denominator}"
    digits = str(abs(int(value * 10**places))).rjust(places + 1, "0")
    whole = f"{digits[:-places]}.{digits[-places:]}" if places else digits
    return f"-{whole}" if value < 0 else whole


def _quoted(text: str) -> str:
    return json.dumps(text)


def _name(text: str) -> str:
    return text if _NAME.fullmatch(text) else _quoted(text)


def _constant(_: Printer, node: ast.Constant | ast.ExactValue) -> str:
    value = node.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | Mapping):  # no literal: the rule has its name
        return getattr(node, "name", "") or shown(value)
    return _quoted(value) if isinstance(value, str) else number_text(value)


def _regex(text: str) -> str:
    return "/" + re.sub(r"(\\.)|/", lambda match: match[1] or r"\/", text) + "/"


def _tool(name: str) -> str:
    return name if name == "*" or name.startswith("@") else _name(name)


def _pattern(to: Printer, node: ast.Pattern) -> str:
    arguments = ", ".join(
        f"{argument.name if _IDENTIFIER.fullmatch(argument.name) else _quoted(argument.name)}={to.text(argument.value)}"
        for argument in node.arguments
    )
    label = f"{node.label}:" if node.label else ""
    return f"{label}{'|'.join(map(_tool, node.tools))}({arguments})"


_EXACT: dict[type, Any] = {  # with names and strings in quotes where needed, and every digit
    **PRINTERS,
    ast.Constant: _constant,
    ast.ExactValue: _constant,
    ast.RegexValue: lambda _, node: _regex(node.regex),
    ast.Matches: lambda to, node: f"{to.inside(node.body)} matches {_regex(node.regex)}",
    ast.Pattern: _pattern,
    ast.Fact: lambda _, node: f"fact({_name('.'.join(node.path))})",
}
_SOURCE = Printer(str, printers=_EXACT)


def formula_text(formula: f.Formula) -> str:  # noqa: C901 - a case for each kind
    """The source text of a propositional formula, as LTLf."""
    match formula:
        case f.TruthConstant(value):
            return "true" if value else "false"
        case f.Literal(atom, positive):
            return _atom(atom) if positive else f"!{_atom(atom)}"
        case f.Conjunction(parts):
            return " && ".join(sorted(map(_inside, parts)))
        case f.Disjunction(parts):
            return " || ".join(sorted(map(_inside, parts)))
        case f.Within(steps, body):
            return f"F[<={steps}] {_inside(body)}"
        case f.Next(body, strong):
            return f"X {_inside(body)}" if strong else f"!X {_inside(f.negation(body))}"
        case f.Previous(body, strong):
            return f"Y {_inside(body)}" if strong else f"!Y {_inside(f.negation(body))}"
        case f.Until(left, right):
            return f"F {_inside(right)}" if left == f.TRUE else f"{_inside(left)} U {_inside(right)}"
        case f.Release(left, right):
            return f"G {_inside(right)}" if left == f.FALSE else f"{_inside(left)} R {_inside(right)}"
        case f.Since(left, right):
            return f"O {_inside(right)}" if left == f.TRUE else f"{_inside(left)} S {_inside(right)}"
        case f.TriggerFormula(left, right):
            if left == f.FALSE:
                return f"H {_inside(right)}"
            return f"!({_inside(f.negation(left))} S {_inside(f.negation(right))})"
    raise AssertionError(formula)


def _inside(formula: f.Formula) -> str:
    text = formula_text(formula)
    return text if isinstance(formula, f.Literal | f.TruthConstant) else f"({text})"


def _atom(atom: str) -> str:
    kind, colon, name = atom.partition(":")
    if atom.startswith(CALL):
        return name
    if colon and kind in ("tool", "action", "decision"):
        return f"{kind}:{_name(name)}"
    return atom if atom.startswith("@") else json.dumps(atom) if looks_like_a_tool(atom) else _name(atom)


# --- the arguments that a rule names, and those that their tools do not have


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
    for named_argument in named_arguments(rule):
        written = [sets[name[1:]] if name.startswith("@") else [name] for name in named_argument.tools]
        for tool in sorted({tool for tools in written for tool in tools}):
            known = signatures.get(tool)
            if known is not None and named_argument.name not in known:
                yield UnknownArgument(
                    f"unknown argument {named_argument.name!r} of {tool!r}{name_hint(named_argument.name, known)}",
                    named_argument.place,
                )


def named_arguments(rule: ast.Rule) -> Iterator[NamedArgument]:
    """Yields the arguments in call patterns, those read as `args(f).name`, and those that a solver rule reads."""
    nodes = list(ast.walk(rule))
    patterns = [node for node in nodes if isinstance(node, ast.Pattern)]
    steps = [step_pattern(atom) for node in nodes if isinstance(node, ast.Temporal) for atom in f.atoms(node.formula)]
    for pattern in (*patterns, *filter(None, steps)):
        yield from (NamedArgument(pattern.tools, argument.name, pattern.place) for argument in pattern.arguments)
    for node in nodes:
        if isinstance(node, ast.Field) and isinstance(node.body, ast.OfCall) and node.body.what == "args":
            call_pattern = _pattern_of(node.body.call, patterns)
            if call_pattern is not None:
                yield NamedArgument(call_pattern.tools, node.name, call_pattern.place)
        elif isinstance(node, ast.SolverRule):
            yield from (NamedArgument((tool,), name) for tool, name in sorted(node.arguments))


def tools_read_whole(rule: ast.Rule) -> Iterator[str]:
    """Yields the tools of the calls whose arguments a rule reads as a whole, as `args(f)`; `@name` stands for a set."""
    nodes = list(ast.walk(rule))
    patterns = [node for node in nodes if isinstance(node, ast.Pattern)]
    fields = [node.body for node in nodes if isinstance(node, ast.Field)]
    for node in nodes:
        if isinstance(node, ast.OfCall) and node.what == "args" and not any(node is body for body in fields):
            pattern = _pattern_of(node.call, patterns)
            yield from pattern.tools if pattern is not None else ()


def _pattern_of(call: ast.Label | ast.Selected, patterns: list[ast.Pattern]) -> ast.Pattern | None:
    """Returns the pattern of a call; None if several patterns of the rule share its label."""
    if isinstance(call, ast.Selected):
        return call.pattern
    labelled = [pattern for pattern in patterns if pattern.label == call.name]
    return labelled[0] if len(labelled) == 1 else None
