"""`exists` and `after`, and what NOT makes of them: what has to come by the end (Agent-C's Exists and After)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from guardagent.policy.evaluation.findings import Call, Explanation, Finding, Trace
from guardagent.policy.evaluation.terms import Compiler, Names, names_in
from guardagent.policy.evaluation.views import Env, ViewSpec
from guardagent.policy.evaluation.watched import arguments, missing_call
from guardagent.policy.language import ast
from guardagent.policy.language.values import (
    Truth,
    Unknown,
    conjunction,
    disjunction,
    dump_truth,
    hash_key,
    kind_of_key,
    load_truth,
    no_truth,
)
from guardagent.types import freeze, thaw

MANY = 8  # open obligations, from which on the one that is meant is looked up


class Eventual:
    """A call that has to come, and go well. Its memory: whether it did."""

    def __init__(self, rule: ast.Exists, compiler: Compiler) -> None:
        self.remembers = True
        self._wanted = compiler.past(rule.pattern, rule.condition, {})
        self.tools = self._wanted.tools
        self._size = compiler.size
        self._missing = _Missing(rule.pattern, rule.condition, compiler, {})

    def concerns(self, call: Call) -> bool:
        return call.tool in self.tools

    def looks_back(self, _call: Call) -> bool:
        return False

    def start(self) -> list[Truth]:
        return [False]

    def judge(self, trace: Trace, call: Call, memory: Any) -> None:
        """Nothing is broken before the end."""

    def placed(self, trace: Trace, call: Call, memory: Any, finding: Finding | None) -> None:
        """Nothing: it has to go well."""

    def began(self, memory: Any) -> None:
        """Nothing changes by it."""

    def settled(self, trace: Trace, call: Call, memory: list[Truth]) -> None:
        if call.status == "ok" and memory[0] is not True:
            memory[0] = disjunction((memory[0], self._wanted.judge(_env(trace, self._size), call)))

    def ended(self, trace: Trace, memory: list[Truth]) -> Finding | None:
        if memory[0] is True:
            return None
        return Finding(memory[0], partial(self._missing.explained, _env(trace, self._size)))

    def so_far(self, _memory: Any) -> Truth:
        return True

    def satisfied(self, memory: list[Truth]) -> bool:
        return memory[0] is True

    def copied(self, memory: list[Truth], _calls: Any) -> list[Truth]:
        return list(memory)

    def dumped(self, memory: list[Truth]) -> Any:
        return dump_truth(memory[0])

    def loaded(self, data: Any, _calls: Any) -> list[Truth]:
        return [load_truth(data)]


class _Missing:
    """A call that has to come, ready to be put in words."""

    def __init__(self, pattern: ast.Pattern, condition: ast.Term, compiler: Compiler, names: Names) -> None:
        self._pattern, self._names = pattern, names
        self._tools = sorted(compiler.library.tools_of(pattern))
        self._words = missing_call(pattern, condition, compiler, names)

    def explained(self, env: Env, obliged_by: Call | None = None) -> Explanation:
        args = arguments(self._pattern, self._names, env)
        return Explanation(
            missing=(self._words(env),),
            evidence={} if obliged_by is None else {"obliged by": obliged_by.shown()},
            ways=tuple([((tool, args),) for tool in self._tools]),
        )


class _Obligation:
    """A call that obliges, the names that it bound, and whether it is known to oblige."""

    __slots__ = ("call", "env", "sure")

    def __init__(self, call: Call, env: Env, sure: Truth) -> None:
        self.call, self.env, self.sure = call, env, sure

    def among(self, calls: Mapping[Call, Call]) -> _Obligation:
        """The same, where other calls stand for some."""
        env = [calls.get(one, one) if isinstance(one, Call) else one for one in self.env]
        return _Obligation(calls.get(self.call, self.call), env, self.sure)


class _Obligations(dict[Any, _Obligation]):
    """The open obligations, by what tells them apart: the texts of their variables, where these are texts.

    Attributes:
        kinds: of the variables, as they were so far; None where they tell nothing apart.
        pending: place -> (key, obligation) of the calls in flight: one that is withdrawn never obliged.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kinds: set[Any] = set()
        self.pending: dict[int, tuple[Any, _Obligation]] = {}

    def open(self, key: Any, obligation: _Obligation) -> None:
        known = self.get(key)
        if known is not None and known.call.place > obligation.call.place:
            return
        self.kinds.add(_kinds(key))
        self.pop(key, None)  # what is owed again is owed from the last such call on
        self[key] = obligation

    def every(self) -> list[_Obligation]:
        return [*self.values(), *(one for _, one in self.pending.values())]


