"""The scopes of a policy: whose calls it judges (`applies_to:`), who may approve them (`escalate_to:`), and how many.

A grant covers calls of one tool. Each argument of such a call has the value of the call that the reviewer saw, or is a
number within a bound, or may have any value; a call with another argument is not covered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from guardagent.errors import InputError
from guardagent.policy.evaluation.counters import CountedAmount, CounterKey, Number, counted_number
from guardagent.policy.language.values import Unknown
from guardagent.types import format_value
from guardagent.types.values import ASSIGNED


@dataclass(frozen=True, slots=True)
class Scope:
    """The calls that a policy judges. Each given set must match; None matches everyone.

    Attributes:
        roles: the principal has one of these roles.
        tenants: the principal is of one of these tenants.
        agents: one of these agents proposes the call.
        excluded: calls that the policy does not judge.
    """

    roles: frozenset[str] | None = None
    tenants: frozenset[str] | None = None
    agents: frozenset[str] | None = None
    excluded: Scope | None = None

    def covers(self, principal: Mapping[str, Any] | None, agent: str | None) -> bool:
        """Whether a policy judges a call. It does if the principal or the agent is unknown.

        It also does for a role that the call has given up, or that only one of two principals has.
        """
        within, outside = self.matches(principal, agent, ASSIGNED), self.excluded
        return within is not False and (outside is None or outside.matches(principal, agent, "roles") is not True)

    def permits(self, principal: Mapping[str, Any] | None, agent: str | None) -> bool:
        """Whether a policy surely judges a call by its effective roles, so that it lists its tools for this call."""
        within, outside = self.matches(principal, agent, "roles"), self.excluded
        return within is True and (outside is None or outside.matches(principal, agent, ASSIGNED) is False)

    def matches(self, principal: Mapping[str, Any] | None, agent: str | None, roles: str) -> bool | None:
        """Whether a call matches the sets; None if it is unknown. `roles`: the key of the roles that count."""
        known = principal or {}
        matches = (
            _meets(self.roles, known.get(roles, known.get("roles"))),
            _meets(self.tenants, None if known.get("tenant") is None else (known["tenant"],)),
            _meets(self.agents, None if agent is None else (agent,)),
        )
        return False if False in matches else None if None in matches else True


@dataclass(frozen=True, slots=True)
class EscalationStage:
    """The approvers of a call that violates a policy, and the time after which the next stage takes over.

    Attributes:
        roles: the groups of approvers; None for every approver.
        quorum: how many of them have to agree; None for the server's setting.
        deadline: how many seconds they have; None for the server's setting.
    """

    roles: tuple[str, ...] | None = None
    quorum: int | None = None
    deadline: float | None = None


def _meets(wanted: frozenset[str] | None, values: tuple[str, ...] | None) -> bool | None:
    if wanted is None:
        return True
    return None if values is None else not wanted.isdisjoint(values)


# --- the calls that one approval may allow (`approvals:`), and grants of them

SUM = "sum"
"""The name in `up_to` of the bound of the total over a grant."""

REVOKED = "revoked"
"""The counter of the revocations of a grant. Each use reads it: a call is allowed before the revocation, or never."""

_KEPT = 86_400.0  # seconds for which uses count beyond the end of a grant, should the clocks of servers differ


@dataclass(frozen=True, slots=True)
class ApprovalScope:
    """The calls that a reviewer may grant, or has granted.

    Attributes:
        tool: the tool, as rules name it.
        same: the arguments that have the values of the call that the reviewer saw.
        up_to: the most for each numeric argument of a call; `sum` is the most for the total over all calls.
        any: the arguments that may have any value, or be missing.
        calls: the number of calls.
        seconds: the length of the grant.
    """

    tool: str
    same: tuple[str, ...]
    up_to: Mapping[str, int | float] = field(hash=False)
    any: tuple[str, ...]
    calls: int
    seconds: float

    @property
    def bounded(self) -> tuple[str, ...]:
        """The numeric arguments with a bound; with a total, there is one."""
        return tuple(name for name in self.up_to if name != SUM)

    @property
    def limits(self) -> dict[str, int | float]:
        """The most that all calls together may use: `calls`, and the total `sum` if it has a bound."""
        return {"calls": self.calls} | ({SUM: self.up_to[SUM]} if SUM in self.up_to else {})

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> ApprovalScope:
        """Returns the scope with this JSON."""
        same, up_to, free = tuple(content["same"]), MappingProxyType(content["up_to"]), tuple(content["any"])
        return cls(content["tool"], same, up_to, free, content["calls"], content["for"])

    @property
    def content(self) -> dict[str, Any]:
        """The scope as JSON."""
        lists = {"same": list(self.same), "up_to": dict(self.up_to), "any": list(self.any)}
        return {"tool": self.tool, **lists, "calls": self.calls, "for": self.seconds}

    def uses(self, tool: str, args: Mapping[str, Any]) -> dict[str, Number] | None:
        """Returns what a call uses up of the limits; None if it is not covered, whatever the values in `same` are."""
        if tool != self.tool or not {*self.same} <= args.keys() <= {*self.same, *self.bounded, *self.any}:
            return None
        amounts = [(counted_number(args.get(name)), self.up_to[name]) for name in self.bounded]
        fitting = [amount for amount, bound in amounts if not isinstance(amount, Unknown) and amount <= _exact(bound)]
        if len(fitting) < len(amounts):
            return None
        return {"calls": 1} | ({SUM: fitting[0]} if SUM in self.up_to else {})

    def narrowed(self, terms: Mapping[str, Any]) -> ApprovalScope:
        """Returns the scope with lower bounds.

        Args:
            terms: `up_to`, `calls` and `for`, of which each may be missing. Bounds that this scope lacks are ignored.

        Raises:
            InputError: a bound is not a number, or is above the one of this scope.
        """
        up_to = {name: bound for name, bound in terms.get("up_to", {}).items() if name in self.up_to}
        calls, seconds = terms.get("calls", self.calls), terms.get("for", self.seconds)
        bounds = [*((name, value, self.up_to[name]) for name, value in up_to.items())]
        for name, value, most in (*bounds, ("calls", calls, self.calls), ("for", seconds, self.seconds)):
            number = counted_number(value) if type(value) in (int, float) else None
            if number is None or isinstance(number, Unknown) or number > _exact(most):
                raise InputError(f"{name!r} of 'grant' is {value!r}; expected a number from 0 to {most:,}")
        if type(calls) is not int or not calls or not seconds:
            raise InputError("'grant' covers no call; expected 'calls' as a whole number from 1, and 'for' above 0")
        return replace(self, up_to={**self.up_to, **up_to}, calls=calls, seconds=float(seconds))

    def in_words(self, values: Mapping[str, Any] | None = None) -> str:
        """Returns the scope in plain English, with the values of `same` where they are known."""
        from guardagent.policy.words.terms import code, duration

        names = [
            f"the same {code(name)}" if values is None else f"{code(name)} {format_value(values[name])}"
            for name in self.same
        ]
        names += [f"{code(name)} up to {self.up_to[name]:,}" for name in self.bounded]
        if SUM in self.up_to:
            names[-1] += f" each and {self.up_to[SUM]:,} in all"
        names += [f"any {code(name)}" for name in self.any]
        arguments = f" with {', '.join(names)}" if names else " without arguments"
        calls = "1 call" if self.calls == 1 else f"{self.calls:,} calls"
        return f"{code(self.tool)}{arguments}: at most {calls} within {duration(_exact(self.seconds))}"


@dataclass(frozen=True, slots=True)
class LiveGrant:
    """A live grant, as a check uses it. Its uses are counted in the store of counters.

    Attributes:
        id: its id.
        scope: what the reviewer granted.
        until: its end, in seconds since the epoch.
    """

    id: str
    scope: ApprovalScope
    until: float

    def key(self, limit: str) -> CounterKey:
        """Returns the counter of one of its limits, or of its revocations."""
        return CounterKey(f"grant:{self.id}:{limit}", limit, self.scope.seconds + _KEPT)

    def covered(
        self, tool: str, args: Mapping[str, Any], now: float, value: Callable[[CounterKey], Number | Unknown]
    ) -> tuple[CountedAmount, ...]:
        """Returns the amounts by which a call uses the grant; none if it does not cover the call.

        Args:
            tool: the tool of the call.
            args: its arguments, with the granted values in `same`.
            now: the time of the check.
            value: returns the value of a counter.
        """
        uses = self.scope.uses(tool, args) if now < self.until else None
        if uses is None or _most(value(self.key(REVOKED))):
            return ()
        counted = tuple([CountedAmount(self.key(limit), amount) for limit, amount in uses.items()])
        limits = self.scope.limits
        fit = all(_most(value(use.key)) + use.amount <= _exact(limits[use.key.key]) for use in counted)
        return counted if fit else ()


def _exact(bound: float) -> Number:
    """Returns the decimal number that a bound prints as."""
    number = counted_number(bound)
    assert not isinstance(number, Unknown), "bounds are checked when they are read"
    return number


def _most(value: Number | Unknown) -> Number:
    """Returns the value of a counter if all calls in flight count."""
    return value.bounds[1] if isinstance(value, Unknown) and value.bounds else value  # type: ignore[return-value]
