"""Puts conditions and values into words.

Each text has one reading: a condition inside of another stands in parentheses, and a condition that is used as a value
is `whether (...)`. So different conditions have different texts.
"""

from __future__ import annotations

from typing import Any

from guardagent.policy.language import ast
from guardagent.policy.language.printer import text_of
from guardagent.policy.words.conditions import CONDITION_PHRASES, JOINED, is_condition
from guardagent.policy.words.phrases import code, duration, last
from guardagent.policy.words.scope import SentenceScope
from guardagent.policy.words.values import VALUE_PHRASES, constant

_LOOSE = (ast.And, ast.Or, ast.Implies)
_COMPOUND = (ast.Arithmetic, ast.Negative)


class TermWords:
    """Words for the terms of one rule.

    Attributes:
        atoms: the number of conditions without parts.
        coded: the number of those that are shown as code.
    """

    def __init__(self) -> None:
        self.atoms = self.coded = 0

    # --- conditions

    def condition(self, node: Any, scope: SentenceScope, *, negated: bool = False) -> str:
        """The words for a condition, or for its negation."""
        if type(node) in JOINED and negated:
            return f"it is not true that ({self.condition(node, scope)})"
        if type(node) in JOINED:
            return JOINED[type(node)](self, node, scope)
        self.atoms += 1
        phrase = CONDITION_PHRASES.get(type(node))
        if phrase is not None and (text := phrase(self, node, scope, negated=negated)):
            return text
        return f"{self.value(node, scope)} {'does not hold' if negated else 'holds'}"

    def part(self, node: Any, scope: SentenceScope) -> str:
        """A condition beside others, in parentheses if it has parts."""
        text = self.condition(node, scope)
        return f"({text})" if isinstance(node, _LOOSE) else text

    # --- values

    def value(self, node: Any, scope: SentenceScope) -> str:
        """The words for a value."""
        if is_condition(node):
            return f"whether ({self.condition(node, scope)})"
        phrase = VALUE_PHRASES.get(type(node))
        if phrase is None:
            self.coded += 1
            return code(text_of(node))
        return phrase(self, node, scope)

    def operand(self, node: Any, scope: SentenceScope) -> str:
        """A value beside others, in parentheses if it has parts."""
        text = self.value(node, scope)
        return f"({text})" if isinstance(node, _COMPOUND) else text

    def listed(self, nodes: Any, scope: SentenceScope) -> str:
        return ", ".join(self.operand(node, scope) for node in nodes)

    def seconds(self, node: Any, scope: SentenceScope) -> str:
        """A value that is a length of time."""
        if isinstance(node, ast.Constant) and not isinstance(node.value, str | bool):
            return duration(node.value)
        return self.value(node, scope)

    # --- calls

    def pattern(
        self, node: ast.Pattern, scope: SentenceScope, name: str, *, proposed: bool = False
    ) -> tuple[str, str, SentenceScope]:
        """The words for the tools of a pattern, for the arguments, and the scope with the call."""
        inner, details = scope.with_call(name, node.label), []
        for argument in node.arguments:
            detail, inner = self._argument(argument, inner, proposed=proposed)
            details += [detail] if detail else []
        return _tools(node.tools), ", ".join(details), inner

    def _argument(self, argument: ast.Argument, scope: SentenceScope, *, proposed: bool) -> tuple[str, SentenceScope]:
        name, value = code(argument.name), argument.value
        match value:
            case ast.ExactValue():
                return f"with {name} equal to {constant(value)}", scope
            case ast.RegexValue(regex):
                return f"with {name} matching {code(f'/{regex}/')}", scope
            case ast.AnyValue():
                return f"with any {name}", scope
        if not scope.is_known(value.name):
            return "" if proposed else f"with {name} given", scope.with_variable(value.name, argument.name)
        if len(scope.calls) > 1 and scope.is_same_argument(value.name, argument.name):
            return f"with the same {name}", scope
        return f"with {name} equal to {scope.variable(value.name)}", scope

    def earlier(self, node: Any, scope: SentenceScope, calls: str = "call") -> tuple[str, SentenceScope]:
        """The words for calls of the history, and the scope of what is said of them."""
        tools, details, inner = self.pattern(node.pattern, scope, scope.next_call())
        within = getattr(node, "within", None)
        window = "" if within is None else f" {last(self._window(within, scope))}"
        return f"earlier {calls} of {tools}{window}{self.details(details, node.condition, inner)}", inner

    def details(self, details: str, condition: ast.Term, scope: SentenceScope) -> str:
        """Details of a call in parentheses; nothing if there are none."""
        such = "" if condition in (ast.TRUE, ast.And(())) else f"such that {self.condition(condition, scope)}"
        both = ", ".join(filter(None, (details, such)))
        return f" ({both})" if both else ""

    def _window(self, node: Any, scope: SentenceScope) -> str:
        text = self.seconds(node, scope)
        return text if isinstance(node, ast.Constant) else f"({text}) seconds"

    def call(self, node: ast.Label | ast.Selected, scope: SentenceScope) -> str:
        """A call as a subject or an object."""
        if isinstance(node, ast.Label):
            return scope.subject(node.name)
        text, _ = self.earlier(node, scope)
        return f"the {node.which} {text}"


def _tools(tools: tuple[str, ...]) -> str:
    if tools == ("*",):
        return "any tool"
    *first, final = [f"a tool of {code(tool)}" if tool.startswith("@") else code(tool) for tool in tools]
    return f"{', '.join(first)} or {final}" if first else final
