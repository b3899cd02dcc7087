"""The conversations of a server of completions. Their history is what the guard allowed, and the results of that.

A client's messages can confirm this history, and add the results of calls that were allowed; they can add no call.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from guardagent.enforcement import HostCall, Outcome, ToolGuard, ToolSpec
from guardagent.enforcement.conversations import NotBegunError
from guardagent.errors import GuardError, InputError
from guardagent.generation.local.tool_schemas import read_tools
from guardagent.server.completions.requests import ChatRequest, ShownCall
from guardagent.session.calls import ClaimConflictError, NotClaimedError
from guardagent.session.session import Session
from guardagent.types import Verdict, sorted_json
from guardagent.types.values import SessionPrincipal

_KNOWN_TOOLS = 1000  # lists of tools that were compared with the rules


class BusyConversationError(GuardError):
    """Another request of the conversation is running."""


@dataclass(slots=True)
class ServedTurn:
    """A turn of a conversation, which has the conversation to itself until it ends.

    Attributes:
        conversation: the id of the conversation.
        guard: judges its calls.
        call_ids: the ids of the calls that are in flight, in the order of the turn.
    """

    conversation: str
    guard: ToolGuard
    call_ids: list[str] = field(default_factory=list)

    @property
    def session(self) -> Session:
        return self.guard.claimed_calls.session(self.conversation)

    def reserve(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Verdict]:
        """Reserves calls, all or none. See `ReserveCalls`."""
        verdicts = []
        for tool, args in calls:
            call_id = f"call_{secrets.token_hex(12)}"
            verdict = self.guard.before(HostCall(tool, args, self.conversation, call_id, claim=call_id))
            verdicts.append(verdict)
            if verdict.label:
                self.withdraw("it belongs to a turn with a call that is denied")
                break
            self.call_ids.append(call_id)
        return verdicts

    def withdraw(self, why: str) -> None:
        """Withdraws the calls, which no client got."""
        while self.call_ids:
            self.guard.claimed_calls.withdraw(self.conversation, self.call_ids.pop(), why)

    def judge_answer(self, request: ChatRequest, text: str) -> Verdict:
        """Judges an answer without calls."""
        questions = [one["content"] for one in request.messages if one["role"] == "user"]
        return self.guard.answer(self.conversation, questions[-1] if questions else "", text)


class ServedConversations:
    """The conversations.

    Args:
        guard: judges their calls.
        principals: the principals of conversations that begin, which the guard reads; None if callers are not known.

    Raises:
        InputError: the rules need more than a server of completions has.
    """

    def __init__(self, guard: ToolGuard, principals: dict[str, Any] | None = None) -> None:
        policies = guard.policies
        if policies.sources is not None or policies.asks_models:
            raise InputError(
                "rules with 'sources(...)' or in natural language read the conversation, which this server does not "
                "have from a trusted source; expected rules about calls"
            )
        self._guard, self._principals = guard, principals
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._compared: set[tuple[str, ...]] = set()

    def begin(self, name: str, request: ChatRequest, caller: SessionPrincipal | None = None) -> ServedTurn:
        """Begins a turn, after the client's messages are compared with the history.

        Args:
            name: the caller's name of the conversation.
            request: has the messages.
            caller: who sends it; None if callers are not known.

        Raises:
            InputError: the messages show another history, or a tool is invalid.
            BusyConversationError: another request of this conversation is running.
            GuardError: the state cannot be read or written.
        """
        self._compare_tools(request.tools)
        conversation = json.dumps([None if caller is None else [caller.tenant, caller.id], name])
        if self._principals is not None and caller is not None:
            self._principals[conversation] = caller.value
        with self._lock:
            if conversation in self._busy:
                raise BusyConversationError("another request of this conversation is running; send it again later")
            self._busy.add(conversation)
        try:
            for call in request.calls:
                self._confirm(conversation, call)
            for call_id, result in request.results.items():
                self._record(conversation, call_id, result)
            if request.is_new_turn:
                self._guard.turn(conversation)
        except BaseException:
            self._busy.discard(conversation)
            raise
        return ServedTurn(conversation, self._guard)

    def end(self, turn: ServedTurn) -> None:
        """Ends a turn: other requests of its conversation may come."""
        self._busy.discard(turn.conversation)

    # --- internals

    def _confirm(self, conversation: str, call: ShownCall) -> None:
        found = self._guard.claimed_calls.session(conversation).claimed(call.id)
        if found is None or found.status == "withdrawn":
            raise InputError(
                f"the messages show the call {call.id!r} of {call.tool!r}, which was not allowed in this conversation; "
                "expected the conversation's own messages, or a new conversation"
            )
        if (found.tool, sorted_json(found.args)) != (self._guard.names.resolve(call.tool), sorted_json(call.args)):
            raise InputError(f"the messages show the call {call.id!r} otherwise than it was allowed")

    def _record(self, conversation: str, call_id: str, result: str) -> None:
        try:
            self._guard.claimed_calls.record(conversation, call_id, Outcome(result))
        except (NotClaimedError, NotBegunError):
            raise InputError(
                f"the messages show a result of the call {call_id!r}, which was not allowed in this conversation"
            ) from None
        except ClaimConflictError:
            raise InputError(f"the call {call_id!r} has another result already; expected that one") from None

    def _compare_tools(self, tools: Sequence[Any]) -> None:
        """Compares a list of tools with the rules, once.

        Raises:
            InputError: a tool is invalid, or probably misspelt in a rule.
        """
        schemas = read_tools(tools)
        specs = [ToolSpec(one.name, one.schema) for one in schemas.values()]
        key = tuple(sorted(one.digest for one in specs))
        if specs and key not in self._compared:
            self._guard.attach(specs)
            if len(self._compared) >= _KNOWN_TOOLS:
                self._compared.clear()
            self._compared.add(key)
