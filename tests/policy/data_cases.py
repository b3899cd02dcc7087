"""Random rules over data, histories and calls, with small vocabularies so that they often match."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from tests.policy.naive_data import Step

TOOLS = ["pay", "get", "note", "refund"]
TAGS = {"money": frozenset({"pay", "refund"}), "any_of": frozenset({"get", "note", "other"})}
ARGUMENTS = {"id": "text", "n": "number", "on": "truth", "xs": "list", "doc": "mapping"}
TEXTS = ["a", "b", "ab"]
NUMBERS: list[Any] = [0, 1, 2, 3, 0.1, 0.2, 0.3, 2.5, 1.0, -1, 2**53 + 1, 2.0**53]
ODD: list[Any] = ["1", [], [1], {}, {"k": None}, 0.5, 10**20, "", "{", '"a"', float("nan")]
DURATIONS = ["1s", "500ms", "1m", "1h", "2.5h"]
PAUSES: list[Any] = [0, 0, 0.5, 1, 60, 3600, 86400]  # seconds between calls
NEAR: dict[str, list[Any]] = {"text": ["A", " b", "AB"], "number": [True, "1", False], "truth": [1, 0, "true"]}
PRINCIPALS: list[Any] = [
    None,
    {"id": "a", "roles": ["a", "ab"], "tenant": "b"},
    {"id": "b", "roles": []},
    {"id": "ab", "roles": ["a"], "tenant": "b", "on_behalf_of": {"id": "b", "roles": ["b"], "tenant": "b"}},
    {"id": "a", "tenant": "a"},
]
ROLES = [
    '"a" in principal.roles',
    "principal.tenant == principal.id",
    "known(principal.on_behalf_of.id)",
    "len(principal.roles) == 0",
    "any(x in principal.roles, x != principal.id)",
]
LISTS: list[Any] = [[1, 2, 3], [0.1, 0.2], [], ["a", "b"], [1, None], [2, "a"], [[1], [2]], [{"k": 1}, {"k": 2}]]
DOCS: list[Any] = [
    {"k": 1, "s": "a", "xs": [1, 2]},
    {"k": 2, "s": "b", "xs": ["a"], "on": True},
    {"k": 0.1, "on": False, "doc": {"k": 3}},
    {"s": None, "k": "1"},
    '{"k": 1, "s": "a", "xs": [1, 0.1], "on": true}',
    '{"k": 0.3, "s": "b", "doc": "{\\"k\\": 2}"}',
    '{"k": 1, "k": 2, "s": "a"}',
    {"k": 3, "s": "A ab, not abb: b@x.co. See http://X.co/a, www.b.org (-1) b's", "xs": ["b-1", {"s": "a@x.co 0.1"}]},
    {"k": 2, "s": "Pay 1,234.50 to B@x.co for 4711, see /a/b.txt, and b@X.co", "xs": ["4711", "b@x.co", "/a/b"]},
    "[1, 2, 3]",
    "no such thing",
]
VALUES: dict[str, list[Any]] = {
    "text": TEXTS,
    "number": NUMBERS,
    "truth": [True, False],
    "list": LISTS,
    "mapping": DOCS,
}
OUTPUTS: list[Any] = [*DOCS, *DOCS, *TEXTS, *NUMBERS, *LISTS, True, False, None]
COMMANDS = ['"a b && ls"', '"cd a; a | wc -l"', '"a $X"', '"a; $X"', '"a &&"']
OF_COMMAND = ['c.argv[0:1] == ["a"]', 'c.name == "a"', 'c.cwd == "a"', 'c.argv in [["a"], ["ls"]]', "c.env == c.writes"]
SLICES = ["0:1", "1:", ":2", "-2:", "0:-1", "0.1:"]
LISTED = ["[1, 2, 3]", '["a", "b"]', "[1, 2]"]
DATES = ['"01/31/2026"', '"1/31/2026"', '"02/30/2026"', '"12/01/2025 "']
DAYS = ['"2026-01-31"', '"2024-02-29"', '"2026-1-1"']
MONEY = ['"$842.15"', '"1.234,50 €"', '"EUR -2"', '"$1,234"', '"5"']
STATEMENTS = ['"select a from t"', '"delete from t; drop table a"', '"select a from t where"']
NUMERALS = ['"1,234.50"', '"1,234"', '"-0.5 "', '"1,2"', '"2"', '"+3"']
INSTANTS = [
    '"1970-01-12T14:46:40+01:00"',
    '"1970-01-13T13:46:40.5Z"',
    '"1970-01-12T13:46:40"',
    '"1970-02-30T00:00:00Z"',
]
LOCAL_TIMES = [
    '"1970-01-12 14:46:40", "Europe/Berlin"',
    '"1981-03-29T02:30", "Europe/Berlin"',
    '"1981-09-27 02:30:00.5", "Europe/Berlin"',
    '"1970-01-12 14:46:40", "-02:30"',
]
MESSAGES: list[Any] = [
    [],
    [{"role": "user", "content": "a"}],
    [{"role": "system", "content": "b"}, {"role": "user", "content": [{"type": "text", "text": "a"}, "b"]}],
    [{"role": "user", "content": "ab"}, {"role": "user", "content": [{"type": "image_url"}]}],
]
STATES: list[Any] = [
    {"stock": {"a": 1, "b": 2}, "owner": {"a": "a", "b": "b", "ab": "a"}, "open": True, "level": 2},
    {"stock": {"a": 3, "ab": 0.3}, "owner": {"a": "b"}, "open": False, "level": 0.1},
    {"stock": {}, "owner": {}, "level": None},
    None,
]
FACTS: list[Mapping[str, Any]] = [
    {"sure": True, "context": {"limit": 2, "who": "a", "xs": ["a", "b"]}},
    {"sure": False, "context": {"limit": 0.3, "who": "b", "xs": [1, 2]}},
    {"sure": None, "context": {"limit": "2"}},
    {},
]
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "stock": lambda state, name: state["stock"].get(name) if isinstance(name, str) else None,
    "owner": lambda state, name: state["owner"].get(name) if isinstance(name, str) else None,
    "is_open": lambda state: state.get("open"),
    "more": lambda state, left, right: left > right if type(left) is type(right) is int else None,  # of whole numbers
    "names": lambda state: list(state["stock"]),
}


@dataclass(frozen=True)
class Changed:
    """The state has changed."""

    state: Any


@dataclass(frozen=True)
class Ended:
    """The oldest call in flight has ended."""

    output: Any
    status: Literal["ok", "failed", "unknown"]


@dataclass(frozen=True)
class TrialCheck:
    """A check that reserves nothing."""

    call: Step


Move = Step | Changed | Ended | TrialCheck


@dataclass(frozen=True)
class Case:
    """A rule, a history and a proposed call. A step without a status is in flight."""

    rule: str
    facts: Mapping[str, Any]
    state: Any
    moves: Sequence[Move]
    call: Step
    principal: Mapping[str, Any] | None = None
    messages: Sequence[Any] = ()


@dataclass
class _Scope:
    """The names that a term can use.

    Attributes:
        variables: name -> the kind of value that it is probably bound to.
        calls: label -> whether a term can refer to the call's outcome.
    """

    variables: dict[str, str] = field(default_factory=dict)
    calls: dict[str, bool] = field(default_factory=dict)

    def copy(self) -> _Scope:
        return _Scope(dict(self.variables), dict(self.calls))


class Maker:
    """Generates random cases.

    Args:
        seed: equal seeds give equal cases.
    """

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)  # noqa: S311 - a fixed seed
        self._names = 0
        self._clock: Any = 1_000_000

    def one_of(self, *choices: Callable[[], str]) -> str:
        return self._chance.choice(choices)()

    def often(self, share: float) -> bool:
        return self._chance.random() < share

    def _new(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    # --- rules

    def rule(self) -> str:
        if self.often(0.7):
            return self._form()
        if self.often(0.2):
            return self._negated(self._form(), 1)
        parts = [self._negated(self.propositional() if self.often(0.3) else self._form()), self._negated(self._form())]
        joined = f"({parts[0]}) {self._chance.choice(['AND', 'OR', 'OR', '->'])} ({parts[1]})"
        return f"({joined}) {self._chance.choice(['AND', 'OR'])} ({self._form()})" if self.often(0.15) else joined

    def _negated(self, rule: str, share: float = 0.3) -> str:
        return f"NOT ({rule})" if self.often(share) else rule

    def propositional(self) -> str:
        first, second = (
            f"tool:{tool}" if self.often(0.6) else self._step(tool) for tool in self._chance.sample(TOOLS, 2)
        )
        return self._chance.choice(
            [f"G !{first}", f"F {first}", f"G({first} -> O {second})", f"F({first} && X F {second})"]
        )

    def _step(self, tool: str) -> str:
        """A call with a constant argument."""
        name = self._chance.choice(list(ARGUMENTS)[:3])
        kind = ARGUMENTS[name]
        text = self._regex() if kind == "text" and self.often(0.3) else self._literal(kind)
        return f"{tool}({name}={'.*' if self.often(0.2) else text})"

    def _form(self) -> str:
        return self._chance.choices(
            [self._forall, self._before, self._after, self._exists, self._seq], [32, 34, 16, 10, 8]
        )[0]()

    def _forall(self) -> str:
        scope = _Scope()
        return f"forall({self._pattern(scope, proposed=True)}, {self.truth(scope, 2)})"

    def _exists(self) -> str:
        scope = _Scope()
        pattern = self._pattern(scope, proposed=self.often(0.4))
        return f"exists({pattern}, {self.truth(scope, 2)})"

    def _before(self) -> str:
        scope = _Scope()
        first = self._pattern(scope, proposed=True)
        condition = self._maybe_truth(scope, 1)
        return f"before({first}, {condition}, {self._pattern(scope)}, {self._maybe_truth(scope, 2)})"

    def _after(self) -> str:
        scope = _Scope()
        first = self._pattern(scope, proposed=True)
        condition = self._maybe_truth(scope, 1)
        scope.calls = dict.fromkeys(scope.calls, True)
        return f"after({first}, {condition}, {self._pattern(scope)}, {self._maybe_truth(scope, 2)})"

    def _seq(self) -> str:
        scope = _Scope()
        return f"seq({', '.join(self._pattern(scope) for _ in range(self._chance.choice([2, 3])))})"

    # --- patterns

    def _pattern(self, scope: _Scope, *, proposed: bool = False) -> str:
        """A pattern; adds its names to the scope."""
        count = self._chance.choices([0, 1, 2], [25, 50, 25])[0]
        names = self._chance.choices(list(ARGUMENTS), [45, 25, 10, 10, 10], k=count)
        label = self._new("f") if self.often(0.7) else ""
        arguments = ", ".join(f"{name}={self._wanted(name, scope)}" for name in dict.fromkeys(names))
        if label:
            scope.calls[label] = not proposed
        return f"{label and label + ':'}{self._tools()}({arguments})"

    def _tools(self) -> str:
        if self.often(0.05):
            return "*"
        if self.often(0.15):
            return f"@{self._chance.choice(list(TAGS))}"
        return "|".join(self._chance.sample(TOOLS, 2 if self.often(0.2) else 1))

    def _wanted(self, name: str, scope: _Scope) -> str:
        kind = ARGUMENTS[name]
        if self.often(0.65):
            bound = [name for name, its in scope.variables.items() if its == kind or self.often(0.1)]
            if bound and self.often(0.7):
                return self._chance.choice(bound)
            variable = self._new("v")
            scope.variables[variable] = kind
            return variable
        if self.often(0.2) or kind in ("list", "mapping"):
            return ".*"
        return self._regex() if kind == "text" and self.often(0.3) else self._literal(kind)

    def _literal(self, kind: str) -> str:
        value = self._chance.choice(VALUES[kind])
        return f'"{value}"' if kind == "text" else str(value).lower()

    def _regex(self) -> str:
        return self._chance.choice(["/a.*/", "/[ab]/", "/b?/", r"/\w+/", "/A|a/", "/(a|ab)(b?)/"])

    # --- conditions

    def _maybe_truth(self, scope: _Scope, depth: int) -> str:
        return "True" if self.often(0.35) else self.truth(scope, depth)

    def truth(self, scope: _Scope, depth: int) -> str:
        """A condition."""
        if depth > 0 and self.often(0.45):
            return self.one_of(
                lambda: f"({self.truth(scope, depth - 1)} && {self.truth(scope, depth - 1)})",
                lambda: f"({self.truth(scope, depth - 1)} || {self.truth(scope, depth - 1)})",
                lambda: f"({self.truth(scope, depth - 1)} -> {self.truth(scope, depth - 1)})",
                lambda: f"!({self.truth(scope, depth - 1)})",
                lambda: f"known({self._term(scope, depth - 1)})",
                lambda: self._over_items(self._chance.choice(["all", "any"]), scope, depth - 1),
            )

        def number() -> str:
            return self.number(scope, depth - 1)

        def text() -> str:
            return self.text(scope, depth - 1)

        return self.one_of(
            lambda: f"{number()} {self._sign()} {number()}",
            lambda: f"{number()} {self._sign()} {number()}",
            lambda: f"{text()} {self._chance.choice(['==', '!=', '==', '<', '>='])} {text()}",
            lambda: f"{text()} == {text()}",
            lambda: f"{text()} in {self.items(scope, depth - 1)}",
            lambda: f"{self._term(scope, depth - 1)} in {self.items(scope, depth - 1)}",
            lambda: f"{self.items(scope, depth - 1)} in {self._nested_list(scope)}",
            lambda: (
                f"{self._chance.choice(['any', 'all'])}(c in commands({self._chance.choice(COMMANDS)}), "
                f"{self._chance.choice(OF_COMMAND)})"
            ),
            lambda: f"{text()} matches {self._regex()}",
            lambda: f"{self._term(scope, depth)} == {self._term(scope, depth)}",
            lambda: f"known({self._term(scope, depth)})",
            lambda: f"failed({self._call(scope, depth, outcome=True)})",
            lambda: f"!failed({self._call(scope, depth, outcome=True)})",
            lambda: f'tool({self._call(scope, depth, outcome=False)}) == "{self._chance.choice(TOOLS)}"',
            lambda: self._chance.choice(
                ["state(is_open())", "fact(sure)", "state.open == true", "true", "false", *ROLES]
            ),
            lambda: f"state(more({number()}, {number()}))",
            lambda: f"{self._of_call(scope, depth)}.on",
            lambda: f"{self._chance.choice(['starts_with', 'ends_with'])}({text()}, {text()})",
            lambda: (
                f"has({self._of_call(scope, depth)}, {self.one_of(lambda: repr('k'), lambda: self.text(scope, 0))})"
            ),
            lambda: f"mentions({self._searched(scope, depth - 1)}, {self.one_of(text, text, number)})",
            lambda: self._some(scope, depth - 1, number),
            lambda: self._some(scope, depth - 1, number),
            lambda: f"{self._duration(scope, depth)} {self._sign()} {self._chance.choice([*DURATIONS, *'0123'])}",
            lambda: f"date(now) == date(time({self._call(scope, depth, outcome=True)}))",
        )

    def _some(self, scope: _Scope, depth: int, number: Callable[[], str]) -> str:
        if depth < 0 or len(scope.calls) > 2:
            return f"{number()} {self._sign()} {number()}"
        return self.one_of(
            lambda: self._history("some", scope, depth),
            lambda: self._history("previous", scope, depth),
            lambda: self._since(scope, depth),
            lambda: f"{self._chance.choice(['', '!'])}{self._history('pending', scope, depth)}",
        )

    def _since(self, scope: _Scope, depth: int) -> str:
        inner = scope.copy()
        pattern, other = self._pattern(inner), self._pattern(scope.copy())
        condition = "" if depth < 0 or self.often(0.6) else f", {self._about(inner, depth)}"
        within = f", within {self._window(scope)}" if self.often(0.2) else ""
        return f"since({pattern}, !{other}{condition}{within})"

    def _searched(self, scope: _Scope, depth: int) -> str:
        return self.one_of(
            lambda: self._of_call(scope, depth), lambda: self.text(scope, depth), lambda: self.items(scope, depth)
        )

    def _sign(self) -> str:
        return self._chance.choice(["==", "!=", "<", "<=", ">", ">="])

    def _term(self, scope: _Scope, depth: int) -> str:
        return self.one_of(
            lambda: self.number(scope, depth),
            lambda: self.text(scope, depth),
            lambda: self.items(scope, depth),
            lambda: self._of_call(scope, depth),
            lambda: "state",
            lambda: f"({self.truth(scope, depth - 1)})" if depth > 0 else "fact(sure)",
        )

    def _variable(self, scope: _Scope, kind: str, otherwise: str) -> str:
        bound = [name for name, its in scope.variables.items() if its == kind or self.often(0.05)]
        return self._chance.choice(bound) if bound else otherwise

    def number(self, scope: _Scope, depth: int) -> str:
        choices: list[Callable[[], str]] = [
            lambda: self._literal("number"),
            lambda: self._literal("number"),
            lambda: self._variable(scope, "number", "fact(context.limit)"),
            lambda: self._variable(scope, "number", f"{self._of_call(scope, depth)}.k"),
            lambda: f"{self._of_call(scope, depth)}.k",
            lambda: f"{self._of_call(scope, depth, 'args')}.n",
            lambda: self._chance.choice(["fact(context.limit)", "state.level"]),
            lambda: f"state(stock({self.text(scope, depth - 1)}))",
            lambda: f"{self._rows(scope, depth)}[k = {self._literal('number')}].k",
            lambda: f"[args({self._call(scope, depth, outcome=False)}).doc][s = {self._literal('text')}].k",
            lambda: f"len({self.items(scope, depth - 1)})",
            lambda: f"len({self.text(scope, depth - 1)})",
            lambda: f"{self.items(scope, depth - 1)}[{self._chance.choice('012')}]",
        ]
        deeper: list[Callable[[], str]] = [
            lambda: self._history("count", scope, depth - 1),
            lambda: self._history("count", scope, depth - 1),
            lambda: self._history("sum", scope, depth - 1),
            lambda: self._history("distinct", scope, depth - 1),
            lambda: self._duration(scope, depth - 1),
            lambda: self._over_items("count", scope, depth - 1),
            lambda: f"({self.number(scope, depth - 1)} {self._chance.choice('+-*/%')} {self.number(scope, depth - 1)})",
            lambda: f"-({self.number(scope, depth - 1)})",
            lambda: f"abs({self.number(scope, depth - 1)})",
            lambda: f"min({self.number(scope, depth - 1)}, {self.number(scope, depth - 1)})",
            lambda: f"max({self.items(scope, depth - 1)})",
            lambda: f"money({self._chance.choice(MONEY)}).amount",
            lambda: f"number({self._chance.choice([*NUMERALS, self.text(scope, depth - 1)])})",
        ]
        return self.one_of(*choices, *(deeper if depth >= 0 and len(scope.calls) < 3 else []))

    def _rows(self, scope: _Scope, depth: int) -> str:
        docs = [f"{self._of_call(scope, depth, 'args')}.doc" for _ in range(self._chance.choice([1, 2]))]
        return f"[{', '.join(docs)}]"

    def _duration(self, scope: _Scope, depth: int) -> str:
        """A number about the time."""
        return self.one_of(
            lambda: f"(now - time({self._call(scope, depth, outcome=True)}))",
            lambda: f"(now - time({self._call(scope, depth, outcome=True)}))",
            lambda: "elapsed",
            lambda: self._chance.choice(["hour(now)", "minute(now)", 'weekday(now, "UTC")', "hour(now - 90m)"]),
            lambda: self._chance.choice(DURATIONS),
            lambda: f"(now - time({self._chance.choice([*INSTANTS, *LOCAL_TIMES, self.text(scope, depth - 1)])}))",
        )

    def text(self, scope: _Scope, depth: int) -> str:
        return self.one_of(
            lambda: self._literal("text"),
            lambda: self._variable(scope, "text", "fact(context.who)"),
            lambda: self._variable(scope, "text", f"{self._of_call(scope, depth)}.s"),
            lambda: f"{self._of_call(scope, depth)}.s",
            lambda: f"{self._of_call(scope, depth, 'args')}.id",
            lambda: self._chance.choice(["fact(context.who)", "text(user)"]),
            lambda: f"state(owner({self.text(scope, 0) if depth > 0 else self._literal('text')}))",
            lambda: f'date({self._chance.choice(DATES)}, "MM/DD/YYYY")',
            lambda: f"add_months({self._chance.choice(DAYS)}, {self._variable(scope, 'number', '1')})",
            lambda: f"add_days({self._chance.choice(DAYS)}, {self._variable(scope, 'number', '1')})",
            lambda: f"lower({self.text(scope, 0) if depth > 0 else self._literal('text')})",
            lambda: f"({self._literal('text')} + {self.text(scope, 0) if depth > 0 else self._literal('text')})",
        )

    def items(self, scope: _Scope, depth: int) -> str:
        return self.one_of(
            lambda: f"{self._of_call(scope, depth)}.xs",
            lambda: f'{self._of_call(scope, depth, "args")}["xs"]',
            lambda: self._variable(scope, "list", "fact(context.xs)"),
            lambda: "state(names())",
            lambda: f"[{self._literal('text')}, {self._variable(scope, 'text', self._literal('text'))}]",
            lambda: f"[{self._literal('number')}, {self._literal('number')}, {self._literal('text')}]",
            lambda: f"[{self._variable(scope, 'number', '1')}, 1]",
            lambda: f"{self._chance.choice(['keys', 'values'])}({self._of_call(scope, depth)})",
            lambda: f"{self._chance.choice(['links', 'emails'])}({self.text(scope, 0 if depth > 0 else -1)})",
            lambda: f"tokens({self.text(scope, 0 if depth > 0 else -1)})",
            lambda: f"find({self.text(scope, 0 if depth > 0 else -1)}, {self._regex()})",
            lambda: self._chance.choice(
                [f"commands({text})" for text in COMMANDS] + [f"statements({text})" for text in STATEMENTS]
            ),
            lambda: f"{self._chance.choice(LISTED)}[{self._chance.choice(SLICES)}]",
            lambda: f"{self._chance.choice(LISTED)}[1:{self._variable(scope, 'number', '1')}]",
            lambda: self._nested_list(scope),
        )

    def _nested_list(self, scope: _Scope) -> str:
        return f"[[{self._literal('number')}, 2], [{self._variable(scope, 'number', '3')}], [1, 2]]"

    def _call(self, scope: _Scope, depth: int, *, outcome: bool) -> str:
        """A reference to a call whose outcome or arguments are in scope."""
        labels = [label for label, known in scope.calls.items() if known or not outcome]
        if labels and (depth <= 0 or len(scope.calls) > 2 or self.often(0.75)):
            return self._chance.choice(labels)
        return self._history(self._chance.choice(["first", "last"]), scope, depth - 1)

    def _of_call(self, scope: _Scope, depth: int, what: str = "") -> str:
        what = what or self._chance.choice(["output", "output", "args"])
        call = f"{what}({self._call(scope, depth, outcome=what == 'output')})"
        return f"{call}.doc" if what == "args" and self.often(0.4) else call

    def _history(self, which: str, scope: _Scope, depth: int) -> str:
        inner = scope.copy()
        pattern = self._pattern(inner)
        condition = "true" if depth < 0 or self.often(0.4) else self._about(inner, depth)
        summed = f", {self._summed(inner, depth)}" if which in ("sum", "distinct") else ""
        timed = which in ("count", "sum", "some", "distinct") and self.often(0.3)
        within = f", within {self._window(scope)}" if timed else ""
        return f"{which}({pattern}, {condition}{summed}{within})"

    def _window(self, scope: _Scope) -> str:
        return self._variable(scope, "number", "(0s * 1)") if self.often(0.1) else self._chance.choice(DURATIONS)

    def _about(self, scope: _Scope, depth: int) -> str:
        """A condition that probably uses the last labelled call."""
        label = list(scope.calls)[-1] if scope.calls else ""
        if not label or not scope.calls[label] or self.often(0.3):
            return self.truth(scope, min(depth, 1))
        own = self.one_of(
            lambda: f"args({label}).id == {self.text(scope, -1)}",
            lambda: f"{self.number(scope, -1)} == args({label}).n",
            lambda: f"output({label}).s == {self._variable(scope, 'text', 'fact(context.who)')}",
            lambda: f"output({label}).k {self._sign()} {self.number(scope, -1)}",
            lambda: f"!failed({label})",
            lambda: f"failed({label})",
        )
        return f"{own} && {self.truth(scope, 0)}" if self.often(0.25) else own

    def _summed(self, scope: _Scope, depth: int) -> str:
        label = list(scope.calls)[-1] if scope.calls else ""
        if label and scope.calls[label] and self.often(0.6):
            return f"args({label}).n"
        return self.number(scope, min(depth, 0))

    def _over_items(self, which: str, scope: _Scope, depth: int) -> str:
        inner, name = scope.copy(), self._new("x")
        inner.variables[name] = self._chance.choice(["number", "text"])
        condition = self.one_of(
            lambda: f"{name} {self._sign()} {self._literal('number')}",
            lambda: f"{name} == {self._literal('text')}",
            lambda: f"known({name})",
            lambda: self.truth(inner, min(depth, 0)),
        )
        return f"{which}({name} in {self.items(scope, depth)}, {condition})"

    # --- calls

    def case(self, rule: str) -> Case:
        moves: list[Move] = []
        for _ in range(self._chance.choice([0, 1, 2, 3, 4, 5, 6, 8])):
            moves += [Changed(self.state())] if self.often(0.15) else []
            moves += [Ended(*self._outcome())] if self.often(0.15) else []
            moves.append(self.step(rule))
        return Case(
            rule,
            self.facts(),
            self.state(),
            moves,
            self._proposed(rule),
            self._chance.choice(PRINCIPALS),
            self._chance.choice(MESSAGES),
        )

    def step(self, rule: str) -> Step:
        output, status = (None, None) if self.often(0.15) else self._outcome()
        facts = self.facts() if self.often(0.1) else {}
        time = None if status and self.often(0.05) else self._later()
        return Step(self._tool(rule), self.args(), output, status, facts, time=time)

    def _later(self) -> Any:
        """The time of the next call; times never decrease."""
        self._clock += self._chance.choice(PAUSES)
        return self._clock

    def _outcome(self) -> tuple[Any, Any]:
        return self._chance.choice(OUTPUTS), self._chance.choices(["ok", "failed", "unknown"], [68, 19, 13])[0]

    def _tool(self, rule: str) -> str:
        named = [tool for tool in TOOLS if re.search(rf"\b{tool}\b", rule)] or TOOLS
        return self._chance.choice([*TOOLS, "other"]) if self.often(0.15) else self._chance.choice(named)

    def _proposed(self, rule: str) -> Step:
        """A proposed call, mostly of the first tool in the rule."""
        named = sorted((match.start(), tool) for tool in TOOLS if (match := re.search(rf"\b{tool}\b", rule)))
        tool = named[0][1] if named and self.often(0.85) else self._tool(rule)
        time = None if self.often(0.05) else self._later()
        return Step(tool, self.args(), facts=self.facts() if self.often(0.1) else {}, time=time)

    def args(self) -> dict[str, Any]:
        return {name: self._value(kind) for name, kind in ARGUMENTS.items() if self.often(0.85)}

    def _value(self, kind: str) -> Any:
        """A value, mostly of the expected kind; sometimes null, similar, or of another kind."""
        odd: list[Any] = self._chance.choices([VALUES[kind], [None], NEAR.get(kind, ODD), ODD], [84, 4, 7, 5])[0]
        return self._chance.choice(odd)

    def facts(self) -> Mapping[str, Any]:
        return self._chance.choices(FACTS, [4, 4, 1, 1])[0]

    def state(self) -> Any:
        return self._chance.choices(STATES, [4, 4, 1, 1])[0]
