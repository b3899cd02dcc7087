"""The conversations of a server of completions, and the thread that runs the model.

The history of a conversation is what the guard allowed, and the results of that. A client's messages can confirm this
history, and add the results of calls that were allowed; they can add no call.

All requests share the batch of the thread; turns whose clients left are cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import queue
import secrets
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from guardagent.enforcement import HostCall, Outcome, ToolGuard, ToolSpec
from guardagent.enforcement.conversations import NotBegunError
from guardagent.errors import GuardError, InputError, error_text
from guardagent.generation.local import GeneratedTurn, GuardedBatch, PendingTurn, TurnRequest
from guardagent.generation.local.tool_schemas import read_tools
from guardagent.server.completions.requests import ChatRequest, ShownCall
from guardagent.session.calls import ClaimConflictError, NotClaimedError
from guardagent.session.session import Session
from guardagent.types import Verdict, sorted_json
from guardagent.types.values import SessionPrincipal

# --- conversations

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
        questions = [message["content"] for message in request.messages if message["role"] == "user"]
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
        session_call = self._guard.claimed_calls.session(conversation).claimed(call.id)
        if session_call is None or session_call.status == "withdrawn":
            raise InputError(
                f"the messages show the call {call.id!r} of {call.tool!r}, which was not allowed in this conversation; "
                "expected the conversation's own messages, or a new conversation"
            )
        if (session_call.tool, sorted_json(session_call.args)) != (
            self._guard.names.resolve(call.tool),
            sorted_json(call.args),
        ):
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
        specs = [ToolSpec(schema.name, schema.schema) for schema in schemas.values()]
        key = tuple(sorted(spec.digest for spec in specs))
        if specs and key not in self._compared:
            self._guard.attach(specs)
            if len(self._compared) >= _KNOWN_TOOLS:
                self._compared.clear()
            self._compared.add(key)


# --- the thread

_log = logging.getLogger("guardagent")


class TurnStream:
    """A turn on its way to a client. Belongs to the event loop that made it.

    Args:
        thread: generates the turn.
        request: asks for it.
        turn: its place in the conversation.
        is_stream: whether the text is wanted before the turn has ended.
    """

    def __init__(self, thread: GenerationThread, request: TurnRequest, turn: ServedTurn, *, is_stream: bool) -> None:
        self.request, self.turn, self.is_stream = request, turn, is_stream
        self.pending: PendingTurn | None = None
        self.sent = 0  # the number of characters that were passed on
        self.is_delivered = False  # whether the client may have the calls
        self._thread, self._loop = thread, asyncio.get_running_loop()
        self._events: asyncio.Queue[str | GeneratedTurn | Exception] = asyncio.Queue()

    def put(self, event: str | GeneratedTurn | Exception) -> None:
        """Passes an event on; for the thread of the model."""
        with contextlib.suppress(RuntimeError):  # the loop was closed, with the server
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def events(self) -> AsyncIterator[str | GeneratedTurn]:
        """Yields parts of the text as they settle, and at last the turn.

        Raises:
            InputError: the request is invalid.
            GuardError: the turn was not generated.
        """
        while True:
            event = await self._events.get()
            if isinstance(event, Exception):
                raise event
            yield event
            if isinstance(event, GeneratedTurn):
                return

    def abandon(self) -> None:
        """Ends the turn whose client has left: its calls are withdrawn."""
        self._thread.abandon(self)


class GenerationThread:
    """Generates turns in a thread of its own.

    Args:
        batch: generates them; nothing else may step it.
        conversations: has their conversations.
        most: the most turns that are generated or wait.
    """

    def __init__(self, batch: GuardedBatch, conversations: ServedConversations, most: int) -> None:
        self.batch, self._conversations, self._most = batch, conversations, most
        self._inbox: queue.SimpleQueue[tuple[str, TurnStream | None]] = queue.SimpleQueue()
        self._open: list[TurnStream] = []
        self._count = 0
        self._thread = threading.Thread(target=self._run, name="guardagent-generation", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_full(self) -> bool:
        return self._count >= self._most

    def submit(self, request: TurnRequest, turn: ServedTurn, *, is_stream: bool) -> TurnStream:
        """Starts to generate a turn."""
        stream = TurnStream(self, request, turn, is_stream=is_stream)
        self._count += 1
        self._inbox.put(("begin", stream))
        return stream

    def abandon(self, stream: TurnStream) -> None:
        self._inbox.put(("abandon", stream))

    def close(self) -> None:
        """Ends the thread. Turns that are not finished end without calls."""
        self._inbox.put(("close", None))
        self._thread.join(timeout=10)

    # --- in the thread

    def _run(self) -> None:
        while True:
            try:
                if not self._receive():
                    return
                self._advance()
            except Exception as error:  # noqa: BLE001 - such as no memory: every turn fails, and the next may go well
                _log.error("generation failed: %s", error_text(error), exc_info=error)
                self._fail_all()

    def _receive(self) -> bool:
        """Handles what has arrived; waits if there is nothing to generate. Returns False at the end."""
        while True:
            try:
                kind, stream = self._inbox.get(block=self.batch.is_idle)
            except queue.Empty:
                return True
            if stream is None:
                self._fail_all()
                return False
            if kind == "begin":
                self._begin(stream)
            else:
                self._end_abandoned(stream)

    def _begin(self, stream: TurnStream) -> None:
        try:
            stream.pending = self.batch.add(stream.request)
        except Exception as error:  # noqa: BLE001 - such as that of a chat template
            self._count -= 1
            stream.put(error)
        else:
            self._open.append(stream)

    def _advance(self) -> None:
        self.batch.step()
        for stream in list(self._open):
            pending = stream.pending
            assert pending is not None
            if pending.is_done:
                self._close(stream)
                stream.put(_result(pending))
            elif stream.is_stream and len(text := pending.settled_text) > stream.sent:
                stream.put(text[stream.sent :])
                stream.sent = len(text)

    def _end_abandoned(self, stream: TurnStream) -> None:
        if stream.pending is not None:
            stream.pending.cancel()
            if stream in self._open:
                self._close(stream)
        try:
            stream.turn.withdraw("its client has left before it got the call")
        except Exception as error:  # noqa: BLE001 - the call stays in flight
            _log.error("a call that no client got stays in flight: %s", error_text(error))
        self._conversations.end(stream.turn)

    def _close(self, stream: TurnStream) -> None:
        self._open.remove(stream)
        self._count -= 1

    def _fail_all(self) -> None:
        for stream in list(self._open):
            assert stream.pending is not None
            stream.pending.cancel()
            self._close(stream)
            stream.put(GuardError("the turn could not be generated"))


def _result(pending: PendingTurn) -> Any:
    try:
        return pending.result()
    except Exception as error:  # noqa: BLE001 - it is passed on
        return error
