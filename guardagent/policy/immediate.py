"""`forall`, and with it `before` and `seq`: what every proposed call has to satisfy (Agent-C's Forall, Before, Seq)."""

from __future__ import annotations

from functools import partial
from typing import Any

from guardagent.policy import ast
from guardagent.policy.findings import Call, Explanation, Finding, Trace
from guardagent.policy.terms import Compiler, Names
from guardagent.policy.values import Truth, disjunction, dump_truth, inverse, load_truth
from guardagent.policy.views import Env
from guardagent.policy.watched import watch


class Immediate:
    """A condition on every proposed call of some tools. Its memory: whether it was kept so far."""

    def __init__(self, rule: ast.Forall, compiler: Compiler) -> None:
        names: Names = {}
        self.remembers = False  # what was judged when it was proposed is not judged again
        self.tools = compiler.library.tools_of(rule.pattern)
        self._match = compiler.proposed(rule.pattern, names)
        self._condition, self._explain = watch(rule.condition, compiler, names)
        self._worlds = compiler.worlds(rule.condition)
        inside = {type(one) for one in ast.walk(rule.condition)}
        self._of_history = not inside.isdisjoint(ast.OF_HISTORY)
        self._asks_known = ast.Known in inside
        self._adds_up = not inside.isdisjoint({ast.CountCalls, ast.SumCalls, ast.Selected})
        self._size = compiler.size

    def concerns(self, call: Call) -> bool:
        return call.tool in self.tools

    def looks_back(self, _call: Call) -> bool:
        return self._of_history

    def start(self) -> list[Truth]:
        return [True]

    def judge(self, trace: Trace, call: Call, _memory: Any) -> Finding | None:
        env: Env = [None] * self._size
        env[0] = trace
        matched = self._match(env, call)
        if matched is False:
            return None
        value = self._condition(env)
        if value is True and not (self._asks_known and trace.in_flight):
            return None
        if matched is not True or value is not False or (self._adds_up and trace.in_flight):
            return self._undecided(env, call, matched, value)
        return Finding(value, partial(self._explained, env))

    def _explained(self, env: Env) -> Explanation:
        found = Explanation()
        needed = self._explain(env, found)
        if [needed] != [f"an earlier {call}" for call in found.missing]:
            found.needed = needed
        return found

    def _undecided(self, env: Env, call: Call, matched: Truth, value: Any) -> Finding | None:
        """Unknown, unless the calls in flight decide it however they end."""
        trace, worlds = env[0], [env]
        truth = disjunction((inverse(matched), value))
        if not trace.in_flight:
            return Finding(truth)

        def in_one_world() -> Truth:
            worlds[0] = [trace, *[None] * (self._size - 1)]
            return disjunction((inverse(self._match(worlds[0], call)), self._condition(worlds[0])))

        truth = self._worlds.every(trace, env, in_one_world)
        if truth is True:
            return None
        return Finding(truth, partial(self._explained, worlds[0])) if truth is False else Finding(truth)

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
