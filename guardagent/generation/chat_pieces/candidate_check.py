"""Judges one candidate of a model as a whole: all of its calls may run, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from guardagent.errors import InputError
from guardagent.generation.tool_set import ToolSet, canonical_json
from guardagent.models.chat import ChatCandidate, WrittenCall
from guardagent.session.session import ProposedCall, Session, judge_jointly, withdraw
from guardagent.types import Decision, Verdict, unchecked_verdict

Key = tuple[str, ...]  # a call with its exact arguments


@dataclass(slots=True)
class CallCheck:
    """A call of a candidate with its verdict.

    Attributes:
        written: the call as the model wrote it.
        args: the parsed arguments; None if they are invalid.
        verdict: the verdict; None if the turn was refused for another call before this one was judged.
        repeated: whether the call was refused before.
    """

    written: WrittenCall
    args: Mapping[str, Any] | None = None
    verdict: Verdict | None = None
    repeated: bool = False

    @property
    def arguments(self) -> str:
        return self.written.arguments if self.args is None else canonical_json(self.args)

    @property
    def key(self) -> Key:
        kind = "unread" if self.args is None else "read"
        return kind, self.written.name, self.arguments


@dataclass(frozen=True, slots=True)
class CandidateCheck:
    """A candidate with the verdicts on its calls.

    Attributes:
        attempt: the number of the request that it answers.
        text: the text of the model.
        calls: the calls, in order.
        problem: why the whole answer is unusable; empty if it is usable.
        final: the verdict on a text without calls, if a rule speaks of the final answer.
    """

    attempt: int
    text: str
    calls: tuple[CallCheck, ...]
    problem: str = ""
    final: Verdict | None = None

    @property
    def verdicts(self) -> list[Verdict]:
        if self.problem:
            return [unchecked_verdict(self.problem, checked_by="policy")]
        if self.final is not None:
            return [self.final]
        return [call.verdict for call in self.calls if call.verdict is not None]

    @property
    def worst(self) -> Verdict | None:
        """The most severe verdict; None without a call."""
        return max(self.verdicts, key=lambda verdict: verdict.decision.severity, default=None)


_INTERLEAVED = unchecked_verdict(
    "another call was recorded in the session meanwhile; propose the call again", checked_by="policy"
)


class CandidateChecker:
    """Judges candidates by a session, and remembers refused calls.

    Args:
        tools: the tools that the model may call.
        session: judges the calls, and reserves those that may run.
        options: options of `session.check`.
    """

    def __init__(self, tools: ToolSet, session: Session, options: Mapping[str, Any]) -> None:
        self.session = session
        self._tools = tools
        self._options = options
        self._excluded: dict[tuple[Key, ...], Verdict] = {}  # one call, or all calls of a turn

    def check(self, candidate: ChatCandidate, attempt: int) -> CandidateCheck:
        """Judges a candidate. If it complies, its calls are in flight afterwards, and a final answer is recorded."""
        result = CandidateCheck(attempt, candidate.text, tuple(map(self._read, candidate.calls)), candidate.problem)
        if result.problem or not result.calls:
            return result if result.problem else self._checked_answer(result)
        if not self._refused_before(result.calls) and all(call.verdict is None for call in result.calls):
            self._check_calls(result.calls)
        self._exclude(result.calls)
        return result

    def _checked_answer(self, result: CandidateCheck) -> CandidateCheck:
        if not self.session.policies.judges_answers:
            return result
        return replace(result, final=self.session.answer(result.text, **self._options))

    def _read(self, call: WrittenCall) -> CallCheck:
        if call.problem:
            problem = f"malformed call of {call.name!r}: {call.problem}"
            return CallCheck(call, verdict=unchecked_verdict(problem, checked_by="policy"))
        try:
            return CallCheck(call, self._tools.parse(call.name, call.arguments))
        except InputError as error:
            return CallCheck(call, verdict=unchecked_verdict(str(error), checked_by="policy"))

    def _refused_before(self, calls: Sequence[CallCheck]) -> bool:
        """Whether a call or the whole turn is excluded; then the other calls are not checked."""
        whole = self._excluded.get(tuple(call.key for call in calls))
        for call in calls:
            found = self._excluded.get((call.key,)) or whole
            if found is not None:
                call.verdict, call.repeated = found, True
        return any(call.repeated for call in calls)

    def _check_calls(self, calls: Sequence[CallCheck]) -> None:
        proposed: list[ProposedCall] = [(call.written.name, call.args or {}) for call in calls]
        checked, verdicts = judge_jointly(self.session, proposed, self._options)
        for one, verdict in zip(checked, verdicts, strict=True):
            place = next(at for at, call in enumerate(proposed) if call is one)
            calls[place].verdict = verdict
        if any(call.verdict is None or call.verdict.label for call in calls):
            withdraw(self.session, verdicts)
        if all(verdict.label == 0 for verdict in verdicts):
            for call in calls:
                call.verdict = call.verdict or _INTERLEAVED

    def _exclude(self, calls: Sequence[CallCheck]) -> None:
        """Excludes denied calls: alone if denied alone, else together with the other calls of the turn."""
        for call in calls:
            if call.repeated or call.verdict is None or call.verdict.decision is not Decision.DENY:
                continue
            alone = call.args is None or len(calls) == 1 or self._denied_alone(call.written.name, call.args)
            self._excluded[(call.key,) if alone else tuple(one.key for one in calls)] = call.verdict

    def _denied_alone(self, tool: str, args: Mapping[str, Any]) -> bool:
        return bool(self.session.check(tool, args, **self._options, reserve=False).label)
