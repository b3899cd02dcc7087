"""One conversation as the rules see it: its calls, and what each part of a rule remembers of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guardagent.errors import GuardError, nearest
from guardagent.policy.findings import Call, Finding, Status, Trace
from guardagent.policy.policies import Concern, Policies
from guardagent.policy.rule import Source
from guardagent.policy.state_functions import StateFunctionError
from guardagent.policy.values import Truth, Unknown
from guardagent.types import Context, Decision, Event, Verdict

Broken = list[tuple[Source, Finding]]  # (where a rule comes from, why it is broken)


class Judgement:
    """What was found of a proposed call.

    Attributes:
        found: of each part of a rule that is not fine, by its number.
        broken: the rules that it would break.
        errors: what could not be checked, and why.
        asked: the verdicts of the `request:` policies.
    """

    __slots__ = ("asked", "broken", "errors", "found")

    def __init__(self, errors: list[str] | None = None) -> None:
        self.found: dict[int, Finding] = {}
        self.broken: Broken = []
        self.errors = errors or []
        self.asked: list[Verdict] = []

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
        self._said: set[str] = set()  # rules of which a violation was reported, the call having taken its place

    def judge(self, call: Call, concern: Concern) -> Judgement | None:
        """What is found of a proposed call; None where nothing stands against it."""
        judged = self._judge_apart(call, concern) if concern.apart else None
        trace, memory = self.trace, self._memory
        trace.now(call.facts)
        skipped = self.skipped if self.skipped and call.tool in self.graph_tools else None
        for number, part in concern.parts:
            if skipped is not None and number in skipped:
                continue
            try:
                finding = part.judge(trace, call, memory[number])
            except Exception as error:  # noqa: BLE001 - whatever a rule runs into, the call is denied
                judged = judged or Judgement()
                judged.errors.append(failure(self.policies.rule_of[number].id, error))
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
                judged.errors.append(not_known(rule.id, finding.value))

    def _judge_apart(self, call: Call, concern: Concern) -> Judgement:
        """What stands against a call whatever the temporal rules say; and what the guard programs say."""
        judged = Judgement()
        if concern.problem:
            judged.errors.append(concern.problem)
        elif not concern.listed:
            judged.errors.append(f"no rule concerns {call.tool!r}, and the policy denies unlisted calls")
        elif concern.arguments is not None and (undeclared := set(call.args) - concern.arguments):
            name = min(undeclared)
            judged.errors.append(f"unknown argument {name!r} of {call.tool}{nearest(name, concern.arguments)}")
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
                judged.errors.append(failure(source.id, error))
                continue
            judged.asked.append(verdict)
            judged.errors += [f"{source.id}: {error}" for error in verdict.errors]
            if verdict.label and not verdict.errors:
                judged.broken.append((source, Finding(value=False, evidence={"reasons": list(verdict.reasons)})))

    def place(self, call: Call, judged: Judgement | None) -> None:
        """The call takes its place, and is in flight."""
        call.place = len(self.calls) + 1
        found = judged.found if judged is not None else {}
        for number, part in call.concern.remembering:
            part.placed(self.trace, call, self._memory[number], found.get(number))
        if judged is not None and judged.broken:
            self._said.update(source.id for source, _ in judged.broken)
        self.calls.append(call)
        self.trace.in_flight.append(call)

    def settle(self, call: Call, output: Any, status: Status) -> None:
        """The outcome of a call in flight is known."""
        trace = self.trace
        call.output, call.status = output, status
        trace.in_flight.remove(call)
        trace.now(call.facts)
        try:
            trace.until = call.place  # what it is judged by is what was before it
            for number, part in call.concern.remembering:
                part.settled(trace, call, self._memory[number])
        finally:
            trace.until = None
            for number in call.concern.views:
                trace.views[number].add(trace, call)

    def owed(self) -> tuple[Broken, list[str]]:
        """(the rules that are broken if nothing follows, what is not known about others)."""
        broken: Broken = []
        errors: list[str] = []
        for rule in self.policies.rules:
            try:
                finding = rule.ended(self.trace, self._memory, said=rule.id in self._said)
            except Exception as error:  # noqa: BLE001 - as in a check
                errors.append(failure(rule.id, error))
                continue
            if finding is not None and finding.value is False:
                broken.append((rule.source, finding))
            elif finding is not None:
                errors.append(not_known(rule.id, finding.value))
        return broken, errors

    def status(self) -> dict[str, str]:
        """The id of each temporal rule -> `satisfied` for good, `violated` for good, or `open`."""
        return {
            rule.id: "violated" if rule.id in self._said else rule.status(self._memory) for rule in self.policies.rules
        }

    def history(self) -> tuple[Event, ...]:
        return tuple([call.event() for call in self.calls])

    def copied(self) -> Conversation:
        """A conversation of its own that has come this far."""
        trace = self.trace
        copy = Conversation(self.policies, trace.source, trace.facts, trace.messages)
        calls = {call: call.copied() for call in self.trace.in_flight}
        copy.skipped, copy.graph_tools = self.skipped, self.graph_tools
        copy.calls = [calls.get(call, call) for call in self.calls]
        copy.trace.in_flight = list(calls.values())
        copy.trace.views = [view.copied() for view in self.trace.views]
        copy._memory, copy._said = self._copied_memory(calls), set(self._said)
        return copy

    def dumped(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "calls": [call.dumped() for call in self.calls],
            "memory": [part.dumped(one) for part, one in zip(self.policies.parts, self._memory, strict=True)],
            "said": sorted(self._said),
        }

    def load(self, data: Mapping[str, Any]) -> None:
        """Goes on from what was dumped."""
        self.calls = [Call.loaded(place, one) for place, one in enumerate(data["calls"], 1)]
        for call in self.calls:
            call.concern = self.policies.concern(call)
            if call.status is None:
                self.trace.in_flight.append(call)
                continue
            for number in call.concern.views:
                self.trace.views[number].add(self.trace, call)
        parts = zip(self.policies.parts, data["memory"], strict=True)
        self._memory = [part.loaded(one, self.calls) for part, one in parts]
        self._said = set(data["said"])

    def memento(self) -> Any:
        """What it takes to forget the calls that come next, as long as none of them is settled."""
        return self._copied_memory({}), set(self._said)

    def forget(self, memento: Any) -> None:
        """The last call, which is in flight, has not been."""
        self.trace.in_flight.remove(self.calls.pop())
        self._memory, self._said = memento

    def _copied_memory(self, calls: Mapping[Call, Call]) -> list[Any]:
        return [part.copied(one, calls) for part, one in zip(self.policies.parts, self._memory, strict=True)]


def told(source: Source, finding: Finding) -> str:
    """What a person is told of a rule that is broken: what the rule is, and the facts that break it."""
    return f"{source.said} ({finding.because})" if finding.because else source.said


def failure(rule_id: str, error: Exception) -> str:
    """That a rule crashed."""
    said = str(error) if isinstance(error, GuardError | StateFunctionError) else f"{type(error).__name__}: {error}"
    return f"{rule_id}: {said}"


def not_known(rule_id: str, value: Truth) -> str:
    """That a rule cannot be decided, and what would have to be found out."""
    return f"{rule_id}: not known: {'; '.join(value.why) if isinstance(value, Unknown) else value}"
