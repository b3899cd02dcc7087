"""A screen leaves out only monitors that report nothing, on random rules and calls of all types of values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from enum import IntEnum, StrEnum
from fractions import Fraction
from random import Random
from types import MappingProxyType
from typing import Any

import pytest

from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.evaluation.operands import CompileError
from guardagent.policy.language.grammar import TemporalError
from guardagent.policy.load import compile_rules
from guardagent.policy.policies import Policies
from guardagent.session.session import Session
from guardagent.types import Event, freeze
from tests.policy.data_cases import FUNCTIONS, NUMBERS, STATES, TAGS, Maker
from tests.tiers import slow_after

RULES = 200  # in each of the runs
RUNS = 8
LEAST = 0.5  # the minimum share of kept rules that the screen finds, of those over arguments and facts


class _Text(str):
    """A subclass that equals everything."""

    __slots__ = ()

    def __eq__(self, _other: object) -> bool:
        return True

    def __ne__(self, _other: object) -> bool:
        return False

    __hash__ = str.__hash__


class _Raising(str):
    """A subclass that cannot be compared."""

    __slots__ = ()

    def __eq__(self, _other: object) -> bool:
        raise ZeroDivisionError

    __hash__ = str.__hash__


class _Name(StrEnum):
    A = "a"


class _Number(IntEnum):
    ONE = 1


class _Record(Mapping[str, Any]):
    """A mapping that is no dict."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


SCALARS: list[Any] = [
    *NUMBERS, *NUMBERS, "a", "b", "ab", "A", " a ", "", "1", "true", "ä", "\ud800", "a\n", "a" * 2000, True, False,
    None, 0, 1, -1, 500, 10**23, 2**53, 2**53 + 1, -(2**53) - 1, 10**400, 0.1, 0.5, 0.30000000000000004, 1e23, -0.0,
    1e308, 5e-324, float("nan"), float("inf"), float("-inf"),
]  # fmt: skip
ODD: list[Any] = [
    Decimal("0.5"), Decimal("NaN"), Decimal(1), Fraction(1, 3), b"a", object, _Text("a"), _Name.A, _Number.ONE, 1j,
    [1, "a"], ("a", "b"), [], {}, {"k": 1, "s": "a"}, MappingProxyType({"k": "a"}), _Record({"k": 1}), [_Text("a")],
    '{"k": 1}', [[[]]],
]  # fmt: skip
LITERALS = [
    "0", "1", "-1", "2.5", "0.5", "0.1", "0.3", "500", "9007199254740992", "9007199254740993", "1" + "0" * 23, "true",
    "false", '"a"', '"b"', '"ab"', '""', "99999999999999991611392",
]  # fmt: skip
FACTS: list[Mapping[str, Any]] = [
    {"n": 1, "s": "a", "on": True, "user": {"id": "a", "n": 2.5}, "names": ["a", "b"], "mixed": ["a", 1]},
    {"n": 0.5, "s": "ab", "on": False, "user": {"id": None}, "names": [], "mixed": "ab"},
    {"n": Decimal("0.5"), "s": None, "user": '{"id": "a"}'},
    {},
]
ARGUMENTS = ("x", "y", "z")


