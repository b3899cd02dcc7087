"""Compiles the terms and patterns of a rule to functions of an environment.

The *environment* is a list with a slot for every name of a rule (labels and variables). Slot 0 holds the rule context:
the facts, the state and the history indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import Any

from guardagent.errors import name_hint
from guardagent.policy.evaluation.call_groups import NOT_KEPT
from guardagent.policy.evaluation.call_outcomes import CallOutcomes
from guardagent.policy.evaluation.history_query import Env, HistoryQuery, Narrowing, Term
from guardagent.policy.evaluation.monitor_interface import (
    args_of,
    failed,
    output_of,
    text_of_messages,
    time_of,
    tool_of,
)
from guardagent.policy.evaluation.operands import (
    Cause,
    CompileError,
    Library,
    TermText,
    applied_function,
    argument_of,
    argument_test,
    check_signature,
    in_state,
    read_as_json,
    regex_test,
    state_function,
)
from guardagent.policy.evaluation.probes import KeyProbe, ResidualPlan
from guardagent.policy.language import ast
from guardagent.policy.language.values import (
    MICROSECONDS,
    MISSING,
    NULL,
    UNREADABLE,
    Truth,
    Unknown,
    arithmetic,
    as_read,
    at_most,
    combine_sets,
    conjunction,
    contains,
    count_of,
    disjunction,
    equal,
    field_of,
    inverse,
    item_of,
    kind_of,
    length,
    less,
    not_boolean,
    null_or_invalid,
    set_of,
    unreadable,
)
from guardagent.types.values import FIELDS as PRINCIPAL_FIELDS

Names = dict[str, int]  # a label or variable -> its slot in the environment

COMPARISONS: Mapping[str, Callable[[Any, Any], Truth]] = {
    "==": equal,
    "!=": lambda left, right: inverse(equal(left, right)),
    "<": less,
    ">": lambda left, right: less(right, left),
    "<=": at_most,
    ">=": lambda left, right: at_most(right, left),
    "in": contains,
}


class Compiler:
    """Compiles the terms of one rule.

    Attributes:
        arguments: slot of a variable -> the argument that binds it.
        items: slots of the variables that are bound to items of lists.
        index_of: id() of a term -> the number of its history index.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self.size = 1
        self.arguments: dict[int, str] = {}
        self.items: set[int] = set()
        self.index_of: dict[int, int] = {}
        self._first_query = len(library.history_queries)
        self._compiled: dict[Any, tuple[object, Term]] = {}
        self._remembered: dict[int, tuple[int, int]] = {}  # id of a node -> the slot of known values, its place there
        self._open_nodes: dict[int, tuple[int, KeyProbe | None]] = {}  # by id: the slot of the prober, the probe

    def call_outcomes(self, *conditions: ast.Term, directed: bool = True) -> CallOutcomes:
        """The outcomes of calls in flight that these conditions distinguish. Compile the conditions first."""
        queries = self.library.history_queries
        return CallOutcomes(
            conditions, queries, range(self._first_query, len(queries)), self.index_of, directed=directed
        )

    def place(self) -> int:
        """Allocates a slot in the environment."""
        self.size += 1
        return self.size - 1

    def term_text(self, node: object, names: Names, own: str | None = None) -> TermText:
        return TermText(node, names, self.arguments, self.items, own)

    # --- proposed calls

    def proposed(self, pattern: ast.Pattern, names: Names) -> Callable[[Env, Any], Truth]:
        """Compiles a function that binds a proposed call and returns whether the pattern matches."""
        label = self.place()
        if pattern.label:
            names[pattern.label] = label
        binders: list[tuple[int, str]] = []
        tests: list[tuple[str, Any]] = []
        for argument in pattern.arguments:
            if isinstance(argument.value, ast.Variable):
                if argument.value.name in names:
                    tests.append((argument.name, self._equals(names[argument.value.name])))
                else:
                    names[argument.value.name] = self.place()
                    binders.append((names[argument.value.name], argument.name))
            elif not isinstance(argument.value, ast.AnyValue):
                tests.append((argument.name, _in_env(argument_test(argument))))
        self.arguments.update(binders)

        if not tests:  # the common case
            return _bind(label, tuple(binders))

        def match(env: Env, call: Any) -> Truth:
            env[label] = call
            args = call.args
            for slot, name in binders:
                env[slot] = argument_of(args, name)
            return conjunction(test(env, argument_of(args, name)) for name, test in tests)

        return match

    @staticmethod
    def _equals(slot: int) -> Callable[[Env, Any], Truth]:
        return lambda env, value: equal(env[slot], value)

    # --- past calls

    def add_query(self, pattern: ast.Pattern, condition: ast.Term, names: Names, **options: Any) -> int:
        """Adds a history query; returns its number."""
        query = self.history_query(pattern, condition, names, **options)
        self.library.history_queries.append(query)
        return len(self.library.history_queries) - 1

    def history_query(
        self,
        pattern: ast.Pattern,
        condition: ast.Term,
        names: Names,
        *,
        ok_only: bool = False,
        term: ast.Term | None = None,
        within: ast.Term | None = None,
        distinct: bool = False,
        in_flight: bool = False,
    ) -> HistoryQuery:
        """Compiles a query for past calls. `names` are the names in scope around it."""
        label, inner = self.place(), dict(names)
        local = {pattern.label or ""}
        if pattern.label:
            inner[pattern.label] = label
        binders: list[tuple[int, str]] = []
        own: list[Term] = []
        joins: list[tuple[Term, Term]] = []
        joined: list[tuple[int, str]] = []
        for argument in pattern.arguments:
            read = _argument_reader(label, argument.name)
            if not isinstance(argument.value, ast.Variable):
                own.append(_of(argument_test(argument), read))
            elif argument.value.name not in inner:
                inner[argument.value.name] = self.place()
                local.add(argument.value.name)
                binders.append((inner[argument.value.name], argument.name))
            elif argument.value.name in local:
                own.append(_both(equal, read, _reader(inner[argument.value.name])))
            else:
                joins.append((read, self.term(argument.value, inner)))
                joined.append((inner[argument.value.name], argument.name))
        self.arguments.update(binders)
        rest: list[ast.Term] = []
        for part in condition.parts if isinstance(condition, ast.And) else (condition,):
            self._classify(part, local, inner, own, joins, rest)
        residual, narrowing = self._residual(rest, local, inner)
        summed = self.term(term, inner) if term is not None else None
        early = term is not None and ast.is_own(term, local)
        return HistoryQuery(
            tools=self.library.tools_of(pattern),
            size=self.size,
            label=label,
            required=tuple(argument.name for argument in pattern.arguments),
            binders=tuple(binders),
            own_conditions=tuple(own),
            variable_equations=tuple(joined),
            equations=tuple(joins),
            residual_conditions=residual,
            ok_only=ok_only,
            term=summed if early else None,
            late_term=None if early else summed,
            window=None if within is None else self._window(within, names),
            narrowing=narrowing,
            deferred_by=_deferred_by(joined, joins, condition, term),
            distinct=distinct,
            in_flight=in_flight,
        )

    def _classify(
        self,
        part: ast.Term,
        local: set[str],
        names: Names,
        own: list[Term],
        joins: list[tuple[Term, Term]],
        rest: list[ast.Term],
    ) -> None:
        """Classifies a condition: on the past call alone, an equation for the index, or residual."""
        if is_true(part):
            return
        if ast.is_own(part, local):
            own.append(self.term(part, names))
            return
        if isinstance(part, ast.Compare) and part.operator == "==":
            for left, right in ((part.left, part.right), (part.right, part.left)):
                if ast.is_own(left, local) and not ast.names_in(right) & local:
                    joins.append((self.term(left, names), self.term(right, names)))
                    return
        rest.append(part)

    def _residual(
        self, conditions: Sequence[ast.Term], local: set[str], names: Names
    ) -> tuple[tuple[Term, ...], Narrowing | None]:
        """Compiles residual conditions, and how to find the calls for which to decide them."""
        plan = ResidualPlan(conditions, local)
        if not plan.is_sound:
            return self._terms(conditions, names), None
        mode, values = self.place(), self.place()
        names = {**names, " mode": mode}  # compiled for this query alone
        self._remembered.update((id(node), (values, at)) for at, node in enumerate(plan.own))
        self._open_nodes.update((node, (mode, None)) for node in plan.open)
        self._open_nodes.update((node, (mode, probe)) for node, probe in plan.probes.items())
        probes = tuple((probe, self.term(probe.other, names)) for probe in plan.probes.values())
        narrowing = Narrowing(mode, values, probes, self._terms(plan.own, names), self._terms(plan.fallible, names))
        return self._terms(conditions, names), narrowing

    def _window(self, within: ast.Term, names: Names) -> Term:
        """Compiles the start of a time window."""
        duration, blamed = self.term(within, names), self.blame(within, names, _UNCOMPUTED)

        def start(env: Env) -> int | Unknown:
            seconds, moment = duration(env), env[0].moment()
            length = arithmetic(seconds, "*", MICROSECONDS)
            if isinstance(length, Unknown):
                return blamed(env, length, seconds)
            if isinstance(length, str) or length < 0:
                return Unknown("a time window is negative")
            return moment if isinstance(moment, Unknown) else ceil(moment - length)

        return start

    def keys_of(self, node: ast.SomeCall) -> tuple[int, Sequence[ast.Term]] | None:
        """(the number of the history index of a term, the terms of its key); None if the key does not decide it."""
        number = self.index_of[id(node)]
        query = self.library.history_queries[number]
        syntax: dict[int, Any] = {id(term): part for part, term in self._compiled.values()}
        keys = [syntax[id(other)] for _, other in query.equations]
        return (number, keys) if query.decided_by_key else None

    # --- terms

    def term(self, node: ast.Term | ast.RegexValue, names: Names) -> Term:
        """Compiles a term to a function of the environment."""
        key = id(node), frozenset(names.items())  # equal nodes may differ: 1 and true
        if key not in self._compiled:
            term: Term = getattr(self, f"_{type(node).__name__.lower()}")(node, names)
            mode, probe = self._open_nodes.get(id(node), (0, None))
            own = None if probe is None else self.term(probe.own, names)
            slot, at = self._remembered.get(id(node), (0, 0))
            term = _remembered(term, slot, at) if slot else term
            self._compiled[key] = node, _probed(term, mode, probe, own) if mode else term
        return self._compiled[key][1]

    def _terms(self, nodes: Iterable[ast.Term | ast.RegexValue], names: Names) -> tuple[Term, ...]:
        return tuple(self.term(node, names) for node in nodes)

    def _constant(self, node: ast.Constant, _: Names) -> Term:
        value = node.value
        return lambda _env: value

    def _variable(self, node: ast.Variable, names: Names) -> Term:
        return _reader(names[node.name])

    def _listof(self, node: ast.ListOf, names: Names) -> Term:
        if all(isinstance(item, ast.Constant) for item in node.items):
            values = [item.value for item in node.items if isinstance(item, ast.Constant)]
            return lambda _env: values
        items = self._terms(node.items, names)

        def listed(env: Env) -> Any:
            values = [item(env) for item in items]
            return next((value.unbounded for value in values if type(value) is Unknown), values)

        return listed

    def _setof(self, node: ast.SetOf, names: Names) -> Term:
        items = self._terms(node.items, names)
        if all(isinstance(item, ast.Constant) for item in node.items):
            constant = set_of(item.value for item in node.items if isinstance(item, ast.Constant))
            return lambda _env: constant
        return lambda env: set_of(item(env) for item in items)

    def _setoperation(self, node: ast.SetOperation, names: Names) -> Term:
        operator = node.operator
        return self._of_two(
            node, names, _UNCOMPUTED, lambda left, right: combine_sets(left, operator, right), node.left, node.right
        )

    def _apply(self, node: ast.Apply, names: Names) -> Term:
        function = applied_function(node, self.library.functions)
        arguments = self._terms(node.arguments, names)
        blamed = self.blame(node, names, _UNCOMPUTED)

        def applied(env: Env) -> Any:
            values = [argument(env) for argument in arguments]
            result = function(list(values))
            return blamed(env, result, *values) if type(result) is Unknown else result

        return applied

    def _regexvalue(self, node: ast.RegexValue, _: Names) -> Term:
        regex = node.regex
        return lambda _env: regex

    def _and(self, node: ast.And, names: Names) -> Term:
        return all_of_terms(self._terms(node.parts, names))

    def _or(self, node: ast.Or, names: Names) -> Term:
        return any_of_terms(self._terms(node.parts, names))

    def _negation(self, node: ast.Negation, names: Names) -> Term:
        body = self.term(node.body, names)
        return lambda env: inverse(body(env))

    def _implies(self, node: ast.Implies, names: Names) -> Term:
        return self._or(ast.Or((ast.Negation(node.first), node.second)), names)

    def _compare(self, node: ast.Compare, names: Names) -> Term:
        return self._of_two(node, names, UNDECIDED, COMPARISONS[node.operator], node.left, node.right)

    def _matches(self, node: ast.Matches, names: Names) -> Term:
        return self._of_one(node, names, UNDECIDED, regex_test(node.regex), node.body)

    def _arithmetic(self, node: ast.Arithmetic, names: Names) -> Term:
        left, operator, right = self.term(node.left, names), node.operator, self.term(node.right, names)
        blamed = self.blame(node, names, _UNCOMPUTED)

        def computed(env: Env) -> Any:
            first, second = left(env), right(env)
            result = arithmetic(first, operator, second)
            return blamed(env, result, first, second) if type(result) is Unknown else result

        return computed

    def blame(self, node: ast.Term, names: Names, problem: str) -> Callable[..., Unknown]:
        """Compiles the cause of an unknown value: the term itself if all of its operands are known."""
        term_text = self.term_text(node, names)

        def blamed(env: Env, unknown: Unknown, *values: Any) -> Unknown:
            if unknown.undetermined or any(type(value) is Unknown for value in values):
                return unknown
            is_unreadable = unknown is UNREADABLE and problem is _NOT_KNOWN
            form = "{}" if unknown is MISSING or unknown is NULL else _UNREADABLE if is_unreadable else problem
            problem_text = form.format(unknown.why[0])
            return Unknown(Cause(term_text, env, problem_text))

        return blamed

    def _of_one(
        self, node: ast.Term, names: Names, problem: str, function: Callable[[Any], Any], body: ast.Term
    ) -> Term:
        read, blamed = self.term(body, names), self.blame(node, names, problem)

        def of_one(env: Env) -> Any:
            value = read(env)
            result = function(value)
            return blamed(env, result, value) if type(result) is Unknown else result

        return of_one

    def _of_two(
        self, node: ast.Term, names: Names, problem: str, function: Callable[..., Any], *bodies: ast.Term
    ) -> Term:
        (left, right), blamed = self._terms(bodies, names), self.blame(node, names, problem)

        def of_two(env: Env) -> Any:
            first, second = left(env), right(env)
            result = function(first, second)
            return blamed(env, result, first, second) if type(result) is Unknown else result

        return of_two

    def _negative(self, node: ast.Negative, names: Names) -> Term:
        return self._of_one(node, names, _UNCOMPUTED, lambda value: arithmetic(0, "-", value), node.body)

    def _length(self, node: ast.Length, names: Names) -> Term:
        return self._of_one(node, names, _UNCOMPUTED, length, node.body)

    def _sources(self, node: ast.Sources, names: Names) -> Term:
        self.library.features.add("sources")
        body, blamed = self.term(node.body, names), self.blame(node, names, _NOT_KNOWN)

        def sources(env: Env) -> Any:
            value = body(env)
            sources = env[0].provenance.sources(value, env[0])
            return blamed(env, sources, value).within(sources.bounds) if type(sources) is Unknown else sources

        return sources

    def _seen(self, node: ast.Seen, _: Names) -> Term:
        self.library.features.add("sources")
        labels = node.labels
        return lambda env: env[0].provenance.seen(labels, env[0])

    def _messagestext(self, node: ast.MessagesText, _: Names) -> Term:
        return lambda env: text_of_messages(env[0].messages, node.role)

    def _known(self, node: ast.Known, names: Names) -> Term:
        body, texts = self.term(node.body, names), self._terms(read_as_json(node.body), names)
        blamed = self.blame(node, names, UNDECIDED)

        def known(env: Env) -> Truth:
            value = body(env)
            if type(value) is not Unknown:
                return True
            why = value if value.undetermined else next(filter(None, (unreadable(text(env)) for text in texts)), None)
            return False if why is None else blamed(env, why)

        return known

    def _field(self, node: ast.Field, names: Names) -> Term:
        body, name = self.term(node.body, names), node.name
        if isinstance(node.body, ast.State):
            return lambda env: in_state(env[0].state(), name)
        if _is_principal(node.body) and name not in PRINCIPAL_FIELDS:
            raise CompileError(f"unknown field {name!r} of the principal{name_hint(name, PRINCIPAL_FIELDS)}")
        blamed = self.blame(node, names, _NOT_KNOWN)

        def field(env: Env) -> Any:
            value = body(env)
            field = field_of(value, name)
            return blamed(env, field, value) if type(field) is Unknown else field

        return field

    def _item(self, node: ast.Item, names: Names) -> Term:
        return self._of_two(node, names, _NOT_KNOWN, item_of, node.body, node.index)

    def _fact(self, node: ast.Fact, _: Names) -> Term:
        path, unknown = node.path, Unknown(_unknown_fact(".".join(node.path)))

        def fact(env: Env) -> Any:
            value = env[0].facts
            for key in path:
                value = as_read(value.get(key)) if kind_of(value) == "mapping" else None
                if value is None or type(value) is Unknown:
                    return unknown if value is None else value
            return value

        def usage(env: Env) -> Any:
            value = fact(env)
            return _NEGATIVE_USAGE if kind_of(value) == "number" and value < 0 else value

        return usage if path[0] == ast.USAGE else fact

    def _principal(self, _node: ast.Principal, _: Names) -> Term:
        unknown = Unknown("the session has no principal")

        def principal(env: Env) -> Any:
            value = env[0].principal
            return unknown if value is None else value

        return principal

    def _state(self, _node: ast.State, _: Names) -> Term:
        def state(env: Env) -> Any:
            value = env[0].state()
            return Unknown("the session has no state") if value is None else value

        return state

    def _stateof(self, node: ast.StateOf, names: Names) -> Term:
        function = self.library.functions.get(node.function)
        if function is None:
            unknown = f"unknown state function {node.function!r}{name_hint(node.function, self.library.functions)}"
            raise CompileError(unknown, node.place)
        check_signature(node, function)
        return state_function(node, function, self._terms(node.arguments, names), self.term_text(node, names))

    def _ofcall(self, node: ast.OfCall, names: Names) -> Term:
        properties = {"output": output_of, "args": args_of, "tool": tool_of, "failed": failed}
        return _of(properties[node.what], self._call(node.call, names))

    def _call(self, node: ast.Label | ast.Selected, names: Names) -> Term:
        if isinstance(node, ast.Label):
            return _reader(names[node.name])
        index = self.add_query(node.pattern, node.condition, names)
        which = node.which
        return lambda env: env[0].indexes[index].select(env, which)

    def _timeof(self, node: ast.TimeOf, names: Names) -> Term:
        return _of(time_of, self._call(node.call, names))

    def _now(self, _node: ast.Now, _: Names) -> Term:
        return lambda env: env[0].now()

    def _elapsed(self, _node: ast.Elapsed, _: Names) -> Term:
        return lambda env: env[0].elapsed()

    def _zone(self, _node: ast.Zone, _: Names) -> Term:
        return lambda env: env[0].zone()

    def _countcalls(self, node: ast.CountCalls, names: Names) -> Term:
        index = self.index_of[id(node)] = self.add_query(node.pattern, node.condition, names, within=node.within)
        return lambda env: env[0].indexes[index].count(env)

    def _sumcalls(self, node: ast.SumCalls, names: Names) -> Term:
        index = self.index_of[id(node)] = self.add_query(
            node.pattern, node.condition, names, term=node.term, within=node.within
        )
        return lambda env: env[0].indexes[index].sum(env)

    def _callfold(self, node: ast.CallFold, names: Names) -> Term:
        if node.which == "distinct":
            index = self.add_query(
                node.pattern, node.condition, names, term=node.term, within=node.within, distinct=True
            )
            return lambda env: env[0].indexes[index].distinct(env)
        is_ok = node.which == "last ok"
        index = self.add_query(node.pattern, node.condition, names, ok_only=is_ok, within=node.within)
        none = -1 if is_ok else 0
        return lambda env: env[0].indexes[index].last_place(env, none)

    def _callinflight(self, node: ast.CallInFlight, names: Names) -> Term:
        index = self.add_query(node.pattern, node.condition, names, in_flight=True)
        return lambda env: env[0].indexes[index].exists(env)

    def _somecall(self, node: ast.SomeCall, names: Names) -> Term:
        index = self.index_of[id(node)] = self.add_query(
            node.pattern, node.condition, names, ok_only=node.ok, within=node.within
        )
        return lambda env: env[0].indexes[index].exists(env)

    def _countervalue(self, node: ast.CounterValue, names: Names) -> Term:
        counter, keys = self.library.counters[node.name], self._terms(node.keys, names)
        term_text = self.term_text(node, names)

        def counted(env: Env) -> Any:
            key = counter.key_of([key(env) for key in keys])
            if isinstance(key, Unknown):
                return key
            if env[0].counters is None:
                return Unknown("the session has no counters")
            value = env[0].counters.value(key)
            if type(value) is not Unknown:
                return value
            return Unknown(Cause(term_text, env, value.why[0]), bounds=value.bounds)

        return counted

    def _overitems(self, node: ast.OverItems, names: Names) -> Term:
        items, slot = self.term(node.items, names), self.place()
        text = self.term_text(node.items, names)
        self.items.add(slot)
        condition = self.term(node.condition, {**names, node.variable: slot})

        def values(env: Env) -> Any:
            collection = items(env)
            if kind_of(collection) != "list":
                return (
                    collection.unbounded if type(collection) is Unknown else Unknown(Cause(text, env, "is not a list"))
                )
            return (_condition_on_item(env, slot, entry, condition) for entry in collection)

        return _FOLDED[node.which](values)


