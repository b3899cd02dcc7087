"""`forall`, and with it `before` and `seq`: what every proposed call has to satisfy (Agent-C's Forall, Before, Seq)."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from guardagent.policy import ast
from guardagent.policy.findings import Call, Finding, Trace, in_every_world
from guardagent.policy.printing import text_of
from guardagent.policy.terms import Compiler, Names
from guardagent.policy.values import (
    PLAIN,
    Truth,
    Unknown,
    disjunction,
    dump_truth,
    inverse,
    load_truth,
    no_truth,
    shown,
)
from guardagent.policy.views import Env
from guardagent.types import freeze

_Explain = Callable[[Env], dict[str, Any]]


class Immediate:
    """A condition on every proposed call of some tools. Its memory: whether it was kept so far."""

    def __init__(self, rule: ast.Forall, compiler: Compiler) -> None:
        names: Names = {}
        self.remembers = False  # what was judged when it was proposed is not judged again
        self.tools = compiler.library.tools_of(rule.pattern)
        self._match = compiler.proposed(rule.pattern, names)
        self._condition = compiler.term(rule.condition, names)
        self._explain = _explainer(rule.condition, compiler, names)
        self._remedy = _remedy(rule.condition)
        self._size = compiler.size

    def concerns(self, call: Call) -> bool:
        return call.tool in self.tools

    def start(self) -> list[Truth]:
        return [True]

    def judge(self, trace: Trace, call: Call, _memory: Any) -> Finding | None:
        env: Env = [None] * self._size
        env[0] = trace
        if (value := self._value(env, call)) is True:
            return None
        if value is not False and trace.in_flight:
            value = in_every_world(trace, lambda: self._value(env, call))
            if value is True:
                return None
        return Finding(value, self._explain(env), self._remedy) if value is False else Finding(value)

    def _value(self, env: Env, call: Call) -> Truth:
        matched = self._match(env, call)
        if matched is False:
            return True
        value = self._condition(env)
        if matched is not True:
            return disjunction((inverse(matched), value))
        return value if value is True or value is False else no_truth(value)

    def placed(self, _trace: Trace, _call: Call, memory: list[Truth], finding: Finding | None) -> None:
        if finding is not None and memory[0] is not False:
            memory[0] = finding.value

    def settled(self, trace: Trace, call: Call, memory: Any) -> None:
        """Nothing: it was judged when it was proposed."""

    def ended(self, _trace: Trace, memory: list[Truth]) -> Finding | None:
        return None if memory[0] is True else Finding(memory[0])

    def so_far(self, memory: list[Truth]) -> Truth:
        return memory[0]

    def satisfied(self, _memory: list[Truth]) -> bool:
        return False

    def copied(self, memory: list[Truth], _calls: Any) -> list[Truth]:
        return list(memory)

    def dumped(self, memory: list[Truth]) -> Any:
        return dump_truth(memory[0])

    def loaded(self, data: Any, _calls: Any) -> list[Truth]:
        return [load_truth(data)]


def _explainer(condition: ast.Term, compiler: Compiler, names: Names) -> _Explain:
    """What the false parts of a condition speak of, with its values."""
    match condition:
        case ast.And(parts):
            pieces = [(compiler.term(part, names), _explainer(part, compiler, names)) for part in parts]
            return lambda env: _merged(explain(env) for value, explain in pieces if value(env) is not True)
        case ast.Or(parts):
            explainers = [_explainer(part, compiler, names) for part in parts]
            return lambda env: _merged(explain(env) for explain in explainers)
        case ast.Implies(_, second):
            return _explainer(second, compiler, names)
        case ast.Inverted(body):
            return _explainer(body, compiler, names)
        case ast.SomeCall(pattern):
            missing = {"missing": text_of(pattern)}
            return lambda _env: dict(missing)
    return _values(
        [one for one in _operands(condition) if not isinstance(one, ast.Constant | ast.ListOf)], compiler, names
    )


def _operands(condition: ast.Term) -> list[Any]:
    match condition:
        case ast.Compared(left, _, right):
            return [left, right]
        case ast.Matches(body):
            return [body]
    return [condition]


def _values(terms: list[Any], compiler: Compiler, names: Names) -> _Explain:
    pairs = [(text_of(term), compiler.term(term, names)) for term in terms]

    def values(env: Env) -> dict[str, Any]:
        found = {}
        for text, value in pairs:
            found[text] = _evident(value(env))
        return found

    return values


def _evident(value: Any) -> Any:
    """As it is now: what it is read from may change."""
    if type(value) in PLAIN:
        return value
    if type(value) is Unknown:
        return "unknown"
    return shown(value) if isinstance(value, Fraction | Decimal) else freeze(value)


def _merged(parts: Any) -> dict[str, Any]:
    return {name: value for part in parts for name, value in part.items()}


def _remedy(condition: ast.Term) -> str | None:
    """What would make a call compliant: the earlier call that it needs."""
    match condition:
        case ast.SomeCall(pattern):
            return f"call {' or '.join(f'`{tool}`' for tool in pattern.tools)} first"
        case ast.Implies(_, second):
            return _remedy(second)
    return None