class _RuleMaker:
    """Makes random rules of the forms that screens know, and of some that they do not know."""

    def __init__(self, chance: Random) -> None:
        self._one = chance.choice
        self._chance = chance

    def rule(self) -> str:
        pattern = self._one(
            ["f:pay(x=a, y=b)", 'f:pay(x=a, y=b, z="a")', "f:pay(x=a, y=b, z=/a|b+/)", "f:pay(x=a, y=b, z=a)",
             "f:pay(x=a, y=b, z=1)", "f:pay(x=a, y=b, z=true)", "f:pay(x=a, y=b, z=.*)"],
        )  # fmt: skip
        if self._chance.random() < 0.2:
            partner = self._one(
                ["get(x=a), true", "get(), true", "get(x=1), true", "get(x=a, y=b), true", "g:get(), args(g).y == b",
                 "g:get(x=a), args(g).y == b", 'g:get(y=b), output(g) != "b"', "g:get(x=b), args(g).y < a"],
            )  # fmt: skip
            return f"before({pattern}, {self.condition(1)}, {partner})"
        return f"forall({pattern}, {self.condition(3)})"

    def condition(self, depth: int) -> str:
        if depth > 0 and self._chance.random() < 0.5:
            first, second = self.condition(depth - 1), self.condition(depth - 1)
            return self._one(
                [f"({first} && {second})", f"({first} || {second})", f"({first} -> {second})", f"!({first})"]
            )
        return self._one([self._comparison, self._comparison, self._comparison, self._other])()

    def _comparison(self) -> str:
        other = self._one([self._value, self._literal])
        return f"{self._value()} {self._one(['==', '!=', '<', '<=', '>', '>='])} {other()}"

    def _literal(self) -> str:
        return self._one(LITERALS)

    def _other(self) -> str:
        value, first = self._value(), self._literal()
        literals = [first, *(literal for literal in (self._literal() for _ in range(4)) if _is_list(first, literal))]
        return self._one([
            f"{value} in [{', '.join(literals)}]", f'{value} in ["a", "ab"]', f"{value} in [1, 0.5, 2]",
            f"{value} matches /a+b?/", f"{value} matches /[^a]*/", f"known({value})", f"{value}", "true",
            f"{value} in fact(names)", f"{value} in fact(mixed)", f'"a" in {value}', f"{value} in args(f).z",
            f"len({value}) <= {self._one(['0', '1', '2'])}", f"{value} + {self._value()} <= 2", f"{value} * 2 > len(b)",
            f"{value} / 2 == 1", f"{self._literal()} < {value}", f"1 == {value}", 'state(owner("a")) == a',
        ])  # fmt: skip

    def _value(self) -> str:
        return self._one(
            ["a", "b", "a", "b", "args(f).x", "args(f).z", "args(f).x.k", "fact(n)", "fact(s)", "fact(on)",
             "fact(user.id)", "fact(user).n", "a.k"]
        )  # fmt: skip


def _is_list(*literals: str) -> bool:
    """Whether literals are of one kind, as those of a list that `in` searches are."""
    return (
        len(
            {
                "text" if literal[0] == '"' else "truth" if literal in ("true", "false") else "number"
                for literal in literals
            }
        )
        == 1
    )


def _args(chance: Random) -> Any:
    values = SCALARS if chance.random() < 0.8 else ODD
    args = {name: chance.choice(values) for name in ARGUMENTS if chance.random() < 0.9}
    return _Record(args) if chance.random() < 0.05 else args


def _policies(rules: list[str]) -> Policies:
    policies = compile_rules(rules, functions=FUNCTIONS, tags=TAGS)
    policies.warm_up()
    return policies


def _compare(session: Session, call: SessionCall, seen: Counter[str], about: object) -> None:
    """Asserts that each monitor that the screen leaves out reports nothing, and keeps their order."""
    conversation = session._conversation  # verdicts do not show which monitors the screen left out
    context, memory = conversation.context, conversation._memory
    applicability = session.policies.applicability(call)
    context.refresh(call.facts)
    left = applicability.screen.remaining(context, call, memory)
    assert list(left) == [monitor for monitor in applicability.monitors if monitor in left]
    for number, monitor in applicability.monitors:
        if (number, monitor) not in left:
            seen["screened"] += 1
            assert monitor.judge(context, call, memory[number]) is None, (
                about,
                session.policies.rule_of[number].source,
            )
            continue
        try:
            seen["missed"] += monitor.judge(context, call, memory[number]) is None
        except Exception:  # noqa: BLE001 - it then denies
            seen["crashed"] += 1


def test_no_value_is_mistaken() -> None:
    """Each condition with each value, alone and negated."""
    conditions = [f"a {operator} {literal}" for literal in LITERALS for operator in ("==", "!=", "<", "<=", ">", ">=")]
    conditions += [
        f"a in [{literal}, {other}]" for literal in LITERALS for other in LITERALS[:9] if _is_list(literal, other)
    ]
    conditions += ["known(a)", "known(a.k)", "known(args(f).x.s)", "a", "a matches /a*/", "len(a) == 1", "a.k == 1"]
    rules = [f"forall(f:pay(x=a), {text})" for condition in conditions for text in (condition, f"!({condition})")]
    rules += [f"forall(f:pay(x={literal}), false)" for literal in LITERALS]
    session, seen = _policies(rules).session(), Counter[str]()
    for value in (*SCALARS, *ODD):
        _compare(session, SessionCall("pay", {"x": value}), seen, value)
    _compare(session, SessionCall("pay", {}), seen, "missing")
    assert seen["screened"] > LEAST * (seen["screened"] + seen["missed"])