_NEGATIVE_USAGE = Unknown("the host states a negative usage of models")


def _unknown_fact(name: str) -> str:
    if name.partition(".")[0] == ast.USAGE:
        return f"{name} is unknown: the host does not state what models have used in this conversation"
    return f"the fact {name!r} is unknown"


def _is_principal(node: ast.Term) -> bool:
    """Whether a term is the principal, or the principal it acts on behalf of."""
    while isinstance(node, ast.Field) and node.name == "on_behalf_of":
        node = node.body
    return isinstance(node, ast.Principal)


def _condition_on_item(env: Env, slot: int, value: Any, condition: Term) -> Any:
    env[slot] = null_or_invalid(value) if value is None else as_read(value)
    return condition(env)


def _unless_unknown(fold: Callable[[Iterable[Any]], Any]) -> Callable[[Term], Term]:
    def folded(values: Term) -> Term:
        def run(env: Env) -> Any:
            items = values(env)
            return items if type(items) is Unknown else fold(items)

        return run

    return folded


def _counted(values: Iterable[Any]) -> int | Unknown:
    return count_of(conjunction([value]) for value in values)


_FOLDED = {"all": _unless_unknown(conjunction), "any": _unless_unknown(disjunction), "count": _unless_unknown(_counted)}


# --- small pieces


