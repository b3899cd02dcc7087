"""A compiled history term, which asks for past calls: its conditions, and what decides them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from guardagent.policy.evaluation.probes import KeyProbe
from guardagent.policy.language.values import Truth, Unknown, conjunction, equal

Env = list[Any]  # slot 0: the RuleContext; then the values of a rule's names
Term = Callable[[Env], Any]


class PastCall(Protocol):
    """The parts of a call that indexes and the recorder of sources read."""

    tool: str
    args: Any
    place: int
    output: Any
    time: int | None

    @property
    def status(self) -> str | None: ...

    @property
    def assumed_status(self) -> str | None: ...

    @property
    def may_be_withdrawn(self) -> bool: ...

    @property
    def provenance(self) -> Any: ...


class Narrowing(NamedTuple):
    """The compiled plan of the residual conditions of a history query.

    Attributes:
        mode: the slot of the prober in the environment; None there decides the conditions for a check.
        values: the slot of known values of `own` in the environment; None there computes them.
        probes: the probes, each with the value of the check.
        own: the terms that tell calls apart.
        fallible: the terms of the check that can raise an error.
    """

    mode: int
    values: int
    probes: Sequence[tuple[KeyProbe, Term]]
    own: Sequence[Term]
    fallible: Sequence[Term]


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """A compiled history term.

    Attributes:
        tools: the tools of the pattern.
        size: the size of the environment.
        label: the slot of the past call.
        required: the arguments that a past call must have.
        binders: (slot of a variable, the argument that binds it).
        own_conditions: the conditions on the past call alone.
        variable_equations: the equations of variables: (slot of the variable, the argument that it equals).
        equations: (side that depends on the past call alone, side that is independent of it).
        residual_conditions: the other conditions.
        ok_only: whether only successful calls count.
        term: the summand, if it depends on the past call alone; otherwise `late_term` is set.
        window: the start of the time window, in microseconds since the epoch; None for all calls.
        narrowing: how to find the calls for which the residual conditions must be decided; None for all calls.
        deferred_by: the argument that is the only index key, if the own conditions can be decided when a query asks
            for that key: they can neither fail nor have an effect. None decides them when the outcome is recorded.
        distinct: whether the different values of the term are counted, in place of their sum.
        in_flight: whether only calls in flight count.
    """

    tools: frozenset[str]
    size: int
    label: int
    required: tuple[str, ...]
    binders: tuple[tuple[int, str], ...]
    own_conditions: tuple[Term, ...]
    variable_equations: tuple[tuple[int, str], ...]
    equations: tuple[tuple[Term, Term], ...]
    residual_conditions: tuple[Term, ...]
    ok_only: bool = False
    term: Term | None = None
    late_term: Term | None = None
    window: Term | None = None
    narrowing: Narrowing | None = None
    deferred_by: str | None = None
    distinct: bool = False
    in_flight: bool = False

    @property
    def decided_by_key(self) -> bool:
        """Whether all settled calls with the same index key match alike."""
        return not self.residual_conditions and self.window is None

    def bind(self, env: Env, call: PastCall) -> bool:
        """Binds a past call and its arguments; false if it lacks an argument."""
        args = call.args
        for name in self.required:
            if name not in args:
                return False
        env[self.label] = call
        if self.narrowing is not None:
            env[self.narrowing.values] = None
        for slot, name in self.binders:
            value = args[name]
            env[slot] = Unknown(f"{name!r} of {call.tool} is null") if value is None else value
        return True

    def judge(self, env: Env, call: PastCall) -> Truth:
        """Decides all conditions for a past call."""
        if not self.bind(env, call):
            return False
        conditions = [test(env) for test in self.own_conditions]
        conditions += [equal(own(env), other(env)) for own, other in self.equations]
        if any(value is False for value in conditions):  # as for an indexed call, the residual conditions do not matter
            return False
        conditions += [test(env) for test in self.residual_conditions]
        if self.window is not None:
            conditions.append(in_window(call, self.window(env)))
        return conjunction(conditions)

    def judge_entry(self, env: Env, entry: IndexEntry, *, is_keyed: bool) -> Truth:
        """Decides whether an indexed call matches. `is_keyed`: it satisfies the equations."""
        truth = self.decide(env, entry, is_keyed=is_keyed)
        return truth if entry.own is True else conjunction([entry.own, truth])

    def decide(self, env: Env, entry: IndexEntry, *, is_keyed: bool, values: Sequence[Any] | None = None) -> Truth:
        """Decides all but the own conditions for an indexed call. `values`: those that are known of it."""
        if is_keyed and not self.residual_conditions:  # the common case
            return True
        self.bind(env, entry.call)
        if values is not None and self.narrowing is not None:
            env[self.narrowing.values] = values
        equations = () if is_keyed else self.equations
        joined = [equal(own(env), other(env)) for own, other in equations]
        return conjunction([*joined, *(test(env) for test in self.residual_conditions)])


def in_window(call: PastCall, start: int | Unknown) -> Truth:
    """Whether a call is in a window that starts at a moment."""
    if type(start) is Unknown:
        return start
    if call.time is None:
        return Unknown(f"the time of {call.tool!r} (call {call.place}) is unknown")
    return call.time >= start  # type: ignore[operator]


class IndexEntry(NamedTuple):
    """An indexed call. `own`: its own conditions are true or unknown."""

    place: int
    call: Any
    own: Truth
