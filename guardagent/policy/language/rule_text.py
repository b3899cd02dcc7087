"""Writes the source text of a rule: text that parses to the same rule.

Constants and definitions are expanded in a syntax tree, so the text is that of the expanded rule.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from guardagent.policy.language import ast
from guardagent.policy.language import formula as f
from guardagent.policy.language.printer import PRINTERS, Printer

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


class _SourcePrinter(Printer):
    """Prints terms exactly: with names and strings in quotes where needed, and every digit."""

    def text(self, node: Any) -> str:
        exact = _EXACT.get(type(node))
        return str(exact(self, node)) if exact else str(PRINTERS[type(node)](self, node))


def number_text(value: int | Fraction) -> str:
    """A number with all of its digits; a fraction that is no decimal is a quotient."""
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
    return _quoted(value) if isinstance(value, str) else number_text(value)


def _regex(text: str) -> str:
    return "/" + re.sub(r"(\\.)|/", lambda found: found[1] or r"\/", text) + "/"


def _tool(name: str) -> str:
    return name if name == "*" or name.startswith("@") else _name(name)


def _pattern(to: Printer, node: ast.Pattern) -> str:
    arguments = ", ".join(
        f"{one.name if _IDENTIFIER.fullmatch(one.name) else _quoted(one.name)}={to.text(one.value)}"
        for one in node.arguments
    )
    label = f"{node.label}:" if node.label else ""
    return f"{label}{'|'.join(map(_tool, node.tools))}({arguments})"


_EXACT: dict[type, Callable[[Printer, Any], str]] = {
    ast.Constant: _constant,
    ast.ExactValue: _constant,
    ast.RegexValue: lambda _, node: _regex(node.regex),
    ast.Matches: lambda to, node: f"{to.inside(node.body)} matches {_regex(node.regex)}",
    ast.Pattern: _pattern,
    ast.Fact: lambda _, node: f"fact({_name('.'.join(node.path))})",
    ast.OfCall: lambda to, node: f"{node.what}({to.text(node.call)})",
}
_SOURCE = _SourcePrinter(str)


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
    if colon and kind in ("tool", "action", "decision"):
        return f"{kind}:{_name(name)}"
    return atom if atom.startswith("@") else _name(atom)