def _reader(slot: int) -> Term:
    return lambda env: env[slot]


def _argument_reader(label: int, name: str) -> Term:
    return lambda env: argument_of(env[label].args, name)


def all_of_terms(parts: Sequence[Term]) -> Term:
    """The conjunction of compiled terms, without a generator."""
    return _folded(parts, decisive=False)


def any_of_terms(parts: Sequence[Term]) -> Term:
    """The disjunction of compiled terms, without a generator."""
    return _folded(parts, decisive=True)


def _folded(parts: Sequence[Term], *, decisive: bool) -> Term:
    neutral = not decisive

    def fold(env: Env) -> Truth:
        unknown: Unknown | None = None
        for part in parts:
            value = part(env)
            if value is neutral:
                continue
            if type(value) is bool:
                return decisive
            why = not_boolean(value)
            unknown = why if unknown is None else unknown & why
        return neutral if unknown is None else unknown

    return fold


def _bind(label: int, binders: Sequence[tuple[int, str]]) -> Callable[[Env, Any], Truth]:
    def bind(env: Env, call: Any) -> Truth:
        env[label] = call
        args = call.args
        for slot, name in binders:
            value = args.get(name)
            env[slot] = argument_of(args, name) if value is None else value
        return True

    return bind


def _in_env(test: Callable[[Any], Truth]) -> Callable[[Env, Any], Truth]:
    return lambda _env, value: test(value)


