"""Replays recorded calls under a candidate policy, and compares its decisions with those of the log or of another one.

conversation  decodes the values of a log, reads a log or traces as steps, and judges one conversation again

This file runs them: on the steps of a log, or on traces, whole from a file or from the rows of a table. It also counts
how a candidate's answers differ, by rule, with an example of each.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Self

from guardagent.batch.records import LineReader, Trace, open_bytes, read_trace
from guardagent.batch.replay.conversation import (
    NO_RULE,
    STATE,
    UNKNOWN,
    LoggedCall,
    LogStep,
    LogSteps,
    Progress,
    RecordedDecision,
    ReplayedConversation,
    ReplayPolicy,
    RuleAnswers,
    no_progress,
)
from guardagent.batch.traces import TraceStep
from guardagent.errors import ContentError, InputError
from guardagent.log.stores import is_address, open_reader
from guardagent.log.verification import verify_log
from guardagent.types import Decision, freeze, rule_of_error, thaw
from guardagent.types.values import SessionPrincipal

__all__ = ["ReplayReport", "replay"]


def compare_traces(old: tuple[ReplayPolicy, Trace], new: tuple[ReplayPolicy, Trace], table: DifferenceTable) -> None:
    """Compares the answers to each event of a trace, and at its end.

    Args:
        old: the other policy, with the trace as it reads it: a policy may tell which calls failed.
        new: the candidate, with the trace as it reads it.
        table: counts the differences.
    """
    steps = (*new[1].steps, None)
    for at, (step, before, after) in enumerate(zip(steps, _trace_answers(*old), _trace_answers(*new), strict=True)):
        table.compare(before, after, partial(_shown_event, new[1].id, at, step))


def _shown_event(name: str | int, at: int, step: TraceStep | None) -> Mapping[str, Any]:
    if step is None:
        return {"conversation": name, "event": None}
    return {"conversation": name, "event": at, "tool": step.event.tool, "args": thaw(step.event.args)}


def _trace_answers(candidate: ReplayPolicy, trace: Trace) -> Iterator[RuleAnswers]:
    """Yields the answers to each event of a trace, and at its end."""
    facts = freeze(trace.facts)
    conversation = ReplayedConversation(candidate, trace.state, facts)
    for step in trace.steps:
        if step.state is not None:
            conversation.change_state(step.state)
        call = _recorded_call(step, facts, trace.principal)
        answers, judged = conversation.judge(call)
        yield answers
        conversation.reserve(judged)
        output = freeze(step.event.output)
        conversation.settle(LogStep("outcome", None, call, status=step.event.status, output=output), final=True)
    yield conversation.end(None if trace.principal is None else trace.principal.value)


def _recorded_call(step: TraceStep, facts: Mapping[str, Any], principal: SessionPrincipal | None) -> LoggedCall:
    event = step.event
    known = facts if step.facts is None else freeze({**facts, **step.facts})
    return LoggedCall(
        {},
        event.tool,
        event.args,
        known,
        event.action,
        event.decision,
        event.tags,
        time=event.time,
        principal=None if principal is None else principal.value,
        agent=event.agent,
    )


_POLICY_PROBLEMS = re.compile(
    r"unknown tool '|unknown argument '|no rule covers the tool |(?:tool|action|decision|tag) '.*' differs from '"
)
_RULE_ERROR = re.compile(r"([^\s:]{1,200}): ")  # of a rule that the candidate no longer has
_NO_CONVERSATION = "the log redacts the name of the conversation without a key, so its calls cannot be told apart"


@dataclass(slots=True)
class ReplayReport:
    """The result of a replay.

    Attributes:
        table: the differences of each rule.
        conversations: the number of conversations.
        notes: remarks about the log.
        problems: the lines that could not be read.
    """

    table: DifferenceTable
    conversations: int = 0
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def status(self) -> int:
        """The exit status: 2 for unreadable lines, 1 for differences, 3 for undecidable calls, otherwise 0."""
        if self.problems:
            return 2
        return 1 if self.table.differs else 3 if self.table.undecidable else 0


def replay(
    path: Path | str,
    candidate: ReplayPolicy,
    against: ReplayPolicy | None = None,
    *,
    aliases: Mapping[str, str] | None = None,
    facts: Mapping[str, Any] | None = None,
    key: bytes | None = None,
    progress: Progress = no_progress,
    selects: Callable[[Mapping[str, Any]], bool] | None = None,
) -> ReplayReport:
    """Compares a candidate with recorded decisions.

    Args:
        path: an audit log or its address, or a traces file.
        candidate: the candidate.
        against: the other policy; without it, the decisions of the log.
        aliases: a tool's name in the host -> its name in the rules, for logs.
        facts: the facts of the host at every call, for logs. With them, a fact that an entry lacks is unknown.
        key: the log's key.
        progress: receives the number of the current entry of a log, and that of the last one.
        selects: selects the conversations of a log that have an entry with these fields; there may be none. Without
            it, all are replayed.

    Raises:
        InputError: the file cannot be read, is neither of the two, was changed, or holds no decisions to compare with.
    """
    report = ReplayReport(DifferenceTable([*candidate.policies.ids, *(against.policies.ids if against else ())]))
    if not is_address(path) and _holds_traces(Path(path)):
        if against is None:
            raise InputError(f"{path}: traces hold no decisions to compare with; expected '--against FILE'")
        _replay_traces(Path(path), candidate, against, report)
    else:
        _verify(path, key, report)
        _LogReplay(LogSteps(path, aliases or {}, facts, progress, selects), candidate, against, report).run()
    if not report.conversations and not report.problems and selects is None:
        raise InputError(f"{path}: holds no calls; expected an audit log with verdicts, or traces")
    return report


def _holds_traces(path: Path) -> bool:
    """Whether a file of JSON Lines is not a log, whose lines begin with their entry."""
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    with path.open("rb") as file:
        return not file.read(9).startswith(b'{"entry":')


def _verify(path: Path | str, key: bytes | None, report: ReplayReport) -> None:
    log_report = verify_log(path, key=key)
    if log_report.status == "tampered":
        raise ContentError(
            f"the log was changed: entry {log_report.first_bad} {log_report.problem}; run 'guardagent log verify'",
            open_reader(path).name,  # an address without its password
        )
    if log_report.status == "unchecked":
        report.notes.append(f"the log is not verified: {log_report.problem}")
    report.notes += log_report.notes


# --- logs


class _LogReplay:
    """The replay of one log."""

    def __init__(
        self, steps: LogSteps, candidate: ReplayPolicy, against: ReplayPolicy | None, report: ReplayReport
    ) -> None:
        self._steps, self._report, self._candidate = steps, report, candidate
        self._policies = [candidate, *([against] if against else [])]
        self._open: dict[str, list[ReplayedConversation]] = {}  # the conversation under each policy

    def run(self) -> None:
        for step in self._steps:
            if step.conversation is None:
                self._count_undecidable(step)
                continue
            conversations = self._open.get(step.conversation)
            if conversations is None or (step.kind == "verdict" and conversations[0].has_begun_anew(step.call)):
                self._report.conversations += 1
                conversations = [ReplayedConversation(policy, STATE) for policy in self._policies]
                self._open[step.conversation] = conversations
            self._take(step, conversations)
            if step.last or step.kind == "end":
                del self._open[step.conversation]

    def _take(self, step: LogStep, conversations: Sequence[ReplayedConversation]) -> None:
        if step.kind == "outcome":
            for conversation in conversations:
                conversation.settle(step)
        elif step.kind == "end":
            self._compare(step, *[conversation.end(step.call.principal) for conversation in conversations])
        else:
            judged = [conversation.judge(step.call, step.logged.lifted) for conversation in conversations]
            self._compare(step, *[answers for answers, _ in judged])
            if step.logged.decision in ("allow", "warn"):
                for conversation, (_, call) in zip(conversations, judged, strict=True):
                    conversation.reserve(call)

    def _compare(self, step: LogStep, after: RuleAnswers, before: RuleAnswers | None = None) -> None:
        if before is None:
            before = self._logged(step.logged)
            if before is None:
                self._report.table.unruled += 1
                return
        self._report.table.compare(before, after, partial(_shown_step, step))

    def _logged(self, logged: RecordedDecision) -> RuleAnswers | None:
        """The logged answers by rule; None if the guard denied the call for a reason of its own."""
        rules = dict.fromkeys(logged.rules, VIOLATED)
        for error in logged.errors:
            if (rule := self._rule_of(error)) is not None:
                rules.setdefault(rule, UNKNOWN if rule else "deny")
        if not rules and logged.decision not in ("allow", "warn"):
            return None
        return RuleAnswers(logged.decision, rules)

    def _rule_of(self, error: str) -> str | None:
        """The rule that could not be checked, by its error."""
        if named := rule_of_error(error, self._candidate.ids):
            return named
        if _POLICY_PROBLEMS.match(error):
            return NO_RULE
        other = _RULE_ERROR.match(error)
        return None if other is None else other[1]

    def _count_undecidable(self, step: LogStep) -> None:
        self._report.conversations = self._report.conversations or 1
        if step.kind != "outcome":
            unclear = RuleAnswers(None, {}, {NO_RULE: _NO_CONVERSATION})
            self._report.table.compare(unclear, unclear, dict)


def _shown_step(step: LogStep) -> Mapping[str, Any]:
    call = {} if step.kind == "end" else {"call_id": step.call.call_id, **step.call.shown}
    return {"conversation": step.conversation, **step.call.position, **call}


# --- traces


def _replay_traces(path: Path, candidate: ReplayPolicy, against: ReplayPolicy, report: ReplayReport) -> None:
    with open_bytes(path) as stream:
        for chunk in LineReader(stream).chunks():
            for line in chunk.lines:
                try:
                    text = line.text(path)
                    traces = [_read(text, path, line.number, policies) for policies in (against, candidate)]
                except InputError as error:
                    report.problems.append(str(error))
                    continue
                report.conversations += 1
                compare_traces(traces[0], traces[1], report.table)


def _read(text: str, path: Path, line: int, candidate: ReplayPolicy) -> tuple[ReplayPolicy, Trace]:
    try:
        return candidate, read_trace(text, path, line, candidate.policies.failed_output)
    except RecursionError:
        raise ContentError("is nested too deeply; expected fewer levels", path, line) from None


ALLOW, VIOLATED = "allow", "violated"
UNLISTED = "(no rule)"
"""The row of what no rule decides: undeclared tools and arguments, and `unlisted: deny`."""
_COUNTS = ("same", "differs", "undecidable", "unruled")
_DECISIONS = frozenset(map(str, Decision)) - {ALLOW}
_CALLS_OF_A_RULE = 20


@dataclass(slots=True)
class RuleDifferences:
    """The row of one rule.

    Attributes:
        differs: the number of calls on which its answers differ.
        undecidable: the number of calls for which the log does not determine an answer.
        changes: `before -> after` -> the number of calls.
        example: the first call that differs.
        undecidable_because: the reason for the first undecidable call.
    """

    rule: str
    differs: int = 0
    undecidable: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    example: dict[str, Any] | None = None
    undecidable_because: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"changes": dict(self.changes)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(**{**values, "changes": Counter(values["changes"])})

    def lines(self) -> list[str]:
        """The differences for people: the counts, the example, and why calls are undecidable."""
        counts = [f"{number:,} x {change}" for change, number in self.changes.items()]
        counts += [f"{self.undecidable:,} undecidable"] if self.undecidable else []
        lines = [f"{self.rule}: {', '.join(counts)}"]
        if self.example is not None:
            lines += [f"    {line}" for line in _example_lines(self.example)]
        if self.undecidable_because:
            lines.append(f"    undecidable: {self.undecidable_because}")
        return lines

    def add(self, other: RuleDifferences) -> None:
        """Adds the differences of later calls."""
        self.differs += other.differs
        self.undecidable += other.undecidable
        self.changes.update(other.changes)
        self.example = self.example or other.example
        self.undecidable_because = self.undecidable_because or other.undecidable_because


def _example_lines(example: dict[str, Any]) -> list[str]:
    number = example.get("entry", example.get("event"))
    what = "event" if "event" in example else "entry"
    where = f"{example['conversation']}, {'at the end' if number is None else f'{what} {number}'}"
    args = json.dumps(example.get("args", {}), ensure_ascii=False, default=str)
    call = f"{example['tool']}({args[:200]})" if example.get("tool") else "the end of the conversation"
    reason = [f"reason: {example['reason']}"] if example["reason"] else []
    return [f"for example {call} in {where}: {example['before']} -> {example['after']}", *reason]


class DifferenceTable:
    """The rows of all rules, and the number of compared calls.

    Attributes:
        same, differs, undecidable: the calls whose answers are equal, differ in some rule, or depend on values that
            the log lacks and differ in no other rule.
        unruled: the calls that the guard denied for a reason of its own, and which are not compared.
        changed: calls that differ, at least the first ones of each rule: with both decisions, and the answers and
            reasons of the rules.
    """

    def __init__(self, rules: Iterable[str] = ()) -> None:
        self.rows = {rule: RuleDifferences(rule) for rule in rules}
        self.same = self.differs = self.undecidable = self.unruled = 0
        self.changed: list[dict[str, Any]] = []

    @property
    def calls(self) -> int:
        return self.same + self.differs + self.undecidable

    def compare(self, before: RuleAnswers, after: RuleAnswers, show: Callable[[], Mapping[str, Any]]) -> None:
        """Compares the answers to one call. `show` returns the call for people."""
        changes = _changes(before, after)
        for rule, why in {**before.undecidable, **after.undecidable}.items():
            row = self._row(rule)
            row.undecidable += 1
            row.undecidable_because = row.undecidable_because or why
        for rule, (old, new) in changes.items():
            row = self._row(rule)
            row.differs += 1
            row.changes[f"{old} -> {new}"] += 1
            if row.example is None:
                reason = after.reason(rule) or before.reason(rule)
                row.example = {**show(), "before": old, "after": new, "reason": reason}
        if changes:
            self.differs += 1
            if any(self._row(rule).differs <= _CALLS_OF_A_RULE for rule in changes):
                rules = {
                    rule or UNLISTED: (*pair, after.reason(rule) or before.reason(rule))
                    for rule, pair in changes.items()
                }
                self.changed.append({**show(), "before": before.decision, "after": after.decision, "rules": rules})
        elif before.undecidable or after.undecidable:
            self.undecidable += 1
        else:
            self.same += 1

    def add(self, other: DifferenceTable) -> None:
        """Adds the differences of later calls."""
        for rule, row in other.rows.items():
            self._row(rule).add(row)
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_dict(self) -> dict[str, Any]:
        counts = {name: getattr(self, name) for name in _COUNTS}
        return {**counts, "rules": [row.to_dict() for row in self.rows.values()]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        table = cls()
        table.rows = {row["rule"]: RuleDifferences.from_dict(row) for row in values["rules"]}
        for name in _COUNTS:
            setattr(table, name, values[name])
        return table

    def _row(self, rule: str) -> RuleDifferences:
        name = UNLISTED if rule == NO_RULE else rule
        return self.rows.setdefault(name, RuleDifferences(name))


def _changes(before: RuleAnswers, after: RuleAnswers) -> dict[str, tuple[str, str]]:
    """Rule id -> (answer before, answer after), where both are known and differ."""
    unclear = before.undecidable.keys() | after.undecidable.keys()
    pairs = {
        rule: (before.rules.get(rule, ALLOW), after.rules.get(rule, ALLOW)) for rule in {**before.rules, **after.rules}
    }
    changes = {rule: pair for rule, pair in pairs.items() if rule not in unclear and not _are_equal(*pair)}
    if changes or before.decision is None or after.decision is None or _are_equal_decisions(before, after):
        return changes
    decided = [rule for rule, (old, _) in pairs.items() if old == VIOLATED] or [NO_RULE]
    return dict.fromkeys(decided, (before.decision, after.decision))


def _are_equal(old: str, new: str) -> bool:
    return old == new or (old == VIOLATED and new in _DECISIONS)


def _are_equal_decisions(before: RuleAnswers, after: RuleAnswers) -> bool:
    """Whether two decisions are equal. A session escalates a call that a guard denies, as no approval can lift it."""
    pair = {before.decision, after.decision}
    return len(pair) == 1 or (
        pair == {"deny", "escalate"} and {"escalate", UNKNOWN} & set(after.rules.values()) != set()
    )
