"""The calls of one conversation, the memory of every monitor, and the judgement of a proposed call.

A judgement has the violated rules, and the checks that could not be made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from guardagent.errors import GuardError, error_text, name_hint
from guardagent.policy.evaluation.counters import CountedAmount
from guardagent.policy.evaluation.history_index import OnDemand
from guardagent.policy.evaluation.monitor_interface import (
    CallStatus,
    Clock,
    ClockError,
    Explanation,
    MonitorResult,
    Reading,
    RuleContext,
    SessionCall,
)
from guardagent.policy.evaluation.operands import StateFunctionError
from guardagent.policy.language import ANSWER, RENAME_ANSWER
from guardagent.policy.language.values import Unknown
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.policy.monitors.rule import RuleMetadata
from guardagent.policy.policies import Applicability, Policies
from guardagent.policy.provenance.recorder import LIMIT as PROVENANCE_BYTES
from guardagent.policy.provenance.recorder import SourceRecorder
from guardagent.types import EMPTY, Context, Decision, Event, Verdict, freeze, new, thaw

Broken = tuple[tuple[RuleMetadata, MonitorResult], ...]  # (the rule, its violation)


class Judgement:
    """The judgement of a proposed call.

    Attributes:
        results: the result of each unsatisfied monitor, by number.
        broken: the rules that the call would violate.
        errors: the checks that could not be made, with causes.
        reasons: the errors for people and the model; the author's message comes first.
        withheld: details for the operator that errors and reasons leave out.
        request_verdicts: the verdicts of the `request:` policies.
        undecided: rule id -> the unknown value that left it undecided; None for a check that failed. The empty id
            stands for the checks beyond the rules.
        only_arguments_missing: whether missing arguments are the only causes of errors.
        error_response: the response to the errors: a denial, unless all of them are of rules on trial.
        grants: the ids of the grants that lift violations, by the ids of their rules.
    """

    # Most judgements have one of these values; all are immutable, and replaced where something is added.
    results: Mapping[int, MonitorResult] = MappingProxyType({})
    broken: Broken = ()
    errors: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    request_verdicts: tuple[Verdict, ...] = ()
    undecided: Mapping[str, Unknown | None] = EMPTY
    only_arguments_missing = True
    error_response = Decision.WARN
    grants: Mapping[str, str] = EMPTY

    def fail(self, problem: str, source: RuleMetadata | None = None) -> None:
        """Records a check that could not be made."""
        self.only_arguments_missing = False
        self._add_error(problem, source)

    def _add_error(self, problem: str, source: RuleMetadata | None) -> None:
        rule, error = ("", problem) if source is None else (source.id, f"{source.id}: {problem}")
        self.undecided = {**self.undecided, rule: self.undecided.get(rule)}
        self.errors += (error,)
        if source is None or not source.on_trial:
            self.error_response = Decision.DENY
        line = source.message_line if source is not None else ""
        self.reasons += (f"could not be checked: {f'{problem} (rule: {line})' if line else error}",)

    def crashed(self, source: RuleMetadata, error: Exception, *, shown: bool = False) -> None:
        """Records the crash of a rule. Messages of foreign errors are withheld: they may contain anything."""
        ours = isinstance(error, StateFunctionError | ClockError) or (shown and isinstance(error, GuardError))
        self.fail(str(error) if ours else f"the check raised {type(error).__name__}", source)
        detail = error.detail if isinstance(error, StateFunctionError | ClockError) else error_text(error)
        if detail != str(error):
            self.withheld += (f"{source.id}: {detail}",)

    def unknown(self, source: RuleMetadata, result: MonitorResult) -> None:
        """Records a rule that cannot be decided, with the unknown values."""
        value = result.value
        assert isinstance(value, Unknown)
        self.undecided = {**self.undecided, source.id: value}
        self.only_arguments_missing = self.only_arguments_missing and value.absent
        self._add_error("; ".join(value.why), source)
        self.withheld += tuple([f"{source.id}: {withheld_text}" for withheld_text in result.explain().withheld])

    def decision(self, lifted: Decision | None = None) -> Decision:
        """The most severe decision. `lifted`: violations with this decision are approved and do not count."""
        broken = self.broken
        if len(broken) == 1 and not self.errors and lifted is None:  # the common case
            return broken[0][0].on_violation
        decisions = [source.on_violation for source, _ in broken if source.on_violation is not lifted]
        if self.errors:
            decisions.append(self.error_response)
        return decisions[0] if len(decisions) == 1 else max(decisions, default=Decision.ALLOW)


_IGNORED = SessionCall("", EMPTY)
Memento = tuple[dict[int, Any], dict[str, set[int]]]  # (monitor -> memory, the reported rules)


class ConversationState:
    """The calls of a session and the state of its rules."""

    def __init__(
        self,
        policies: Policies,
        state: Any,
        facts: Mapping[str, Any],
        messages: Any = (),
        clock: Clock | None = None,
        *,
        provenance_bytes: int = PROVENANCE_BYTES,
        principal: Mapping[str, Any] | None = None,
    ) -> None:
        self.policies = policies
        self.requests = policies.requests  # whose programs judge the calls of this conversation
        self.calls: list[SessionCall] = []
        self._calls_of: dict[Any, tuple[int, dict[str | None, list[SessionCall]]]] = {}  # see `calls_of`
        self.skipped: frozenset[int] = frozenset()  # proved monitors, skipped for calls of the graph's tools
        self.graph_tools: frozenset[str] = frozenset()
        self.context = RuleContext(facts, state, OnDemand(policies.index_factories), messages, clock, principal)
        if policies.sources is not None:
            self.context.provenance = SourceRecorder(policies.sources, provenance_bytes)
        self._memory: OnDemand[Any] = OnDemand(policies.memory_factories)
        self._reported: dict[str, set[int]] = {}  # violated rule -> positions of the violating calls; 0: settled

    def rely_on(self, tools: frozenset[str], proved: frozenset[int]) -> None:
        """Skips proved monitors for calls of these tools, as long as no other tool is called."""
        self.graph_tools = tools
        self.skipped = proved if all(call.tool in tools for call in self.calls) else frozenset()

    def judge(
        self,
        call: SessionCall,
        applicability: Applicability,
        *,
        refresh_state: bool = True,
        reading: Reading | None = None,
    ) -> Judgement | None:
        """Judges a proposed call; returns None if every check passes.

        Args:
            call: the proposed call.
            applicability: the checks that apply to it.
            refresh_state: whether to read the state again; otherwise that of the last judged call is used.
            reading: the time of the check; None reads the clock when a rule needs it.
        """
        context, memory = self.context, self._memory
        if refresh_state:
            context.refresh(call.facts, call.principal)
            context.check_time = reading
            if context.provenance is not None:
                context.provenance.read_messages(context.messages)
        judged = self._judge_beyond_rules(call, applicability) if applicability.needs_more_checks else None
        results: dict[int, MonitorResult] = {}
        skipped = self.skipped if self.skipped and call.tool in self.graph_tools else None
        screen = applicability.screen
        remaining = applicability.monitors if screen.idle else screen.remaining(context, call, memory)
        for number, monitor in remaining:
            if skipped is not None and number in skipped:
                continue
            try:
                result = monitor.judge(context, call, memory[number])
            except Exception as error:  # noqa: BLE001 - any error of a rule denies the call
                judged = judged or Judgement()
                judged.crashed(self.policies.rule_of[number].source, error)
                continue
            if result is not None:
                results[number] = result
        if results:
            judged = judged or Judgement()
            judged.results = results
            if len(results) == 1:  # the common case
                [(number, result)] = results.items()
                rule = self.policies.rule_of[number]
                if result.value is False and rule.simple:
                    judged.broken += ((rule.source, result),)
                    return judged
            self._judge_rules(judged)
        return judged

    def _judge_rules(self, judged: Judgement) -> None:
        """Combines the results of monitors to results of rules."""
        rule_of, results = self.policies.rule_of, judged.results
        for rule in dict.fromkeys(rule_of[number] for number in results):
            result = rule.combined_result(results, self._memory)
            if result is None:
                continue
            if result.value is False:
                judged.broken += ((rule.source, result),)
            else:
                judged.unknown(rule.source, result)

    def _judge_beyond_rules(self, call: SessionCall, applicability: Applicability) -> Judgement | None:
        """Checks names and arguments against the declarations, counts, and runs the request policies."""
        judged = Judgement()
        if applicability.counters:
            self._count(call, applicability, judged)
        if applicability.problem:
            judged.fail(applicability.problem)
        elif not applicability.listed:
            judged.fail(
                f"no rule covers the tool {call.tool!r}, and the policy denies unlisted calls ('unlisted: deny')"
            )
        elif applicability.arguments is not None and (undeclared := set(call.args) - applicability.arguments):
            name = min(undeclared)
            if call.tool == ANSWER:
                judged.fail(f"the tool {ANSWER!r} has a name that is reserved for the final answer; {RENAME_ANSWER}")
                return judged
            judged.fail(f"unknown argument {name!r} of tool {call.tool!r}{name_hint(name, applicability.arguments)}")
        elif self.policies.requests and call.tool != ANSWER:
            self._run_request_checks(call, judged)
            return judged
        return judged if judged.errors else None

    def _count(self, call: SessionCall, applicability: Applicability, judged: Judgement) -> None:
        """Computes the amounts of the call in counters. A call whose amount is unknown is denied."""
        counted: list[CountedAmount] = []
        for counter in applicability.counters:
            try:
                amount = counter.counted(self.context, call, self.calls)
            except Exception as error:  # noqa: BLE001 - as above
                judged.crashed(RuleMetadata(f"counter {counter.name!r}"), error)
                continue
            if isinstance(amount, Unknown):
                judged.unknown(RuleMetadata(f"counter {counter.name!r}"), MonitorResult(amount))
            elif amount is not None:
                counted.append(amount)
        call.counted = tuple(counted)

    def _run_request_checks(self, call: SessionCall, judged: Judgement) -> None:
        """Runs the request policies on the history and the call."""
        event, context = call.event(), Context(self.history(), facts=call.facts)
        for source, check in self.requests:
            if not source.covers(call.principal, call.agent):
                continue
            try:
                verdict = check(event, context)
            except Exception as error:  # noqa: BLE001 - as above
                judged.crashed(source, error, shown=True)
                continue
            judged.request_verdicts += (verdict,)
            for problem in verdict.errors:
                judged.fail(problem, source)
            if verdict.label and not verdict.errors:
                judged.broken += ((source, MonitorResult.violated(partial(_program_explanation, verdict))),)

    def reserve(self, call: SessionCall, judged: Judgement | None) -> None:
        """Appends a call to the history as in flight."""
        call.place = len(self.calls) + 1
        context, stateful = self.context, call.applicability.stateful
        if stateful:
            results = judged.results if judged is not None else EMPTY
            for number, monitor in stateful:
                monitor.reserved(context, call, self._memory[number], results.get(number))
        if judged is not None:
            for source, _ in judged.broken:
                self._reported.setdefault(source.id, set()).add(call.place)
        if context.provenance is not None:
            call.provenance = context.provenance.reserved(call, context)
        self._append(call)

    def settle(
        self, call: SessionCall, output: Any, status: CallStatus, commit: Callable[[], None] | None = None
    ) -> None:
        """Records the outcome of a call in flight.

        Args:
            call: the call.
            output: its output.
            status: its final status.
            commit: publishes the outcome. If it raises, the call stays in flight.
        """
        context, memento = self.context, self.memento(call) if commit is not None else None
        call.output, call.status, applicability = output, status, call.applicability
        self._land(call)
        if self._reported:
            self._update_reported(call)
        context.refresh(call.facts, call.principal)
        if commit is None and not applicability.stateful:  # the common case
            if applicability.indexes or context.provenance is not None:
                self._index_call(call)
            return
        try:
            context.before_place, context.as_of = call.place, call  # judge the call by the calls before it
            for number, monitor in applicability.stateful:
                monitor.settled(context, call, self._memory[number])
            if commit is not None:
                commit()
        except BaseException:
            if memento is not None:
                self._reopen(call, memento)
            raise
        finally:
            context.before_place = context.as_of = None
            if call.status is not None and (applicability.indexes or context.provenance is not None):
                self._index_call(call)

    def add_settled(self, call: SessionCall, judged: Judgement | None, output: Any, status: CallStatus) -> None:
        """Appends a call that has already ended, as `reserve` and `settle` together do. Only while `is_alone`."""
        context, applicability = self.context, call.applicability
        results = judged.results if judged is not None else EMPTY
        for number, monitor in applicability.stateful:
            if type(monitor) is not PropositionalMonitor:  # `observed` does both
                monitor.reserved(context, call, self._memory[number], results.get(number))
        if judged is not None:
            for source, _ in judged.broken:
                self._reported.setdefault(source.id, set()).add(0)
        self._append_to_history(call)
        call.output, call.status = output, status
        context.refresh(call.facts, call.principal)
        if applicability.stateful:
            self._settle_at_once(call)
        if applicability.indexes:
            self._index_call(call)

    @property
    def is_alone(self) -> bool:
        """Whether no call is in flight, no sources are recorded, and no rule is skipped."""
        return not (self.context.in_flight or self.context.provenance is not None or self.skipped)

    def add_unjudged(
        self, event: Event, applicability: Applicability, facts: Mapping[str, Any], reading: Reading | None
    ) -> None:
        """Appends an ended call that is `unjudged`, without an output to copy. Only while `is_alone`.

        The context keeps the facts of an earlier call if no monitor needs them.
        """
        call: SessionCall = new(SessionCall)
        call.tool = event.tool
        call.args = event.args
        call.place = len(self.calls) + 1
        call.output = event.output
        call.status = event.status
        call.applicability = applicability
        call.facts = facts
        if self.context.session_principal is not None:
            call.principal = self.context.session_principal
        if event.agent is not None or event.id is not None:
            call.agent, call.id = event.agent, event.id
        if event.action is not None or event.decision is not None or event.tags:
            call.labelled(event.action, event.decision, event.tags)
        if reading is not None:
            call.time = self.context.time_of(reading)
        self._append_to_history(call)
        if applicability.stateful:
            self.context.check_time = reading
            self.context.refresh(facts)
            self._settle_at_once(call)
        for number in applicability.indexes:
            self.context.indexes[number].add(self.context, call)

    def add_ignored(self, reading: Reading | None) -> None:
        """Appends an event that no rule looks at: it only has a place among the calls, and a time."""
        self.calls.append(_IGNORED)
        self.context.note_time(None if reading is None else self.context.time_of(reading))

    def _settle_at_once(self, call: SessionCall) -> None:
        """Lets the monitors process the outcome of a call that was never in flight."""
        context = self.context
        try:
            context.before_place, context.as_of = call.place, call
            for number, monitor in call.applicability.stateful:
                if type(monitor) is PropositionalMonitor:
                    monitor.observed(context, call, self._memory[number])
                else:
                    monitor.settled(context, call, self._memory[number])
        finally:
            context.before_place = context.as_of = None

    def _update_reported(self, call: SessionCall) -> None:
        """Keeps the reported violations of a call that ran; drops those of a withdrawn call."""
        for places in self._reported.values():
            if call.place in places:
                places.remove(call.place)
                places.update(() if call.status == "withdrawn" else (0,))
        if call.status == "withdrawn":
            self._reported = {rule: places for rule, places in self._reported.items() if places}

    def _index_call(self, call: SessionCall) -> None:
        for number in call.applicability.indexes if call.status != "withdrawn" else ():
            self.context.indexes[number].add(self.context, call)
        if self.context.provenance is not None and call.status != "withdrawn":
            self.context.provenance.record(call, self.context)

    def _reopen(self, call: SessionCall, memento: Memento) -> None:
        call.output = call.status = None
        self._take_off(call)
        self.context.in_flight.sort(key=lambda in_flight_call: in_flight_call.place)
        self._restore(memento)

    def began(self, call: SessionCall) -> None:
        """Marks a call in flight as started."""
        call.used = True
        for number, monitor in call.applicability.stateful:
            monitor.began(self._memory[number])

    def pending_obligations(self) -> Judgement:
        """The rules that are violated if the conversation ends now, and those that are unknown."""
        judged = Judgement()
        self.context.check_time = None
        self.context.principal = self.context.session_principal
        for rule in self.policies.rules_for(self.context.session_principal):
            try:
                result = rule.ended(self.context, self._memory, already_reported=rule.id in self._reported)
            except Exception as error:  # noqa: BLE001 - as in judge
                judged.crashed(rule.source, error)
                continue
            if result is not None and result.value is False:
                judged.broken += ((rule.source, result),)
            elif result is not None:
                judged.unknown(rule.source, result)
        return judged

    def permits(self, call: SessionCall) -> bool:
        """Whether a call that a remedy suggests would be allowed now, as far as its arguments are known.

        No model is called. A call whose verdict depends on a model is not permitted.
        """
        applicability = self.policies.applicability(call)
        if self.policies.asks_models or any(
            monitor.asks(call.tool) for _, monitor in applicability.monitors if hasattr(monitor, "asks")
        ):
            return False
        judged = self.judge(call, applicability, refresh_state=False)
        if judged is None:
            return True
        return judged.only_arguments_missing and not any(
            source.on_violation > Decision.WARN for source, _ in judged.broken
        )

    def status(self) -> dict[str, str]:
        """The id of each temporal rule -> `satisfied` for good, `violated` for good, or `open`."""
        return {
            rule.id: "violated" if rule.id in self._reported else rule.status(self._memory)
            for rule in self.policies.rules
        }

    def calls_of(self, tool: str, args: Mapping[str, Any]) -> Sequence[SessionCall]:
        """The calls of a tool in order, without those that have another string as the first one of these arguments.

        They are sorted only when somebody asks: by the tool and the name of this argument, then by its value.
        """
        name, text = next(((name, value) for name, value in args.items() if type(value) is str), ("", None))
        count, calls_of = self._calls_of.get((tool, name), (0, {}))
        for call in self.calls[count:]:
            if call.tool == tool:
                value = call.args.get(name)
                calls_of.setdefault(value if type(value) is str else None, []).append(call)
        self._calls_of[tool, name] = len(self.calls), calls_of
        parts = [calls_of[key] for key in {None, text} if key in calls_of]
        return parts[0] if len(parts) == 1 else sorted(chain(*parts), key=attrgetter("place"))

    def history(self) -> tuple[Event, ...]:
        return tuple([call.event() for call in self.calls if call.status != "withdrawn"])

    def copied(self) -> ConversationState:
        """An independent copy of the conversation."""
        context = self.context
        copy = ConversationState(
            self.policies,
            context.state_source,
            context.facts,
            context.messages,
            context.clock,
            principal=context.session_principal,
        )
        copy.context.latest, copy.context.check_time = context.latest, context.check_time
        copy.context.began = context.began
        calls = {call: call.copied() for call in self.context.in_flight}
        copy.skipped, copy.graph_tools = self.skipped, self.graph_tools
        copy.calls = [calls.get(call, call) for call in self.calls]
        copy.context.in_flight = list(calls.values())
        copy.context.indexes = self.context.indexes.changed(lambda _, index: index.copied())
        copy.context.provenance = context.provenance and context.provenance.copied()
        copy._memory, copy._reported = self._copied_memory(calls), self._copied_reported()
        return copy

    def dumped(self) -> dict[str, Any]:
        """The conversation as JSON."""
        return {
            "calls": [call.dumped() for call in self.calls],
            "memory": [monitor.dumped(self._memory[at]) for at, monitor in enumerate(self.policies.monitors)],
            "said": self._dumped_reported(),
            **({} if self.context.provenance is None else {"provenance": self.context.provenance.dumped()}),
        }

    def load(self, data: Mapping[str, Any]) -> None:
        """Restores a dumped conversation."""
        self.calls = [SessionCall.loaded(place, call) for place, call in enumerate(data["calls"], 1)]
        for call in self.calls:
            call.applicability = self.policies.applicability(call)
            self.context.note_time(call.time)
            if self.context.provenance is not None:
                self.context.provenance.restored(call)
            if call.status is None:
                call.may_have_started = True
                self._take_off(call)
            else:
                self._index_call(call)
        monitors = zip(self.policies.monitors, data["memory"], strict=True)
        loaded = enumerate(monitor.loaded(memory_data, self.calls) for monitor, memory_data in monitors)
        self._memory = OnDemand(self.policies.memory_factories, dict(loaded))
        self._reported = _loaded_reported(data["said"])
        if self.context.provenance is not None:
            self.context.provenance.loaded(data["provenance"])

    def history_entry(self, call: SessionCall) -> dict[str, Any]:
        """The history entry of a call that was just reserved or settled, for other processes."""
        memory = {number: monitor.dumped(self._memory[number]) for number, monitor in call.applicability.stateful}
        shared = {"memory": memory, "said": self._dumped_reported()}
        if call.status is not None:
            return {"settled": call.place, "output": thaw(call.output), "status": call.status, **shared}
        return {"placed": call.dumped(), **shared}

    def apply_entries(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Applies history entries of other processes."""
        memory: dict[int, Any] = {}
        for entry in entries:
            memory.update((int(number), dumped) for number, dumped in entry["memory"].items())
            if "placed" in entry:
                self._add_reserved(entry["placed"])
            elif "settled" in entry:
                call = self.calls[entry["settled"] - 1]
                call.output, call.status = freeze(entry["output"]), entry["status"]
                self._land(call)
                self._index_call(call)
            self._reported = _loaded_reported(entry["said"])
        for number, dumped in memory.items():
            self._memory[number] = self.policies.monitors[number].loaded(dumped, self.calls)

    def _add_reserved(self, dumped: Mapping[str, Any]) -> None:
        call = SessionCall.loaded(len(self.calls) + 1, dumped)
        call.used = call.may_have_started = True  # another process may already run it
        call.applicability = self.policies.applicability(call)
        if self.context.provenance is not None:
            self.context.provenance.restored(call)
        self._append(call)

    def _append(self, call: SessionCall) -> None:
        self._append_to_history(call)
        self._take_off(call)

    def _take_off(self, call: SessionCall) -> None:
        self.context.in_flight.append(call)
        for number in call.applicability.pending:
            self.context.indexes[number].add(self.context, call)

    def _land(self, call: SessionCall) -> None:
        self.context.in_flight.remove(call)
        for number in call.applicability.pending:
            self.context.indexes[number].remove(call)  # type: ignore[attr-defined]

    def _append_to_history(self, call: SessionCall) -> None:
        self.calls.append(call)
        self.context.note_time(call.time)
        if self.skipped and call.tool not in self.graph_tools:
            self.skipped = frozenset()

    def memento(self, call: SessionCall) -> Memento:
        """The state that `forget` needs to remove the next call while it is in flight."""
        memory = {number: monitor.copied(self._memory[number], {}) for number, monitor in call.applicability.stateful}
        return memory, self._copied_reported()

    def forget(self, memento: Memento) -> None:
        """Removes the last call, which is in flight."""
        call = self.calls.pop()
        self._calls_of = {}
        self._land(call)
        if self.context.provenance is not None:
            self.context.provenance.forgotten(call)
        self.context.latest = next((call.time for call in reversed(self.calls) if call.time), 0)
        self.context.began = self.context.began if self.calls else 0
        self._restore(memento)

    def _restore(self, memento: Memento) -> None:
        memory, self._reported = memento
        for number, monitor_memory in memory.items():
            self._memory[number] = monitor_memory

    def _dumped_reported(self) -> dict[str, list[int]]:
        return {rule: sorted(places) for rule, places in self._reported.items()}

    def _copied_reported(self) -> dict[str, set[int]]:
        return {rule: set(places) for rule, places in self._reported.items()}

    def _copied_memory(self, calls: Mapping[SessionCall, SessionCall]) -> OnDemand[Any]:
        return self._memory.changed(lambda number, memory: self.policies.monitors[number].copied(memory, calls))


def _loaded_reported(data: Any) -> dict[str, set[int]]:
    """The reported rules of a dump. Older dumps have no positions of calls."""
    return {rule: set(data[rule]) if isinstance(data, dict) else {0} for rule in data}


def _program_explanation(verdict: Verdict) -> Explanation:
    """The reasons of a guard program, which sees the call, the history and the facts, but no state."""
    return Explanation(evidence={"reasons": list(verdict.reasons)})
