"""A solver rule as a part of a policy: each call of the tools it governs is put to a solver.

The policy together with what is known of the call and the permit: satisfiable allows, unsatisfiable denies with a
minimal core in words (*Solver-Aided Verification*, 3.1). What is not known never allows: an unknown variable that is
required denies, and one that is optional must not matter, whatever its value could be; only `free: any` is read as the
paper reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from guardagent.policy.findings import Call, Finding, Trace, in_every_world
from guardagent.policy.solver.admitted import Refused, admitted
from guardagent.policy.solver.answers import Answer
from guardagent.policy.solver.encoding import Encoding, Question
from guardagent.policy.solver.listener import Listen
from guardagent.policy.solver.reading import Asked
from guardagent.policy.solver.sorts import Enumeration, Sort
from guardagent.policy.solver.sources import Computed, Said, Source
from guardagent.policy.solver.words import because, rules_of, said
from guardagent.policy.values import Truth, Unknown, shown
from guardagent.policy.views import Env

REMEMBERED = 1024  # explanations of denials: the same facts have the same


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a tool's schema."""

    name: str
    sort: Sort
    enum: tuple[Any, ...] | None
    source: Source | None
    required: bool
    free: bool


class Governed:
    """What permits a call of one tool.

    Args:
        question: is it satisfiable that the call is permitted?
        variables: the tool's schema, in the order of the question's.
        slot: where in the environment the call's arguments stand.
        size: how many places the environment has.
    """

    def __init__(
        self, encoding: Encoding, question: Question, variables: Sequence[Variable], slot: int, size: int
    ) -> None:
        self.encoding, self.question, self.variables = encoding, question, tuple(variables)
        self._slot, self._size = slot, size
        self._domains = {one.name: one.enum for one in variables if one.enum is not None}
        self._computed = [(at, one.source.term) for at, one in enumerate(variables) if isinstance(one.source, Computed)]
        self.asked = tuple(_asked(one, encoding) for one in variables if isinstance(one.source, Said))
        self.looks_back = any(isinstance(one.source, Computed) and one.source.looks_back for one in variables)
        by_agent = [one.name for one in variables if isinstance(one.source, Computed) and one.source.of_args]
        self._changeable = by_agent or [one.name for one in variables]
        self._by_agent = bool(by_agent)
        self.violation = lru_cache(REMEMBERED, typed=True)(self._violation)

    def judge(self, trace: Trace, call: Call, heard: Mapping[str, Any]) -> Finding | None:
        """Why the call is not permitted, or cannot be decided; None where it is permitted."""
        values = self.values(trace, call, heard)
        if any(type(value) in (Unknown, Refused) for value in values):
            return self._with_unknown(values)
        found = self.question.fast(values)
        if found is True:
            return None
        return self._solved(values, denied=found is False)

    def values(self, trace: Trace, call: Call, heard: Mapping[str, Any]) -> list[Any]:
        """The value of each variable: as its sort has it, Unknown, or Refused."""
        env: Env = [None] * self._size
        env[0], env[self._slot] = trace, call.args
        values = [heard.get(one.name, _NOT_SAID) for one in self.variables]
        for at, term in self._computed:
            values[at] = term(env)
        return [admitted(value, one.sort, one.enum) for value, one in zip(values, self.variables, strict=True)]

    def _with_unknown(self, values: Sequence[Any]) -> Finding | None:
        pairs = list(zip(self.variables, values, strict=True))
        refused = [f"{one.name}: {value.why}" for one, value in pairs if type(value) is Refused]
        missing = [(one, value) for one, value in pairs if type(value) is Unknown]
        needed = [f"{one.name}: {'; '.join(value.why)}" for one, value in missing if one.required]
        if refused or needed:
            return Finding(Unknown(*refused, *needed))
        known = {one.name: value for one, value in pairs if type(value) is not Unknown}
        every = {one.name: value for one, value in missing if not one.free}
        answer = self.question.solve(known, tuple(every), self._domains)
        if answer.status == "sat":
            return None
        if answer.status == "unsat" and every:
            return self._mattering(known, every, answer)
        return self._denied(known, answer.core) if answer.status == "unsat" else _UNDECIDED

    def _mattering(self, known: Mapping[str, Any], every: Mapping[str, Unknown], answer: Answer) -> Finding:
        """What is not known would have to be; or would not, as nothing permits the call."""
        anyway = self.question.solve(known, (), self._domains)
        if anyway.status == "unsat":
            return self._denied(known, anyway.core)
        example = answer.counterexample or {}
        matter = [name for name in every if f"variable:{name}" in answer.core] or list(every)
        whys = [f"{name}: {'; '.join(every[name].why)}" for name in matter]
        where = " and ".join(f"{name} {shown(example[name])}" for name in matter if name in example)
        return Finding(
            Unknown(*whys, f"and it matters: with {where} it is not permitted" if where else "and it matters")
        )

    def _solved(self, values: Sequence[Any], *, denied: bool) -> Finding | None:
        """What the solver says where all is known."""
        if denied:
            return self.violation(*values)
        answer = self.question.solve(self._named(values))
        if answer.status == "sat":
            return None
        return self._denied(self._named(values), answer.core) if answer.status == "unsat" else _UNDECIDED

    def _violation(self, *values: Any) -> Finding:
        answer = self.question.solve(self._named(values))
        if answer.status == "sat":
            return Finding(Unknown("the solver contradicts the compiled rule; report this as a fault of GuardAgent"))
        return self._denied(self._named(values), answer.core)

    def _named(self, values: Sequence[Any]) -> dict[str, Any]:
        return {one.name: value for one, value in zip(self.variables, values, strict=True)}

    def _denied(self, known: Mapping[str, Any], core: Sequence[str]) -> Finding:
        facts = because(core, self.encoding, known)
        evidence = {"core": list(core), "because": facts, "rules": rules_of(core, self.encoding)}
        return Finding(value=False, evidence=evidence, remedy=self._remedy(known), because=facts or None)

    def _remedy(self, known: Mapping[str, Any]) -> str | None:
        """The nearest call that would be permitted."""
        changeable = [name for name in self._changeable if name in known]
        changes = self.question.remedy(known, changeable, self._domains)
        if not changes:
            return None
        words = " and ".join(said(name, value) for name, value in changes.items())
        return f"it would be permitted {'with' if self._by_agent else 'if'}: {words}"