@pytest.mark.parametrize("run", slow_after(1, range(RUNS)))
def test_monitors_left_out_report_nothing(run: int) -> None:
    """Of the rules that hold, most are left out."""
    seen = Counter[str]()
    for seed in range(run * RULES, (run + 1) * RULES):
        chance = Random(seed)  # noqa: S311 - a fixed seed
        rules = [_RuleMaker(chance).rule() for _ in range(3)]
        facts = chance.choice(FACTS)
        session = _policies(rules).session(state=STATES[0], facts=facts)
        for _ in range(chance.choice([0, 2])):
            outcome: Any = chance.choice(["ok", "ok", "failed", "unknown"])
            session.observe(Event("get", _args(chance), chance.choice(SCALARS), outcome), judge=False)
        if chance.random() < 0.3:
            session.check("get", {"x": "a", "y": 1})
        for _ in range(6):
            call = SessionCall("pay", _args(chance), 9)
            call.facts = freeze(facts)
            _compare(session, call, seen, (seed, rules, call.args, facts))
    assert seen["screened"] > LEAST * (seen["screened"] + seen["missed"])


@pytest.mark.parametrize("run", slow_after(1, range(RUNS)))
def test_monitors_of_every_form_agree_with_the_screen(run: int) -> None:
    seen = Counter[str]()
    for seed in range(run * RULES, (run + 1) * RULES):
        maker = Maker(seed)
        try:
            policies = _policies([maker.rule(), maker.propositional()])
        except (CompileError, TemporalError):
            continue
        state, facts = maker.state(), maker.facts()
        session = policies.session(state=state, facts=facts)
        for _ in range(4):
            event = maker.step("pay get note refund")
            session.observe(Event(event.tool, event.args, event.output, event.outcome or "ok"), judge=False)
            call = SessionCall(event.tool, maker.args(), 9)
            call.facts = freeze(facts)
            _compare(session, call, seen, (seed, policies.rules[0].source.text, call.args))
    assert seen["screened"]


def test_errors_of_a_screen_leave_all_monitors() -> None:
    """A string that no regular expression can read is decided by the rule, which finds it unknown."""
    session = _policies(["forall(pay(x=a), a matches /a*/)"]).session()
    verdict = session.check("pay", {"x": "\ud800"})
    assert verdict.label
    assert "not valid Unicode" in verdict.errors[0]


def test_an_error_before_a_kept_condition_denies() -> None:
    """A screen does not look behind a term that can raise an error."""

    def broken(_state: Any) -> None:
        raise ZeroDivisionError

    rules = ["forall(pay(x=a), (a == 2 || state(broken()) == 1) || a == 1)", "forall(pay(x=a), a < 9)"]
    policies = compile_rules(rules, functions={"broken": broken})
    policies.warm_up()
    session = policies.session(state={})
    assert session.check("pay", {"x": 2}).label == 0
    assert session.check("pay", {"x": 1}).errors


def test_an_error_of_a_value_denies() -> None:
    """A screen does not look at values of other types than JSON's, whose comparison can raise an error."""
    policies = _policies(['forall(pay(x=a, y=b), a == "a" || b == 1)'])
    assert policies.session().check("pay", {"x": "b", "y": 1}).label == 0
    assert policies.session().check("pay", {"x": _Raising("b"), "y": 1}).errors


def test_a_clock_that_goes_back_denies_behind_a_screen_too() -> None:
    """The condition decides without the time of day, but the clock cannot be trusted."""
    for warmed in (False, True):
        policies = compile_rules(["forall(f:refund(amount=a), a <= 500 || hour(now) < 18)"])
        if warmed:
            policies.warm_up()
        times = iter([1_800_000_000.0, 1_700_000_000.0])
        session = policies.session(clock=lambda: next(times))  # noqa: B023 - used within the iteration
        assert [session.check("refund", {"amount": 1}).label for _ in range(2)] == [0, 1]