def _of(function: Callable[[Any], Any], body: Term) -> Term:
    return lambda env: function(body(env))


UNDECIDED, _UNCOMPUTED, _NOT_KNOWN = "cannot be decided: {}", "cannot be computed: {}", "is unknown: {}"
_UNREADABLE = "is unreadable: {}"


def _both(function: Callable[[Any, Any], Any], left: Term, right: Term) -> Term:
    return lambda env: function(left(env), right(env))


def is_true(node: ast.Term) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _probed(term: Term, mode: int, probe: KeyProbe | None, own: Term | None) -> Term:
    """A term that depends on the check: open in the mode of a prober that does not decide it."""

    def decided(env: Env) -> Any:
        prober = env[mode]
        return term(env) if prober is None else prober.compared(probe, own, env)

    return decided


def _remembered(term: Term, slot: int, at: int) -> Term:
    """A term of the past call alone, whose value may be known."""

    def remembered(env: Env) -> Any:
        values = env[slot]
        return term(env) if values is None or values[at] is NOT_KEPT else values[at]

    return remembered


def _deferred_by(
    joined: Sequence[tuple[int, str]], joins: Sequence[object], condition: ast.Term, term: ast.Term | None
) -> str | None:
    """See `HistoryQuery.deferred_by`. A function of the operator can fail."""
    sure = term is None and not any(isinstance(node, ast.Apply) for node in ast.walk(condition))
    return joined[0][1] if sure and len(joined) == len(joins) == 1 else None
