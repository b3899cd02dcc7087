"""The thread that runs the model. All requests share its batch; what a client left is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import AsyncIterator
from typing import Any

from guardagent.errors import GuardError, error_text
from guardagent.generation.local import GeneratedTurn, GuardedBatch, PendingTurn, TurnRequest
from guardagent.server.completions.generation import ServedConversations, ServedTurn

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
