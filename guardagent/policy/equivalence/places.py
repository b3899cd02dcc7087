"""The places of values that drafts read, each with the values that matter there.

A value matters if a draft compares the place with it, or if it is next to such a constant. The names that a draft
declares are replaced by their definitions first, so that drafts with other names can be equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from itertools import chain, product
from typing import Any, Literal, NamedTuple

from guardagent.policy.equivalence.canonical import mapped
from guardagent.policy.language import ast
from guardagent.policy.language.formula import Conjunction, Disjunction, Since, all_of, any_of
from guardagent.policy.language.formula import Literal as StepLiteral
from guardagent.policy.language.parser import step_pattern
from guardagent.policy.logic.lowering import as_json
from guardagent.policy.policies import Policies
from guardagent.policy.solver.monitor import SolverMonitor
from guardagent.policy.solver.script import UnsupportedError
from guardagent.policy.solver.sources import ARGS, ExpressionSource
from guardagent.policy.solver.z3_text import postorder, value_of

Place = tuple[str, ...]
"""`("args", tool, name)`, `("output", tool, key, ...)`, `("fact", key, ...)`, `("state", key, ...)`, or
`("principal", key)`."""

MAX_REPEATS = 6
_OF_TIME = ast.Now | ast.Elapsed | ast.TimeOf
ITEMS = "[]"  # the last key of a place that is a list or is searched
KEY = "[key]"  # a key of a place that is computed, such as an argument
_ORDERED = ("<", "<=", ">", ">=")


@dataclass
class PlaceUse:
    """The use of a place by drafts.

    Attributes:
        constants: the constants that it is compared with.
        is_number: whether it is ordered or computed with.
        is_truth: whether it stands alone as a condition.
        is_list: whether it is searched or counted.
        moment: whether it is an instant: as a number, or as text.
        lengths: the numbers that its length is compared with.
    """

    constants: dict[str, Any] = field(default_factory=dict)
    is_number: bool = False
    is_truth: bool = False
    is_list: bool = False
    moment: Literal["", "number", "text"] = ""
    lengths: set[int] = field(default_factory=set)

    def add(self, values: Iterable[Any]) -> None:
        self.constants.update({repr(value): value for value in values})


class PlaceComparison(NamedTuple):
    """A comparison of a place itself with a constant; `matches` has the regular expression."""

    place: Place
    operator: str
    constant: Any


class PolicyPlaces:
    """The places that policies read.

    Attributes:
        uses: how they are used.
        reads: the places whose value is read, and those around them, as far as their keys are known.
        keys: the places of each computed key, by the place that ends with it.
        comparisons: the comparisons with constants.
        called: the tools of earlier calls, in order.
        sought: those that a draft requires.
        repeats: the numbers that counts are compared with.
        seconds: the numbers in comparisons of times, and the lengths of windows.
        clock: whether the time of day or the date matters.
        reads_time: whether any time matters.
    """

    def __init__(self, several: Sequence[Policies]) -> None:
        self.uses: dict[Place, PlaceUse] = {}
        self.reads: dict[Place, None] = {}
        self.keys: dict[Place, Sequence[Place]] = {}
        self.comparisons: list[PlaceComparison] = []
        self.called: dict[str, None] = {}
        self.sought: dict[str, None] = {}
        self.repeats: set[int] = set()
        self.seconds: set[Any] = set()
        self.hours: set[Any] = set()
        self.clock = self.reads_time = False
        self._tags: dict[str, frozenset[str]] = {}
        self._links: list[Sequence[Place]] = []
        for policies in several:
            self._tags.update(policies.tags)
            for rule in policies.rules:
                for read in rule.rules:
                    self._read(read)
                self._scope(rule.source.applies_to)
        self._share()

    # --- reading rules

    def _scope(self, scope: Any) -> None:
        while scope is not None:
            for name, values in (("roles", scope.roles), ("tenant", scope.tenants)):
                if values:
                    self._use(("principal", name)).add(sorted(values))
            scope = scope.excluded

    def _read(self, node: Any, names: Mapping[str, Sequence[Place]] | None = None) -> None:
        names = dict(names or {})
        if isinstance(node, ast.SolverRule | ast.Temporal):
            self._read_solver(node.monitor) if isinstance(node, ast.SolverRule) else self._read_steps(node.formula)
            return
        for pattern, past in _patterns_of(node):
            self._bind(pattern, names)
            if past:
                self.called.update(dict.fromkeys(self._tools(pattern)))
            if past and isinstance(node, ast.SomeCall | ast.Selected | ast.Before):
                self.sought.update(dict.fromkeys(self._tools(pattern)))
        if isinstance(node, ast.OverItems):
            items = self._places(node.items, names)
            for item in items:
                self._use(item).is_list = True
            names[node.variable] = [(*list_place, ITEMS) for list_place in items]
        self._compare(node, names)
        self.reads.update((place, None) for place in self._places(node, names) if KEY not in place)
        for child in ast.children(node):
            self._read(child, names)

    def _tools(self, pattern: ast.Pattern) -> list[str]:
        tools: list[str] = []
        for name in pattern.tools:
            tools += sorted(self._tags.get(name[1:], ())) if name[0] == "@" else [] if name == "*" else [name]
        return tools

    def _bind(self, pattern: ast.Pattern, names: dict[str, Sequence[Place]]) -> None:
        tools = self._tools(pattern)
        if pattern.label:
            names[pattern.label] = [(tool,) for tool in tools]
        for argument in pattern.arguments:
            places = [("args", tool, argument.name) for tool in tools]
            uses = [self._use(place) for place in places]
            self.reads.update(dict.fromkeys(places))
            if isinstance(argument.value, ast.ExactValue):
                for use in uses:
                    use.add([argument.value.value])
                self.comparisons += [PlaceComparison(place, "==", argument.value.value) for place in places]
            elif isinstance(argument.value, ast.Variable):
                if argument.value.name in names:
                    self._join([*places, *names[argument.value.name]])
                else:
                    names[argument.value.name] = places

    def _use(self, place: Place) -> PlaceUse:
        return self.uses.setdefault(place, PlaceUse())

    def _compare(self, node: Any, names: Mapping[str, Sequence[Place]]) -> None:
        match node:
            case ast.Compare(left, operator, right):
                self._comparison(left, operator, right, names)
            case ast.And(parts) | ast.Or(parts):
                self._conditions(parts, names)
            case ast.Negation(body):
                self._conditions((body,), names)
            case ast.Implies(first, second):
                self._conditions((first, second), names)
            case ast.Forall(_, condition) | ast.Exists(_, condition) | ast.SomeCall(_, condition):
                self._conditions((condition,), names)
            case ast.Matches(body, regex):
                self.comparisons += [PlaceComparison(place, "matches", regex) for place in self._places(body, names)]
                for place in self._deep(body, names):
                    self._use(place).add(_samples(regex))
        if within := getattr(node, "within", None):
            self.reads_time = True
            self.seconds.update(node.value for node in ast.walk(within) if isinstance(node, ast.Constant))
        if isinstance(node, _OF_TIME):
            self.reads_time = True

    def _conditions(self, parts: Iterable[ast.Term], names: Mapping[str, Sequence[Place]]) -> None:
        for part in parts:
            for place in self._places(part, names):
                self._use(place).is_truth = True

    def _comparison(self, left: Any, operator: str, right: Any, names: Mapping[str, Sequence[Place]]) -> None:
        self._direct(left, operator, right, names)
        nodes = [*ast.walk(left), *ast.walk(right)]
        constants = [
            constant
            for constant in [*_constants(left), *_constants(right)]
            if not isinstance(constant, bool) or ast.Constant(constant) in (left, right)
        ]
        places = [*self._deep(left, names), *self._deep(right, names)]
        numbers = [
            constant
            for constant in constants
            if isinstance(constant, int | Fraction) and not isinstance(constant, bool)
        ]
        counts = any(isinstance(node, ast.CountCalls | ast.SumCalls | ast.CallFold) for node in nodes)
        functions = {node.function for node in nodes if isinstance(node, ast.Apply)}
        if not counts and ("time" in functions or any(isinstance(node, _OF_TIME) for node in nodes)):
            self.clock = self.clock or bool(functions)
            (self.hours if "hour" in functions else self.seconds).update(numbers)
            for place in places:
                self._use(place).moment = "text" if "time" in functions else "number"
            return
        if any(isinstance(node, ast.CountCalls | ast.CallFold | ast.Length | ast.OverItems) for node in nodes):
            self.repeats.update(int(number) for number in numbers if 0 <= number <= MAX_REPEATS)
        for length in (node for node in nodes if isinstance(node, ast.Length)):
            for place in self._places(length.body, names):
                self._use(place).lengths.update(
                    [int(number) for number in numbers if 0 <= number <= MAX_REPEATS] or [1]
                )
        is_number = operator in _ORDERED or any(isinstance(node, ast.Arithmetic | ast.SumCalls) for node in nodes)
        for place in places:
            use = self._use(place)
            use.add(constants)
            use.is_number = use.is_number or is_number
        if operator == "in":
            for place in self._places(right, names):
                self._use(place).is_list = True
        self._join(places)

    def _direct(self, left: Any, operator: str, right: Any, names: Mapping[str, Sequence[Place]]) -> None:
        """Records comparisons of a place with a constant, or with each item of a list."""
        for term, other in [(left, right)] if operator == "in" else [(left, right), (right, left)]:
            items = other.items if isinstance(other, ast.ListOf) else (other,) if operator != "in" else ()
            for item, place in product(items, self._places(term, names)):
                if isinstance(item, ast.Constant):
                    self.comparisons.append(PlaceComparison(place, "==" if operator == "in" else operator, item.value))

    def _deep(self, node: Any, names: Mapping[str, Sequence[Place]]) -> list[Place]:
        """The places of all values in a term, also of those inside of terms over calls."""
        places = self._places(node, names)
        if places or isinstance(node, ast.CountCalls | ast.SomeCall | ast.Length):
            return places
        inner = dict(names)
        for pattern, _ in _patterns_of(node):
            self._bind(pattern, inner)
        return [place for part in _value_parts(node) for place in self._deep(part, inner)]

    def _places(self, node: Any, names: Mapping[str, Sequence[Place]]) -> list[Place]:
        """The places of the value of a term; none if it is computed."""
        match node:
            case ast.Variable(name):
                return list(names.get(name, ()))
            case ast.OfCall("args" | "output" as what, call):
                return [(what, *call) for call in self._calls(call, names)]
            case ast.Field(body, name) | ast.Item(body, ast.Constant(str() as name)):
                return [(*body, name) for body in self._bodies(body, names)]
            case ast.Item(body, ast.Constant(int())):
                return [(*body, ITEMS) for body in self._bodies(body, names)]
            case ast.Item(body, index):
                return [self._with_key(body, index, names) for body in self._bodies(body, names)]
            case ast.Fact(path):
                return [("fact", *path)]
        return []

    def _with_key(self, place: Place, index: Any, names: Mapping[str, Sequence[Place]]) -> Place:
        key = (*place, KEY)
        for index_place in self._places(index, names):
            self._use(index_place)
        self.keys[key] = list(dict.fromkeys([*self.keys.get(key, ()), *self._places(index, names)]))
        return key

    def _bodies(self, body: Any, names: Mapping[str, Sequence[Place]]) -> list[Place]:
        match body:
            case ast.Principal():
                return [("principal",)]
            case ast.State():
                return [("state",)]
        return self._places(body, names)

    def _calls(self, call: Any, names: Mapping[str, Sequence[Place]]) -> Sequence[Place]:
        if isinstance(call, ast.Label):
            return names.get(call.name, ())
        return [(tool,) for tool in self._tools(call.pattern)]

    # --- rules about steps

    def _read_steps(self, node: Any, *, sought: bool = False) -> None:
        """Reads the tools of a formula; those that must have been called stand under `S`."""
        if isinstance(node, StepLiteral):
            name = node.atom.removeprefix("tool:") if node.atom.startswith(("tool:", "@")) else "*"
            step = step_pattern(node.atom) or ast.Pattern((name,))
            self._bind(step, {})
            tools = sorted(self._tools(step))
            self.called.update(dict.fromkeys(tools))
            self.sought.update(dict.fromkeys(tools) if sought and node.positive else {})
            return
        for member in fields(node):
            value = getattr(node, member.name)
            for child in value if isinstance(value, frozenset) else (value,):
                if hasattr(child, "__dataclass_fields__"):
                    self._read_steps(child, sought=sought or isinstance(node, Since))

    # --- solver rules

    def _read_solver(self, monitor: Any) -> None:
        assert isinstance(monitor, SolverMonitor)
        for tool, check in monitor.checks.items():
            constants = list(_literals(check.question.terms))
            for variable in check.variables:
                if isinstance(variable.source, ExpressionSource):
                    tree, names = variable.source.tree, {ARGS: [("args", tool)]}
                    self._read(tree, names)
                    values = variable.sort.values or variable.enum or constants
                    for place in self._deep(tree, names):
                        use = self._use(place)
                        use.is_truth = use.is_truth or variable.sort.name == "Bool"
                        use.is_number = use.is_number or variable.sort.name in ("Int", "Real")
                        use.add(value for value in values if _suits(value, variable.sort.name))

    # --- places that are compared with each other

    def _join(self, places: Sequence[Place]) -> None:
        self._links.append(places)

    def _share(self) -> None:
        """Gives places that are compared with each other the same constants."""
        for _ in range(3):
            for places in self._links:
                uses = [self._use(place) for place in places]
                shared = [value for use in uses for value in use.constants.values()]
                is_number = any(use.is_number for use in uses)
                for use in uses:
                    use.add(shared)
                    use.is_number = is_number


def _patterns_of(node: Any) -> Iterator[tuple[ast.Pattern, bool]]:
    """Yields the patterns that bind names in a node, and whether they match earlier calls."""
    if isinstance(pattern := getattr(node, "pattern", None), ast.Pattern):
        yield pattern, not isinstance(node, ast.Forall | ast.Before)
    if isinstance(partner := getattr(node, "partner", None), ast.Pattern):
        yield partner, True


def _value_parts(node: Any) -> list[Any]:
    """The parts of a term without calls and comparisons: what these read is not compared with the other side."""
    return [part for part in ast.children(node) if not isinstance(part, ast.Pattern | ast.Compare)]


def _constants(node: Any) -> Iterator[Any]:
    if isinstance(node, ast.Constant):
        yield from _scalars(node.value)
    for part in _value_parts(node):
        yield from _constants(part)


def _scalars(value: Any) -> Iterator[Any]:
    """Yields the keys and the values of a table; another value itself."""
    parts = [*value, *value.values()] if isinstance(value, Mapping) else value
    yield from chain.from_iterable(map(_scalars, parts)) if isinstance(parts, list | tuple) else [value]


def _literals(terms: Sequence[Any]) -> Iterator[Any]:
    for term in postorder(terms):
        try:
            value = value_of(term)
        except (UnsupportedError, AttributeError):
            continue
        if not isinstance(value, bool):
            yield value


def _suits(value: Any, sort: str) -> bool:
    return isinstance(value, str) is (sort not in ("Int", "Real", "Bool")) and sort != "Bool"


def _samples(regex: str) -> list[str]:
    """Strings that a regular expression may match: its literal text."""
    plain = "".join(char for char in regex if char.isalnum() or char in "-_@ ")
    return [plain, f"{plain}x"]


def near(value: Any) -> list[Any]:
    """A number and those next to it."""
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        return [value]
    return [
        as_json(number) for number in (value, value + 1, value - 1, value + Fraction(1, 100), value - Fraction(1, 100))
    ]


# --- names


def without_names(rule: ast.Rule, policies: Policies) -> ast.Rule:
    """Returns a rule with the tools of each set instead of `@name`, and counters by their definition.

    Constants and definitions have no names in a parsed rule; solver rules keep theirs.
    """
    return _Unnaming(policies).replaced(rule)  # type: ignore[no-any-return]


class _Unnaming:
    def __init__(self, policies: Policies) -> None:
        self._tags = policies.tags
        self._counters = {} if policies.source is None else policies.source.counters

    def replaced(self, node: Any) -> Any:
        match node:
            case ast.SolverRule():
                return node
            case ast.Pattern(tools) if any(tool in self._sets for tool in tools):
                node = replace(
                    node, tools=tuple(sorted({tool for tool_name in tools for tool in self._tools(tool_name)}))
                )
            case ast.CounterValue(name):
                node = replace(node, name=self._definition(name))
            case StepLiteral(atom, positive) if atom in self._sets:
                return (any_of if positive else all_of)(
                    StepLiteral(f"tool:{tool}", positive) for tool in self._tools(atom)
                )
            case Conjunction(parts):
                return all_of(map(self.replaced, parts))
            case Disjunction(parts):
                return any_of(map(self.replaced, parts))
        return mapped(node, self.replaced)

    @property
    def _sets(self) -> frozenset[str]:
        """The sets with a tool: another one stays a name."""
        return frozenset(f"@{name}" for name, tools in self._tags.items() if tools)

    def _tools(self, name: str) -> list[str]:
        return sorted(self._tags[name[1:]]) if name in self._sets else [name]

    def _definition(self, name: str) -> str:
        counter = self._counters.get(name)
        if counter is None:
            return name
        keys = [key.text for key in counter.keys]
        return repr((counter.on.text, keys, counter.sum and counter.sum.text, counter.window))
