"""Searches for a completion of a call that the session allows: values for its open arguments.

The search first tries a few candidate values, from the rules, the facts, the state and the history. It then evaluates
the rules symbolically, and asks Z3 if that does not decide. Each solution of Z3 is checked with the session, and a
denied one adds constraints.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import Any, Final

from guardagent.errors import InputError
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.language import ast
from guardagent.policy.language.formula import atoms
from guardagent.policy.language.parser import step_pattern
from guardagent.policy.language.values import Truth, Unknown, exact, kind_of
from guardagent.policy.logic.expressions import Expression, conj, disj, implies, is_whole, less, neg, size
from guardagent.policy.logic.lowering import MISSING, Z3Model, as_json, thread_solver
from guardagent.policy.logic.operations import UNDECIDED, Operations
from guardagent.policy.logic.semantics import AtomicRule, RuleTree, Semantics, SymbolicCall, judge_call, uses_known
from guardagent.policy.logic.sessions import (
    CurrentSession,
    Outcomes,
    ReasonerSession,
    outcome_combinations,
    reading_of,
    same_values,
    state_of,
    tries_every_ending,
)
from guardagent.policy.logic.values import (
    FALSE,
    KINDS,
    TRUE,
    UNKNOWN,
    Concrete,
    MappingValue,
    Opaque,
    ScalarValue,
    SymbolicMapping,
    Symbols,
    Value,
    conjunction,
    of_leaf,
    truth,
    when_false,
    when_true,
)
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.policies import Applicability, Policies
from guardagent.types import EMPTY, Decision, Functions, thaw

# --- open arguments


@dataclass(frozen=True, slots=True)
class Open:
    """An argument whose value is not known yet.

    Attributes:
        schema: a JSON schema of the value, or None for any value.
    """

    schema: Mapping[str, Any] | None = None


OPEN: Final = Open()


def reject_nested_open(args: Mapping[str, Any]) -> None:
    """Rejects arguments that contain `Open` inside a list or mapping.

    Raises:
        InputError: an argument contains `Open`.
    """
    for name, value in args.items():
        if not isinstance(value, Open) and _has_open(value):
            problem = f"argument {name!r} contains 'Open'; expected 'Open' as the whole argument only"
            raise InputError(problem)


def _has_open(value: Any) -> bool:
    kind = kind_of(value)
    inside = value.values() if kind == "mapping" else value if kind == "list" else ()
    return isinstance(value, Open) or any(_has_open(part) for part in inside)


_KINDS = {
    "string": "text",
    "number": "number",
    "integer": "number",
    "boolean": "truth",
    "array": "list",
    "object": "mapping",
}
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "$comment", "readOnly"})
_READ = _ANNOTATIONS | {
    "type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
}  # fmt: skip
_LEAST = {"text": "minLength", "number": "minimum"}
_MOST = {"text": "maxLength", "number": "maximum"}


def choices(schema: Mapping[str, Any]) -> Sequence[Any] | None:
    """Returns all values that a schema allows if there are few, else None."""
    if "const" in schema:
        return [schema["const"]]
    if isinstance(enum := schema.get("enum"), list | tuple):
        return enum
    types = _types(schema)
    if types is None or not set(types) <= {"boolean", "null"}:
        return None
    return [choice for kind in types for choice in ((True, False) if kind == "boolean" else (None,))]


def _types(schema: Mapping[str, Any]) -> list[str] | None:
    types = schema.get("type")
    return [types] if isinstance(types, str) else list(types) if isinstance(types, list | tuple) else None


def open_value(operations: Operations, key: Hashable, schema: Mapping[str, Any]) -> Value:
    """Returns a symbolic value that covers every value that a schema allows, and possibly more."""
    symbols = operations.symbols
    few = choices(schema)
    if few is not None:
        leaves = [leaf for choice in few for _, leaf in operations.constant(choice).cases]
        return symbols.one_of(leaves, known=None not in few and bool(leaves))
    types = _types(schema) or [*_KINDS, "null"]
    kinds = [kind for kind in KINDS if any(_KINDS.get(type_) == kind for type_ in types)]
    value = symbols.any_value(key, kinds=kinds, known="null" not in types and bool(kinds))
    for guard, leaf in value.cases:
        if isinstance(leaf, ScalarValue):
            symbols.axioms += [neg(conj(guard, neg(limit))) for limit in _limits(leaf, schema, types)]
    return value


def _limits(leaf: ScalarValue, schema: Mapping[str, Any], types: Sequence[str]) -> list[Any]:
    """Returns a schema's limits of a number or of a string's length."""
    if leaf.kind == "truth":
        return []
    amount = size(leaf.payload) if leaf.kind == "text" else leaf.payload
    limits = [neg(less(amount, low)) for low in _bound(schema, _LEAST[leaf.kind])]
    limits += [neg(less(high, amount)) for high in _bound(schema, _MOST[leaf.kind])]
    if leaf.kind == "number":
        limits += [less(low, amount) for low in _bound(schema, "exclusiveMinimum")]
        limits += [less(amount, high) for high in _bound(schema, "exclusiveMaximum")]
        limits += [is_whole(amount)] if "number" not in types and "integer" in types else []
    return limits


def _bound(schema: Mapping[str, Any], name: str) -> list[Any]:
    bound = schema.get(name)
    number = exact(bound) if kind_of(bound) == "number" else Unknown()
    return [] if type(number) is Unknown else [number]


def schema_allows(schema: Mapping[str, Any], value: Any) -> bool | None:
    """Returns whether a schema allows a value, or None if it has unsupported keywords."""
    few = choices(schema)
    if few is not None and not any(type(choice) is type(value) and choice == value for choice in few):
        return False
    if value is None or kind_of(value) is None:
        return _types(schema) is None or "null" in (_types(schema) or ())
    types = _types(schema)
    if types is not None and not any(_is(value, type_) for type_ in types):
        return False
    if not all(_within(schema, value)):
        return False
    return True if schema.keys() <= _READ else None


def _is(value: Any, kind: str) -> bool:
    value_kind = {"truth value": "truth"}.get(kind_of(value) or "", kind_of(value))
    return _KINDS.get(kind) == value_kind and (kind != "integer" or _whole(value))


def _whole(value: Any) -> bool:
    number = exact(value)
    return type(number) is int


def _within(schema: Mapping[str, Any], value: Any) -> list[bool]:
    kind = kind_of(value)
    if kind not in ("number", "text"):
        return []
    amount: Any = len(value) if kind == "text" else exact(value)
    if type(amount) is Unknown:
        return [False]
    conditions = [low <= amount for low in _bound(schema, _LEAST[kind])]
    conditions += [amount <= high for high in _bound(schema, _MOST[kind])]
    if kind == "number":
        conditions += [low < amount for low in _bound(schema, "exclusiveMinimum")]
        conditions += [amount < high for high in _bound(schema, "exclusiveMaximum")]
    return conditions


# --- symbolic evaluation


def of_truth(value: Truth) -> Value:
    return TRUE if value is True else FALSE if value is False else UNKNOWN


class CallEvaluation:
    """The symbolic evaluation of a session's rules on one call.

    Args:
        session: the session.
        operations: the operations on values.
        tool: the tool of the call.
        args: its arguments, a mapping.
        facts: the host's facts for this call, besides those of the session.
        functions: the state functions.
    """

    def __init__(
        self,
        session: ReasonerSession,
        operations: Operations,
        tool: str,
        args: Value,
        facts: Mapping[str, Any] | None,
        functions: Functions,
    ) -> None:
        self._conversation = conversation = session._conversation  # noqa: SLF001 - the reasoner belongs to the session
        self._operations, self._symbolic_call = operations, SymbolicCall(tool, args)
        self._call = SessionCall(tool, {}, len(conversation.calls) + 1)
        self._tags = session.policies.tags
        trace, calls = conversation.context, conversation.calls
        self.contexts: list[CurrentSession] = []
        reading, known = reading_of(trace), {**session._facts, **(facts or {})}  # noqa: SLF001 - as above

        def context(outcomes: Outcomes) -> Semantics:
            self.contexts.append(CurrentSession(operations, trace, calls, known, functions, outcomes, reading))
            return Semantics(operations, self.contexts[-1], self._tags, functions)

        self._current = context({})
        in_flight = trace.in_flight
        self._exhaustive = tries_every_ending(in_flight)
        self._outcomes = (
            [context(outcomes) for outcomes in outcome_combinations(in_flight)] if in_flight else [self._current]
        )
        concern = session.policies.applicability(self._call)
        skipped = conversation.skipped if tool in conversation.graph_tools else frozenset[int]()
        self._applicable = {number for number, _ in concern.monitors} - skipped

    def rule(self, rule: Rule) -> Value:
        """Returns whether the call satisfies a rule for every outcome of the calls in flight."""
        tree = RuleTree(rule.rules)
        if len(tree.atomic_rules) != len(rule.monitors):  # not a temporal rule
            return self._operations.symbols.any_truth(("rule", rule.id))
        every = conjunction(self._rule_in(semantics, rule, tree) for semantics in self._outcomes)
        if self._exhaustive:
            return every
        now = FALSE if any(map(uses_known, tree.atomic_rules)) else self._rule_in(self._current, rule, tree)
        return truth(when_true(now), when_false(every))

    def _rule_in(self, semantics: Semantics, rule: Rule, tree: RuleTree) -> Value:
        """Returns whether the call satisfies a rule for one combination of outcomes."""
        values = [self._part(semantics, rule, at, part) for at, part in enumerate(tree.atomic_rules)]
        return tree.combine(values, lambda at: self._so_far(rule, at))

    def _so_far(self, rule: Rule, at: int) -> Value:
        memory = self._conversation._memory[rule.first_monitor + at]  # noqa: SLF001 - as above
        return of_truth(rule.monitors[at].satisfiable(memory))

    def _part(self, semantics: Semantics, rule: Rule, at: int, part: AtomicRule) -> Value:
        number = rule.first_monitor + at
        if number not in self._applicable:
            return TRUE
        if not part.is_propositional:
            return judge_call(part, self._symbolic_call, semantics)
        memory = self._conversation._memory[number]  # noqa: SLF001 - as above
        call, monitor = self._call, rule.monitors[at]
        if monitor.reads_arguments(call):  # type: ignore[attr-defined]
            args = self._operations.plain(self._symbolic_call.args)
            if args is UNDECIDED:
                return self._operations.symbols.any_truth(("step", number))
            call = SessionCall(call.tool, args, call.place)
        finding = monitor.judge(self._conversation.context, call, memory)
        return TRUE if finding is None else of_truth(finding.value)

    def allowed(self, rules: tuple[Rule, ...]) -> Expression:
        """Returns the condition under which no rule denies the call."""
        return conj(*self._permissions(rules))

    def _permissions(self, rules: tuple[Rule, ...]) -> Iterator[Expression]:
        for rule in rules:
            value = self.rule(rule)
            warns = rule.source.on_violation <= Decision.WARN
            yield disj(when_true(value), when_false(value)) if warns else when_true(value)


# --- candidate values

MOST = 40  # candidates of one argument
_PLAIN: tuple[Any, ...] = (0, 1, "", "a", True, False)


def mentioned_arguments(policies: Policies, tool: str) -> frozenset[str]:
    """Returns the arguments that the rules about a tool mention."""
    nodes = [
        node for rule in policies.rules if tool in rule.tools for logic_rule in rule.rules for node in _walk(logic_rule)
    ]
    names = {node.name for node in nodes if isinstance(node, ast.Argument)}
    fields = [node for node in nodes if isinstance(node, ast.Field | ast.Item)]
    called = [field for field in fields if isinstance(field.body, ast.OfCall) and field.body.what == "args"]
    names |= {field.name for field in called if isinstance(field, ast.Field)}
    return frozenset(names | {name for field in called if isinstance(field, ast.Item) for name in _text(field.index)})


def _text(node: ast.Term) -> list[str]:
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def _walk(rule: ast.Rule) -> Iterator[object]:
    """Yields the syntax nodes of a data rule."""
    for part in RuleTree([rule]).atomic_rules:
        if isinstance(part.rule, ast.Temporal):
            steps = filter(None, map(step_pattern, atoms(part.rule.formula)))
            yield from (node for step in steps for node in ast.walk(step))
        else:
            yield from ast.walk(part.rule)


class CandidateValues:
    """The candidate values of a session."""

    def __init__(self, session: ReasonerSession, facts: Mapping[str, Any] | None) -> None:
        self._calls = session.history
        nodes = [node for rule in session.policies.rules for logic_rule in rule.rules for node in _walk(logic_rule)]
        self._constants = [as_json(node.value) for node in nodes if isinstance(node, ast.Constant | ast.ExactValue)]
        known = {**session._facts, **(facts or {})}  # noqa: SLF001 - the reasoner belongs to the session
        state = state_of(session._conversation.context)  # noqa: SLF001 - as above
        self._around = list(islice(_scalars([known, state]), 4 * MOST))

    def values(self, name: str, schema: Mapping[str, Any] | None) -> list[Any]:
        """Returns candidates of an argument; all allowed values if there are few."""
        few = choices(schema or EMPTY)
        if few is not None:
            return list(few)
        earlier = [thaw(call.args[name]) for call in self._calls if call.args.get(name) is not None]
        numbers = [constant for constant in self._constants if kind_of(constant) == "number"]
        near = [near for number in numbers for near in (number + 1, number - 1)]
        values = [*self._constants, *earlier, *near, *self._around, *_PLAIN]
        return [value for value in _distinct(values) if schema_allows(schema or EMPTY, value)][:MOST]


def _scalars(value: Any, depth: int = 4) -> Iterator[Any]:
    """Yields the scalars in a value, keys included."""
    match kind_of(value):
        case "mapping" if depth:
            for key, part in value.items():
                yield from _scalars(key, 0)
                yield from _scalars(part, depth - 1)
        case "list" if depth:
            for part in value:
                yield from _scalars(part, depth - 1)
        case "text" | "number" | "truth value":
            yield value


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list({(kind_of(value), repr(value)): value for value in values}.values())


def combinations(domains: Sequence[Sequence[Any]], limit: int) -> Iterator[tuple[Any, ...]]:
    """Yields combinations up to a limit, with the longest domains shortened first."""
    while prod(map(len, domains)) > limit and any(len(domain) > 2 for domain in domains):
        longest = max(map(len, domains))
        domains = [domain[: longest - 1] if len(domain) == longest else domain for domain in domains]
    return islice(product(*domains), limit)


def is_exhaustive(schemas: Sequence[Mapping[str, Any] | None], limit: int) -> bool:
    """Whether the combinations cover all allowed values, and the schemas decide each value."""
    few = [choices(schema or EMPTY) for schema in schemas]
    if any(domain is None for domain in few) or prod(len(domain or ()) for domain in few) > limit:
        return False
    pairs = [(schema or EMPTY, value) for schema, values in zip(schemas, few, strict=True) for value in values or ()]
    return all(schema_allows(schema, value) is not None for schema, value in pairs)


# --- the search

ROUNDS = 12  # solutions of Z3 that the session denies
QUICK_TRIES = 24  # candidates before the symbolic evaluation
MAX_TRIES = 300  # candidates before Z3 is used
MAX_MODEL_TRIES = 4  # candidates if each check runs a guard program or a model


@dataclass(frozen=True, slots=True)
class CompletionResult:
    """Whether a completion exists (None: unknown), and one."""

    possible: bool | None
    args: Mapping[str, Any] | None = None


_NONE, _PERHAPS = CompletionResult(possible=False), CompletionResult(None)


class CompletionSearch:
    """A search for a completion of one call.

    Args:
        session: the session.
        functions: the state functions.
        tool: the tool of the call.
        args: its arguments; open ones are `Open`.
        facts: the host's facts for this call.
        more: whether other arguments may be added.
        seconds: the approximate time limit.
    """

    def __init__(
        self,
        session: ReasonerSession,
        functions: Functions,
        tool: str,
        args: Mapping[str, Any],
        facts: Mapping[str, Any] | None,
        *,
        more: bool,
        seconds: float,
    ) -> None:
        self._session, self._functions, self._seconds = session, functions, seconds
        self._tool, self._args, self._facts = tool, args, facts
        self._open = {name: value for name, value in args.items() if isinstance(value, Open)}
        self._fixed = {name: value for name, value in args.items() if name not in self._open}
        self._more = more
        self._added = self._addable() if more else ()
        self._values: dict[str, Value] = {}

    def run(self) -> CompletionResult:
        if self._is_denied_outright():
            return _NONE
        if not self._open and not self._more:
            return CompletionResult(possible=True, args=dict(self._args)) if self._allows(self._args) else _NONE
        return self._try_candidates(QUICK_TRIES) or self._search_symbolically()

    def _search_symbolically(self) -> CompletionResult:
        operations = Operations(Symbols())
        question = CallEvaluation(
            self._session, operations, self._tool, self._arguments(operations), self._facts, self._functions
        )
        principal = self._session._principal  # noqa: SLF001 - the reasoner belongs to the session
        allowed = question.allowed(self._session.policies.rules_for(principal))
        if allowed is False:
            return _NONE
        return self._try_candidates(MAX_TRIES) or self._solve(operations, question, allowed)

    def _addable(self) -> tuple[str, ...]:
        """Returns the arguments that may be added and that a rule mentions."""
        declared = self._concern.arguments
        names = sorted(mentioned_arguments(self._session.policies, self._tool) - self._args.keys())
        return tuple(name for name in names if declared is None or name in declared)

    @property
    def _concern(self) -> Applicability:
        call = SessionCall(self._tool, {})
        call.principal = self._session._principal  # noqa: SLF001 - as above
        return self._session.policies.applicability(call)

    def _is_denied_outright(self) -> bool:
        """Whether the call is denied before any rule is checked."""
        concern = self._concern
        undeclared = concern.arguments is not None and not self._args.keys() <= concern.arguments
        return self._session.halted or bool(concern.problem) or not concern.listed or undeclared

    def _allows(self, args: Mapping[str, Any]) -> bool:
        return self._session.check(self._tool, args, facts=self._facts, reserve=False).label == 0

    def _is_witness(self, args: Mapping[str, Any]) -> bool:
        """Whether the session allows these arguments and they fit the schemas."""
        fits = all(
            schema_allows(open_argument.schema or EMPTY, args.get(name)) for name, open_argument in self._open.items()
        )
        return fits and self._allows(args)

    # --- candidate values

    def _try_candidates(self, limit: int) -> CompletionResult | None:
        """Tries values from the rules, the facts and the history, or all values if there are few."""
        known_values = CandidateValues(self._session, self._facts)
        domains = [known_values.values(name, open_argument.schema) for name, open_argument in self._open.items()]
        domains += [[MISSING, *known_values.values(name, None)] for name in self._added]
        names = (*self._open, *self._added)
        limit = min(limit, MAX_MODEL_TRIES) if self._session.policies.requests else limit
        for values in combinations(domains, limit):
            args = self._with(dict(zip(names, values, strict=True)))
            if self._is_witness(args):
                return CompletionResult(possible=True, args=args)
        schemas = [open_argument.schema for open_argument in self._open.values()]
        return _NONE if not self._more and is_exhaustive(schemas, limit) else None

    def _with(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._fixed, **{name: value for name, value in values.items() if value is not MISSING}}

    # --- symbolic search

    def _arguments(self, operations: Operations) -> Value:
        for name, open_argument in self._open.items():
            self._values[name] = open_value(operations, ("open", name), open_argument.schema or EMPTY)
        fixed = {name: operations.constant(value) for name, value in self._fixed.items()}
        if not self._more:
            return of_leaf(MappingValue(tuple({**fixed, **self._values}.items())))
        certain = tuple({**fixed, **self._values}.items())
        added = {name: operations.symbols.any_value(("args", name)) for name in self._added}
        self._values.update(added)
        return of_leaf(SymbolicMapping("args", certain, self._concern.arguments))

    def _solve(self, operations: Operations, question: CallEvaluation, allowed: Expression) -> CompletionResult:
        asserted = [allowed]
        until = time.monotonic() + self._seconds
        here = thread_solver(self._seconds)
        for _ in range(ROUNDS):
            answer = here.check(asserted, operations.symbols)
            if answer == "unsat":
                return _NONE
            if here.model is None or time.monotonic() > until:
                return _PERHAPS
            args = self._with({name: here.model.value(value) for name, value in self._values.items()})
            if self._is_witness(args):
                return CompletionResult(possible=True, args=args)
            learned = [
                *self._state_facts(operations, question.contexts, here.model),
                *self._exclusion(operations, args),
            ]
            if not learned:
                return _PERHAPS
            asserted += learned
        return _PERHAPS

    def _exclusion(self, operations: Operations, args: Mapping[str, Any]) -> list[Expression]:
        """Excludes denied arguments, unless some are not scalars: others that look the same might be allowed."""
        conditions = []
        for name, value in self._values.items():
            refused = operations.constant(args.get(name))
            if not all(isinstance(leaf, ScalarValue) for _, leaf in refused.cases):
                return []
            conditions.append(when_true(operations.equal(value, refused)) if refused.cases else neg(value.known))
        fits = all(
            schema_allows(open_argument.schema or EMPTY, args.get(name)) is not None
            for name, open_argument in self._open.items()
        )
        return [neg(conj(*conditions))] if fits else []

    @staticmethod
    def _state_facts(
        operations: Operations, sessions: Sequence[CurrentSession], model: Z3Model
    ) -> Iterator[Expression]:
        """Yields the actual results of state functions for the arguments of a Z3 model."""
        for session in sessions:
            for function, arguments, answer in session.state_queries:
                plain = [model.value(argument) for argument in arguments]
                if MISSING not in plain and all(kind_of(value) in ("text", "number", "truth value") for value in plain):
                    actual = session.answer(function, plain)
                    yield implies(
                        same_values(operations, arguments, plain), _equals(operations, answer, actual, depth=3)
                    )


def _equals(operations: Operations, answer: Value, actual: Value, *, depth: int) -> Expression:
    """Returns the condition that a symbolic value equals a concrete one."""
    if actual == UNKNOWN:
        return neg(answer.known)
    leaf = actual.cases[0][1]
    if not isinstance(leaf, Concrete):
        return answer.known if isinstance(leaf, Opaque) else when_true(operations.equal(answer, actual))
    of_kind = [(guard, case) for guard, case in answer.cases if case.kind == leaf.kind]
    if leaf.kind != "mapping" or not depth or not of_kind:
        return conj(*(guard for guard, _ in of_kind)) if of_kind else False
    guard, whole = of_kind[0]
    fields = operations.fields_of(leaf) or {}
    inside = [
        _equals(operations, operations.field(of_leaf(whole), name), field, depth=depth - 1)
        for name, field in fields.items()
    ]
    return conj(guard, *inside)