def _asked(one: Variable, encoding: Encoding) -> Asked:
    source = one.source
    assert isinstance(source, Said)
    sort = one.sort.values if isinstance(one.sort, Enumeration) else one.sort.name
    return Asked(one.name, sort, one.enum, source.roles, source.confirmation, encoding.comments.get(one.name, ""))


_NOT_SAID = Unknown("no model has read it in the conversation")
_UNDECIDED = Finding(Unknown("the solver could not decide it in its time"))


class Solved:
    """A solver rule's part. It remembers nothing.

    Attributes:
        governed: what permits a call of each tool.
    """

    remembers = False
    slow = True

    def __init__(self, governed: Mapping[str, Governed], listen: Listen | None) -> None:
        self.governed = governed
        self._listen = listen
        self.tools = frozenset(governed)

    def concerns(self, call: Call) -> bool:
        return call.tool in self.tools

    def start(self) -> None:
        return None

    def judge(self, trace: Trace, call: Call, _memory: Any) -> Finding | None:
        governed = self.governed[call.tool]
        heard = self._listen(governed.asked, trace, call) if governed.asked and self._listen is not None else {}
        if not trace.in_flight or not governed.looks_back:
            return governed.judge(trace, call, heard)
        found: list[Finding] = []

        def in_one_world() -> Truth:
            finding = governed.judge(trace, call, heard)
            found.extend([] if finding is None else [finding])
            return True if finding is None else finding.value

        truth = in_every_world(trace, in_one_world)
        if truth is True:
            return None
        return next((one for one in found if one.value is False and truth is False), Finding(truth))

    def placed(self, trace: Trace, call: Call, memory: Any, finding: Finding | None) -> None:
        """Nothing: each call is judged by itself."""

    def settled(self, trace: Trace, call: Call, memory: Any) -> None:
        """Nothing, as above."""

    def ended(self, _trace: Trace, _memory: Any) -> Finding | None:
        return None

    def so_far(self, _memory: Any) -> Truth:
        return True

    def satisfied(self, _memory: Any) -> bool:
        return False

    def copied(self, _memory: Any, _calls: Any) -> None:
        return None

    def dumped(self, _memory: Any) -> None:
        return None

    def loaded(self, _data: Any, _calls: Any) -> None:
        return None