class Response:
    """A call that obliges another one to come later. Its memory: the obligations that are open.

    Args:
        negated: NOT of it: some such call, gone well, has no later partner, however that went.
    """

    def __init__(self, rule: ast.After, compiler: Compiler, *, negated: bool = False) -> None:
        names: Names = {}
        library = compiler.library
        self.remembers = True
        self._first = library.tools_of(rule.pattern)
        self._match = compiler.proposed(rule.pattern, names)
        self._condition = compiler.term(rule.condition, names)
        self._of_history = any(isinstance(one, ast.OF_HISTORY) for one in ast.walk(rule.condition))
        self._worlds = compiler.worlds(rule.condition, directed=False)
        self._partner: ViewSpec = compiler.past(rule.partner, rule.partner_condition, names)
        used = names_in(rule.partner) | names_in(rule.partner_condition)
        self._slots = tuple(slot for name, slot in names.items() if name in used)
        joined = dict(self._partner.joined)
        self._joined = tuple(joined[slot] for slot in self._slots) if set(self._slots) <= joined.keys() else None
        self._size = compiler.size
        self._negated = negated
        self.tools = self._first | self._partner.tools
        self._missing = _Missing(rule.partner, rule.partner_condition, compiler, names)

    def concerns(self, call: Call) -> bool:
        return call.tool in self.tools

    def looks_back(self, _call: Call) -> bool:
        return self._of_history

    def start(self) -> _Obligations:
        return _Obligations()

    def judge(self, trace: Trace, call: Call, _memory: Any) -> Finding | None:
        """Whether it is known if the call obliges."""
        if self._negated or call.tool not in self._first:
            return None
        env = _env(trace, self._size)
        value = self._obliges(env, call)
        if isinstance(value, Unknown) and trace.in_flight:
            value = self._worlds.every(trace, list(env), lambda: _known(self._obliges(env, call)))
        return Finding(value) if isinstance(value, Unknown) else None

    def _obliges(self, env: Env, call: Call) -> Truth:
        value = self._condition(env) if (matched := self._match(env, call)) is not False else False
        return conjunction((matched, value)) if matched is not False else False

    def placed(self, trace: Trace, call: Call, memory: _Obligations, _finding: Finding | None) -> None:
        self._open(trace, call, memory)

    def began(self, memory: Any) -> None:
        """Nothing changes by it."""

    def settled(self, trace: Trace, call: Call, memory: _Obligations) -> None:
        obliged = memory.pending.pop(call.place, None)
        if call.status == "withdrawn":
            return
        if obliged is not None and (call.status == "ok" or not self._negated):
            memory.open(*obliged)
        if self._negated or call.status == "ok":
            self._discharge(trace, call, memory)

    def _open(self, trace: Trace, call: Call, memory: _Obligations) -> None:
        if call.tool not in self._first:
            return
        env = _env(trace, self._size)
        value = self._obliges(env, call)
        if value is False:
            return
        sure = value if value is True else no_truth(value)
        memory.pending[call.place] = self._key(env, call.place, sure), _Obligation(call, env, sure)

    def _meant(self, call: Call, memory: _Obligations) -> list[tuple[Any, _Obligation]]:
        """The obligations that a call may discharge: one, where the partner's arguments say which."""
        if self._joined is not None and len(memory) > MANY:
            key = tuple([hash_key(call.args.get(name)) for name in self._joined])
            if None not in key and memory.kinds == {_kinds(key)}:
                return [(key, memory[key])] if key in memory else []
        return list(memory.items())

    def _key(self, env: Env, place: int, sure: Truth) -> Any:
        """What makes two obligations the same; only of those that are certain."""
        if sure is not True or self._negated:
            return place
        keys = tuple(hash_key(env[slot]) for slot in self._slots)
        return place if None in keys else keys

    def _discharge(self, trace: Trace, call: Call, memory: _Obligations) -> None:
        if call.tool not in self._partner.tools:
            return
        for key, obligation in self._meant(call, memory):
            left = self._left(trace, call, obligation)
            if left is None:
                del memory[key]
            elif left is not obligation:
                memory[key] = left
        for place, (key, obligation) in list(memory.pending.items()):
            left = self._left(trace, call, obligation)
            if left is None:
                del memory.pending[place]
            elif left is not obligation:
                memory.pending[place] = key, left

    def _left(self, trace: Trace, call: Call, obligation: _Obligation) -> _Obligation | None:
        """What is still owed after a call."""
        if obligation.call.place >= call.place:
            return obligation
        env = list(obligation.env)
        env[0] = trace
        value = self._partner.judge(env, call)
        if value is True:
            return None
        return obligation if value is False else _Obligation(obligation.call, obligation.env, value)

    def _unanswered(self, trace: Trace, memory: _Obligations) -> Truth:
        """NOT of the rule: whether some call that went well has no partner, those in flight included."""
        left = self.copied(memory, {})
        for call in trace.in_flight:
            self._discharge(trace, call, left)
        return disjunction(obligation.sure for obligation in left.values() if obligation.call.status == "ok")

    def ended(self, trace: Trace, memory: _Obligations) -> Finding | None:
        if self._negated:
            value = self._unanswered(trace, memory)
            return None if value is True else Finding(value)
        every = memory.every()
        if not every:
            return None
        owed = next((one for one in every if one.sure is True), None)
        first = owed or every[0]
        return Finding(False if owed else first.sure, partial(self._missing.explained, first.env, first.call))

    def so_far(self, _memory: Any) -> Truth:
        return True

    def satisfied(self, _memory: _Obligations) -> bool:
        return False

    def copied(self, memory: _Obligations, calls: Mapping[Call, Call]) -> _Obligations:
        copy = _Obligations()
        for key, one in memory.items():
            copy.open(key, one.among(calls))
        copy.pending = {place: (key, one.among(calls)) for place, (key, one) in memory.pending.items()}
        return copy

    def dumped(self, memory: _Obligations) -> Any:
        return [
            [one.call.place, dump_truth(one.sure), [_dump_value(one.env[slot]) for slot in self._slots]]
            for one in memory.every()
        ]

    def loaded(self, data: Any, calls: Sequence[Call]) -> _Obligations:
        memory = _Obligations()
        for place, sure, values in data:
            env: Env = [None] * self._size
            for slot, value in zip(self._slots, values, strict=True):
                env[slot] = _load_value(value, calls)
            known, call = load_truth(sure), calls[place - 1]
            obliged = self._key(env, place, known), _Obligation(call, env, known)
            if call.status is None:
                memory.pending[place] = obliged
            else:
                memory.open(*obliged)
        return memory


def _known(value: Truth) -> Truth:
    """True where a value is known, whichever it is."""
    return value if isinstance(value, Unknown) else True


def _env(trace: Trace, size: int) -> Env:
    env: Env = [None] * size
    env[0] = trace
    return env


def _dump_value(value: Any) -> Any:
    if isinstance(value, Call):
        return {"call": value.place}
    return {"unknown": list(value.why)} if isinstance(value, Unknown) else {"value": thaw(value)}


def _load_value(data: dict[str, Any], calls: Sequence[Call]) -> Any:
    if "call" in data:
        return calls[data["call"] - 1]
    return Unknown(*data["unknown"]) if "unknown" in data else freeze(data["value"])


def _kinds(key: Any) -> tuple[str, ...] | None:
    return tuple(map(kind_of_key, key)) if type(key) is tuple else None
