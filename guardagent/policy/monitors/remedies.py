"""Suggests how to make a denied call compliant. Every suggested call is first judged by the rules.

A call that was already made without success is not suggested again: repeating it as it was changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from guardagent.policy.evaluation.monitor_interface import CallSequence, CallStatus, Explanation, SessionCall
from guardagent.policy.language.values import equal, kind_of, shown
from guardagent.policy.monitors.conversation import Broken, ConversationState
from guardagent.policy.monitors.rule import RuleMetadata
from guardagent.policy.policies import Policies

MAX_SEQUENCES = 6  # suggested calls
MAX_EARLIER = 8  # calls of a tool that are kept until a remedy is read
EarlierCall = tuple[Mapping[str, Any], CallStatus | None]  # its arguments and its outcome
_NO_CALLS: Mapping[str, Sequence[EarlierCall]] = MappingProxyType({})
_SCALARS = ("text", "number", "truth value")


class Remedies:
    """The remedies for one denied call.

    Args:
        conversation: judges the suggested calls.
        call: the denied call; None at the end of the conversation.
        facts: the current facts of the host.
        halted: whether the session is halted.
    """

    def __init__(
        self, conversation: ConversationState, call: SessionCall | None, facts: Mapping[str, Any], *, halted: bool
    ) -> None:
        self._conversation, self._call, self._facts, self._halted = conversation, call, facts, halted
        self._policies = conversation.policies

    def remedy(self, source: RuleMetadata, explanation: Explanation) -> str | None:
        """The remedy for a violation: the author's remedy, else suggested calls, else changed arguments.

        That of a pack names no tools: its words are only sometimes the names of some.
        """
        if source.in_pack and source.remedy is not None:
            return " ".join(source.remedy.split())
        untried = self._untried(explanation)
        if source.remedy is not None and self._is_feasible(source.remedy, untried, explanation):
            return " ".join(source.remedy.split())
        calls = self._calls(untried) if untried else None
        return calls or (None if explanation.changes is None else self._changes(*explanation.changes))

    def _untried(self, explanation: Explanation) -> list[CallSequence]:
        """The suggested sequences without a call that was made in vain."""
        needed_before = bool(explanation.missing) and self._call is not None and not explanation.timed
        untried = []
        for sequence in explanation.sequences:
            for tool, args in sequence:
                if self._in_vain(tool, args, even_if_ok=needed_before):
                    break
            else:
                untried.append(sequence)
        return untried

    def _in_vain(self, tool: str, args: Mapping[str, Any], *, even_if_ok: bool = False) -> bool:
        """Whether the last such call did not end well; `even_if_ok`: it ended well, and still does not suffice."""
        for arguments, status in self._earlier(tool, args):
            if _is_repeated(arguments, status, args):
                return even_if_ok or status not in (None, "ok")
        return False

    def _earlier(self, tool: str, args: Mapping[str, Any]) -> Iterable[EarlierCall]:
        """The earlier calls of a tool that may have had these arguments, newest first."""
        return ((call.args, call.status) for call in reversed(self._conversation.calls_of(tool, args)))

    def _is_feasible(self, text: str, untried: Sequence[CallSequence], explanation: Explanation) -> bool:
        """Whether a text names no other tool than the denied one, or at least one that is allowed and worth a try."""
        named = self._policies.named_in(text) - {self._call.tool if self._call else ""}
        if not named:
            return True
        args = {tool: args for sequence in untried for tool, args in sequence}
        tried = {tool for sequence in explanation.sequences for tool, _ in sequence} - args.keys()
        calls = [(tool, args.get(tool, {})) for tool in sorted(named - tried)]
        return any(not self._in_vain(*call) and self._permits(*call) for call in calls)

    def _calls(self, sequences: Sequence[CallSequence]) -> str | None:
        single = [
            sequence[0] for sequence in sequences[:MAX_SEQUENCES] if len(sequence) == 1 and self._permits(*sequence[0])
        ]
        several = next((way for way in sequences if len(way) > 1 and not single and self._permits_all(way)), ())
        if not single and not several:
            return None
        names = (", then " if several else " or ").join(_call_text(*remedy_call) for remedy_call in single or several)
        return f"call {names}{' first' if self._call else ''}"

    def _changes(self, args: Mapping[str, Any] | None, text: str) -> str | None:
        if self._call is None:
            return None
        return text if args is None or self._permits(self._call.tool, {**self._call.args, **args}) else None

    def _permits(self, tool: str, args: Mapping[str, Any]) -> bool:
        return not self._halted and self._conversation.permits(self._proposed(self._conversation, tool, args))

    def _permits_all(self, sequence: CallSequence) -> bool:
        """Whether the calls are allowed one after the other, each after the success of the earlier ones."""
        if self._halted:
            return False
        trial = self._conversation.copied()
        for tool, args in sequence:
            call = self._proposed(trial, tool, args)
            trial.context.refresh(self._facts, call.principal)
            if not trial.permits(call):
                return False
            call.applicability = trial.policies.applicability(call)
            reading = trial.context.check_time
            call.time = reading and trial.context.time_of(reading)
            trial.reserve(call, None)
            trial.settle(call, None, "ok")
        return True

    def _proposed(self, conversation: ConversationState, tool: str, args: Mapping[str, Any]) -> SessionCall:
        call = SessionCall(tool, args, len(conversation.calls) + 1)
        call.facts = self._facts
        if self._call is not None:
            call.agent, call.principal = self._call.agent, self._call.principal
        return call


class FixedRemedies(Remedies):
    """The remedies for a denied call, as they were at its verdict, without the session.

    Args:
        policies: the policies.
        tool: the tool of the denied call.
        earlier: see `earlier_calls`. Calls of these tools are allowed at any time.
        halted: whether the session was halted.
    """

    def __init__(
        self, policies: Policies, tool: str, earlier: Mapping[str, Sequence[EarlierCall]], *, halted: bool
    ) -> None:
        self._policies, self._call, self._of_tool, self._halted = policies, SessionCall(tool, {}), earlier, halted

    def _earlier(self, tool: str, _args: Mapping[str, Any]) -> Iterable[EarlierCall]:
        return self._of_tool[tool]

    def _permits(self, _tool: str, _args: Mapping[str, Any]) -> bool:
        return not self._halted

    def _permits_all(self, _sequence: CallSequence) -> bool:
        return not self._halted


def earlier_calls(
    conversation: ConversationState, tool: str, broken: Broken
) -> Mapping[str, Sequence[EarlierCall]] | None:
    """The earlier calls of each tool that a remedy for a call of `tool` can name, newest first.

    None if a remedy depends on more than these few calls, and so has to be found at once.
    """
    policies, earlier = conversation.policies, _NO_CALLS
    for source, result in broken:
        if result.suggested is None:
            return None
        tools: Iterable[str] = result.suggested
        if source.remedy is not None and not source.in_pack:
            tools = {*tools, *policies.named_in(source.remedy)} - {tool}
        for name in tools:
            calls = conversation.calls_of(name, {})
            if len(calls) > MAX_EARLIER or not policies.always_allows(name):
                return None
            earlier = {**earlier, name: [(call.args, call.status) for call in reversed(calls)]}
    return earlier


def _is_repeated(arguments: Mapping[str, Any], status: CallStatus | None, args: Mapping[str, Any]) -> bool:
    """Whether a call had these arguments, among others, and ran or may have run."""
    if status == "withdrawn":
        return False
    for name, value in args.items():
        argument = arguments.get(name)
        if (type(argument) is str and type(value) is str and argument != value) or equal(argument, value) is not True:
            return False
    return True


def _call_text(tool: str, args: Mapping[str, Any]) -> str:
    """A call with its scalar arguments."""
    known = [f"{name}={shown(value)}" for name, value in args.items() if kind_of(value) in _SCALARS]
    return f"'{tool}({', '.join(known)})'" if known else f"'{tool}'"


def message_of(source: RuleMetadata, explanation: Explanation, remedy: str | None, *, earlier: bool) -> str:
    """The message for a violated rule, in one line: the author's message and the violating facts.

    Args:
        source: the rule.
        explanation: that of the violation.
        remedy: the remedy, if there is one.
        earlier: whether missing calls were needed before this call; otherwise by the end.
    """
    if source.message_line:
        return f"{source.message_line} ({explanation.because})" if explanation.because else source.message_line
    if explanation.needed:
        return f"needed: {explanation.needed}"
    if explanation.missing:
        denied = "" if remedy else ", but it may be denied in turn"
        return f"needed: {'an earlier' if earlier else 'a'} call {' or '.join(explanation.missing)}{denied}"
    return explanation.because or source.default_message
