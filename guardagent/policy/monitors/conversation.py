"""One conversation as the rules see it: its calls, and what each part of a rule remembers of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from guardagent.errors import GuardError, error_text, name_hint
from guardagent.policy.evaluation.findings import Call, Explanation, Finding, Status, Trace
from guardagent.policy.evaluation.state_functions import StateFunctionError
from guardagent.policy.language.values import Unknown
from guardagent.policy.monitors.rule import Source
from guardagent.policy.policies import Concern, Policies
from guardagent.types import Context, Decision, Event, Verdict, freeze, thaw

Broken = list[tuple[Source, Finding]]  # (where a rule comes from, why it is broken)
Memento = tuple[dict[int, Any], dict[str, set[int]]]  # (part -> what it remembers, rules that were said to be violated)


class Judgement:
    """What was found of a proposed call.

    Attributes:
        found: of each part of a rule that is not fine, by its number.
        broken: the rules that it would break.
        errors: what could not be checked, and why.
        reasons: the same for people and the model: what the author says of the rule comes first.
        withheld: what neither says, for the operator.
        asked: the verdicts of the `request:` policies.
        absent: whether arguments that the call lacks are all that kept it from being checked.
    """

    __slots__ = ("absent", "asked", "broken", "errors", "found", "reasons", "withheld")

    def __init__(self) -> None:
        self.found: dict[int, Finding] = {}
        self.broken: Broken = []
        self.errors: list[str] = []
        self.reasons: list[str] = []
        self.withheld: list[str] = []
        self.asked: list[Verdict] = []
        self.absent = True

    def fail(self, problem: str, source: Source | None = None) -> None:
        """Something could not be checked."""
        self.absent = False
        self._say(problem, source)

    def _say(self, problem: str, source: Source | None) -> None:
        error = problem if source is None else f"{source.id}: {problem}"
        self.errors.append(error)
        line = source.line if source is not None else ""
        self.reasons.append(f"{line} (could not be checked: {problem})" if line else f"could not be checked: {error}")

    def crashed(self, source: Source, error: Exception, *, shown: bool = False) -> None:
        """A rule crashed. What the error says is not shown unless it is one of ours: it may hold anything."""
        ours = isinstance(error, StateFunctionError) or (shown and isinstance(error, GuardError))
        self.fail(str(error) if ours else f"its check raised {type(error).__name__}", source)
        detail = error.detail if isinstance(error, StateFunctionError) else error_text(error)
        if detail != str(error):
            self.withheld.append(f"{source.id}: {detail}")

    def unknown(self, source: Source, finding: Finding) -> None:
        """A rule cannot be decided, and this is what would have to be found out."""
        value = finding.value
        assert isinstance(value, Unknown)
        self.absent = self.absent and value.absent
        self._say(f"not known: {'; '.join(value.why)}", source)
        self.withheld += [f"{source.id}: {one}" for one in finding.explain().withheld]

    def decision(self, lifted: Decision | None = None) -> Decision:
        """The most severe one; an approval lifts what it was asked for."""
        if len(self.broken) == 1 and not self.errors and lifted is None:  # the common case
            return self.broken[0][0].on_violation
        decisions = [source.on_violation for source, _ in self.broken if source.on_violation is not lifted]
        if self.errors:
            decisions.append(Decision.DENY)
        return decisions[0] if len(decisions) == 1 else max(decisions, default=Decision.ALLOW)


class Conversation:
    """The calls of a session, and the state of its rules."""

    def __init__(self, policies: Policies, state: Any, facts: Mapping[str, Any], messages: Any = ()) -> None:
        self.policies = policies
        self.calls: list[Call] = []
        self.skipped: frozenset[int] = frozenset()  # parts of rules that are proved, for calls of the graph's tools
        self.graph_tools: frozenset[str] = frozenset()
        self.trace = Trace(facts, state, policies.views(), messages)
        self._memory = [part.start() for part in policies.parts]
        self._said: dict[str, set[int]] = {}  # rules of which a violation was reported -> by which calls; 0: they ran

    def rely_on(self, tools: frozenset[str], proved: frozenset[int]) -> None:
        """Skips parts of rules that no sequence of calls of these tools can break, while no other call takes place."""
        self.graph_tools = tools
        self.skipped = proved if all(call.tool in tools for call in self.calls) else frozenset()

    def judge(self, call: Call, concern: Concern, *, anew: bool = True) -> Judgement | None:
        """What is found of a proposed call; None where nothing stands against it.

        Args:
            call: what is proposed.
            concern: what it has to do with the policy.
            anew: whether the state is read again; else it is as at the last call that was judged.
        """
        judged = self._judge_apart(call, concern) if concern.apart else None
        trace, memory = self.trace, self._memory
        if anew:
            trace.now(call.facts)
        skipped = self.skipped if self.skipped and call.tool in self.graph_tools else None
        for number, part in concern.parts:
            if skipped is not None and number in skipped:
                continue
            try:
                finding = part.judge(trace, call, memory[number])
            except Exception as error:  # noqa: BLE001 - whatever a rule runs into, the call is denied
                judged = judged or Judgement()
                judged.crashed(self.policies.rule_of[number].source, error)
                continue
            if finding is not None:
                judged = judged or Judgement()
                judged.found[number] = finding
        if judged is not None and judged.found:
            self._judge_rules(judged)
        return judged

    def _judge_rules(self, judged: Judgement) -> None:
        """What the findings mean for the rules that they are parts of."""
        rules = [self.policies.rule_of[number] for number in judged.found]
        for rule in rules if len(rules) == 1 else dict.fromkeys(rules):
            finding = rule.together(judged.found, self._memory)
            if finding is None:
                continue
            if finding.value is False:
                judged.broken.append((rule.source, finding))
            else:
                judged.unknown(rule.source, finding)

    def _judge_apart(self, call: Call, concern: Concern) -> Judgement:
        """What stands against a call whatever the temporal rules say; and what the guard programs say."""
        judged = Judgement()
        if concern.problem:
            judged.fail(concern.problem)
        elif not concern.listed:
            judged.fail(f"no rule concerns {call.tool!r}, and the policy denies unlisted calls")
        elif concern.arguments is not None and (undeclared := set(call.args) - concern.arguments):
            name = min(undeclared)
            judged.fail(f"unknown argument {name!r} of {call.tool}{name_hint(name, concern.arguments)}")
        else:
            self._ask_programs(call, judged)
        return judged

    def _ask_programs(self, call: Call, judged: Judgement) -> None:
        """The guard programs see what is known so far, and the call."""
        event, context = call.event(), Context(self.history(), facts=call.facts)
        for source, check in self.policies.requests:
            try:
                verdict = check(event, context)
            except Exception as error:  # noqa: BLE001 - as above
                judged.crashed(source, error, shown=True)
                continue
            judged.asked.append(verdict)
            for problem in verdict.errors:
                judged.fail(problem, source)
            if verdict.label and not verdict.errors:
                judged.broken.append((source, Finding(False, partial(_of_program, verdict))))  # noqa: FBT003 - a value

    def place(self, call: Call, judged: Judgement | None) -> None:
        """The call takes its place, and is in flight."""
        call.place = len(self.calls) + 1
        found = judged.found if judged is not None else {}
        for number, part in call.concern.remembering:
            part.placed(self.trace, call, self._memory[number], found.get(number))
        for source, _ in judged.broken if judged is not None else ():
            self._said.setdefault(source.id, set()).add(call.place)
        self._append(call)

    def settle(self, call: Call, output: Any, status: Status, commit: Callable[[], None] | None = None) -> None:
        """The outcome of a call in flight is known.

        Args:
            call: the call.
            output: what it gave back.
            status: how it ended.
            commit: tells others of it. Where that raises, the call is still in flight.
        """
        trace, memento = self.trace, self.memento(call) if commit is not None else None
        call.output, call.status = output, status
        trace.in_flight.remove(call)
        self._say_no_more(call)
        trace.now(call.facts)
        try:
            trace.until = call.place  # what it is judged by is what was before it
            for number, part in call.concern.remembering:
                part.settled(trace, call, self._memory[number])
            if commit is not None:
                commit()
        except BaseException:
            if memento is not None:
                self._reopen(call, memento)
            raise
        finally:
            trace.until = None
            if call.status is not None:
                self._enter_views(call)

    def _say_no_more(self, call: Call) -> None:
        """What was said of a call stands as soon as it has run, and not if it never does."""
        for places in self._said.values():
            if call.place in places:
                places.remove(call.place)
                places.update(() if call.status == "withdrawn" else (0,))
        if call.status == "withdrawn":
            self._said = {rule: places for rule, places in self._said.items() if places}

    def _enter_views(self, call: Call) -> None:
        for number in call.concern.views if call.status != "withdrawn" else ():
            self.trace.views[number].add(self.trace, call)

    def _reopen(self, call: Call, memento: Memento) -> None:
        call.output = call.status = None
        self.trace.in_flight.append(call)
        self.trace.in_flight.sort(key=lambda one: one.place)
        self._restore(memento)

    def began(self, call: Call) -> None:
        """A call in flight is about to run."""
        call.used = True
        for number, part in call.concern.remembering:
            part.began(self._memory[number])

    def owed(self) -> Judgement:
        """The rules that are broken if nothing follows, and what is not known about others."""
        judged = Judgement()
        for rule in self.policies.rules:
            try:
                finding = rule.ended(self.trace, self._memory, said=rule.id in self._said)
            except Exception as error:  # noqa: BLE001 - as in a check
                judged.crashed(rule.source, error)
                continue
            if finding is not None and finding.value is False:
                judged.broken.append((rule.source, finding))
            elif finding is not None:
                judged.unknown(rule.source, finding)
        return judged

    def permits(self, call: Call) -> bool:
        """Whether a call that a remedy names would be allowed, as far as its arguments are known.

        It is judged at this moment of the conversation; a model is not asked, and what only a model can tell does not
        permit it.
        """
        concern = self.policies.concern(call)
        if self.policies.asks_models or any(part.asks(call.tool) for _, part in concern.parts if hasattr(part, "asks")):
            return False
        judged = self.judge(call, concern, anew=False)
        if judged is None:
            return True
        return judged.absent and not any(source.on_violation > Decision.WARN for source, _ in judged.broken)

    def status(self) -> dict[str, str]:
        """The id of each temporal rule -> `satisfied` for good, `violated` for good, or `open`."""
        return {
            rule.id: "violated" if rule.id in self._said else rule.status(self._memory) for rule in self.policies.rules
        }

    def history(self) -> tuple[Event, ...]:
        return tuple([call.event() for call in self.calls if call.status != "withdrawn"])

    def copied(self) -> Conversation:
        """A conversation of its own that has come this far."""
        trace = self.trace
        copy = Conversation(self.policies, trace.source, trace.facts, trace.messages)
        calls = {call: call.copied() for call in self.trace.in_flight}
        copy.skipped, copy.graph_tools = self.skipped, self.graph_tools
        copy.calls = [calls.get(call, call) for call in self.calls]
        copy.trace.in_flight = list(calls.values())
        copy.trace.views = [view.copied() for view in self.trace.views]
        copy._memory, copy._said = self._copied_memory(calls), self._copied_said()
        return copy

    def dumped(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "calls": [call.dumped() for call in self.calls],
            "memory": [part.dumped(one) for part, one in zip(self.policies.parts, self._memory, strict=True)],
            "said": self._dumped_said(),
        }

    def load(self, data: Mapping[str, Any]) -> None:
        """Goes on from what was dumped."""
        self.calls = [Call.loaded(place, one) for place, one in enumerate(data["calls"], 1)]
        for call in self.calls:
            call.concern = self.policies.concern(call)
            if call.status is None:
                call.elsewhere = True
                self.trace.in_flight.append(call)
            else:
                self._enter_views(call)
        parts = zip(self.policies.parts, data["memory"], strict=True)
        self._memory = [part.loaded(one, self.calls) for part, one in parts]
        self._said = _said_of(data["said"])

    def entry(self, call: Call) -> dict[str, Any]:
        """What others have to know of a call that has just taken its place, or was settled."""
        memory = {number: part.dumped(self._memory[number]) for number, part in call.concern.remembering}
        shared = {"memory": memory, "said": self._dumped_said()}
        if call.status is not None:
            return {"settled": call.place, "output": thaw(call.output), "status": call.status, **shared}
        return {"placed": call.dumped(), **shared}

    def take_in(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Goes on from what others have done."""
        memory: dict[int, Any] = {}
        for entry in entries:
            memory.update((int(number), dumped) for number, dumped in entry["memory"].items())
            if "placed" in entry:
                self._take_in_placed(entry["placed"])
            else:
                call = self.calls[entry["settled"] - 1]
                call.output, call.status = freeze(entry["output"]), entry["status"]
                self.trace.in_flight.remove(call)
                self._enter_views(call)
            self._said = _said_of(entry["said"])
        for number, dumped in memory.items():
            self._memory[number] = self.policies.parts[number].loaded(dumped, self.calls)

    def _take_in_placed(self, dumped: Mapping[str, Any]) -> None:
        call = Call.loaded(len(self.calls) + 1, dumped)
        call.used = call.elsewhere = True  # by whom it was placed, if anybody
        call.concern = self.policies.concern(call)
        self._append(call)

    def _append(self, call: Call) -> None:
        self.calls.append(call)
        self.trace.in_flight.append(call)
        if self.skipped and call.tool not in self.graph_tools:
            self.skipped = frozenset()

    def memento(self, call: Call) -> Memento:
        """What it takes to forget a call that takes its place next, as long as it is not settled."""
        memory = {number: part.copied(self._memory[number], {}) for number, part in call.concern.remembering}
        return memory, self._copied_said()

    def forget(self, memento: Memento) -> None:
        """The last call, which is in flight, has not been."""
        self.trace.in_flight.remove(self.calls.pop())
        self._restore(memento)

    def _restore(self, memento: Memento) -> None:
        memory, self._said = memento
        for number, one in memory.items():
            self._memory[number] = one

    def _dumped_said(self) -> dict[str, list[int]]:
        return {rule: sorted(places) for rule, places in self._said.items()}

    def _copied_said(self) -> dict[str, set[int]]:
        return {rule: set(places) for rule, places in self._said.items()}

    def _copied_memory(self, calls: Mapping[Call, Call]) -> list[Any]:
        return [part.copied(one, calls) for part, one in zip(self.policies.parts, self._memory, strict=True)]


def _said_of(data: Any) -> dict[str, set[int]]:
    """What was said, as it was dumped; once that was without the calls."""
    return {rule: set(data[rule]) if isinstance(data, dict) else {0} for rule in data}


def _of_program(verdict: Verdict) -> Explanation:
    """What a guard program says: it sees the call, the history and the facts, and no state."""
    return Explanation(evidence={"reasons": list(verdict.reasons)})
