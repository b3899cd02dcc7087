"""The ASGI application of a server of completions, with the interface of OpenAI's chat completions.

A conversation is named by the header `X-GuardAgent-Session`, and belongs to the caller. An answer is whole, or chunks
of a stream. Text is streamed as soon as it cannot change any more; calls, and answers that a rule judges, when they
were judged.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, Router

from guardagent._support import http
from guardagent._support.http import HttpAdmission, RefusedError, RequestLimits
from guardagent.enforcement.wire import loads
from guardagent.errors import GuardError, InputError, error_text
from guardagent.generation.local import GeneratedTurn, TurnRequest
from guardagent.generation.local.decoder import Mode
from guardagent.server.completions import generation
from guardagent.server.completions.requests import ChatRequest, read_chat_request
from guardagent.types import Verdict, thaw
from guardagent.types.values import SessionPrincipal

# --- answers

JSON = dict[str, Any]


class ChatCompletion:
    """Writes the answer to one request.

    Args:
        model: the name of the model.
    """

    def __init__(self, model: str) -> None:
        self._head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": model}

    def whole(self, turn: GeneratedTurn, text: str, call_ids: Sequence[str], prompt_tokens: int) -> JSON:
        """Returns the answer.

        Args:
            turn: the turn.
            text: its text, or what replaces it.
            call_ids: the ids of its calls.
            prompt_tokens: the number of tokens of the prompt.
        """
        message: JSON = {"role": "assistant", "content": text or None, "refusal": None}
        if calls := _calls(turn, call_ids):
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": _reason(turn), "logprobs": None}
        kind = {"object": "chat.completion", "choices": [choice], "usage": _usage(turn, prompt_tokens)}
        return {**self._head, **kind, "guardagent": _report(turn)}

    def begin(self) -> JSON:
        """Returns the first chunk of a stream."""
        return self._chunk({"role": "assistant", "content": ""})

    def text(self, text: str) -> JSON:
        """Returns a chunk with a part of the text."""
        return self._chunk({"content": text})

    def end(self, turn: GeneratedTurn, call_ids: Sequence[str]) -> Iterator[JSON]:
        """Yields the last chunks: the calls, each as a whole, and the reason of the end."""
        for at, call in enumerate(_calls(turn, call_ids)):
            yield self._chunk({"tool_calls": [{"index": at, **call}]})
        yield {**self._chunk({}, _reason(turn)), "guardagent": _report(turn)}

    def usage(self, turn: GeneratedTurn, prompt_tokens: int) -> JSON:
        """Returns the chunk with the numbers of tokens."""
        return {**self._chunk({}), "choices": [], "usage": _usage(turn, prompt_tokens)}

    def _chunk(self, delta: JSON, reason: str | None = None) -> JSON:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}


def _calls(turn: GeneratedTurn, call_ids: Sequence[str]) -> list[JSON]:
    return [
        {
            "id": call_id,
            "type": "function",
            "function": {"name": call.tool, "arguments": json.dumps(thaw(call.args), ensure_ascii=False)},
        }
        for call, call_id in zip(turn.calls, call_ids, strict=True)
    ]


def _reason(turn: GeneratedTurn) -> str:
    if turn.calls:
        return "tool_calls"
    return "length" if turn.ended == "length" else "stop"


def _usage(turn: GeneratedTurn, prompt_tokens: int) -> JSON:
    written = len(turn.tokens)
    return {"prompt_tokens": prompt_tokens, "completion_tokens": written, "total_tokens": prompt_tokens + written}


def _report(turn: GeneratedTurn) -> JSON:
    """The work of the guard, without the evidence of denials, as a user may read this."""
    return {
        "ended": turn.ended,
        "denied": dict(turn.denied),
        "backtracks": turn.backtracks,
        "discarded_tokens": turn.discarded,
    }


# --- the application

SESSION = "x-guardagent-session"
_MAX_NAME = 200
_TYPES = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
_log = logging.getLogger("guardagent")


@dataclass(frozen=True, slots=True)
class CompletionSettings:
    """The settings of a server of completions.

    Attributes:
        model: the name of the model.
        mode: the mode of decoding; without sampling it is `fast`, as `exact` would repeat a denied call.
        max_tokens: the most tokens of a turn.
        tool_format: the format of calls.
    """

    model: str
    mode: Mode = "exact"
    max_tokens: int = 1024
    tool_format: str = "auto"


class CompletionsApplication:
    """Serves chat completions.

    Args:
        settings: the settings.
        conversations: the conversations.
        thread: generates turns.
        admission: decides whose requests are accepted.
        limits: the limits on clients.
    """

    def __init__(
        self,
        settings: CompletionSettings,
        conversations: generation.ServedConversations,
        thread: generation.GenerationThread,
        admission: HttpAdmission,
        limits: RequestLimits | None = None,
    ) -> None:
        self._settings, self._conversations, self._thread = settings, conversations, thread
        self._admission, self._limits = admission, limits or RequestLimits()
        self._router = Router(
            [
                Route("/v1/chat/completions", self._answered(self._complete), methods=["POST"]),
                Route("/v1/models", self._answered(self._models), methods=["GET"]),
                Route("/healthz", self._health, methods=["GET"]),
            ],
            redirect_slashes=False,
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handles one HTTP request."""
        if scope["type"] != "http":
            return
        try:
            await self._router(scope, receive, http.timed(send, self._limits.receive_seconds))
        except TimeoutError:
            _log.warning("a client does not read its answer; its connection is closed")

    async def _health(self, _: Request) -> Response:
        return _json({"status": "ok"}) if self._thread.is_alive else Response(status_code=503)

    def _answered(self, handle: Callable[[Request, SessionPrincipal | None], Any]) -> Any:
        async def run(request: Request) -> Response:
            try:
                return await handle(request, await self._caller(request))  # type: ignore[no-any-return]
            except Exception as error:  # noqa: BLE001 - every error is an answer
                return _failed(error)

        return run

    async def _caller(self, request: Request) -> SessionPrincipal | None:
        """The caller; None if callers are not known."""
        read = http.request_of(request.scope)
        self._admission.require_one_length(read)
        self._admission.require_known_host(read)
        return await self._admission.admit(read)

    async def _models(self, _: Request, __: SessionPrincipal | None) -> Response:
        model = {"id": self._settings.model, "object": "model", "created": 0, "owned_by": "guardagent"}
        return _json({"object": "list", "data": [model]})

    # --- completions

    async def _complete(self, request: Request, caller: SessionPrincipal | None) -> Response:
        if self._thread.is_full:
            raise RefusedError(503, "too many turns wait for the model", head=[(b"retry-after", b"1")])
        text = await http.body_of(request.receive, self._limits.body, self._limits.receive_seconds)
        chat = read_chat_request(loads(text, self._limits.body))
        if chat.model != self._settings.model:
            raise RefusedError(404, f"there is no model {chat.model[:60]!r}; expected {self._settings.model!r}")
        turn = await run_in_threadpool(self._conversations.begin, _session(request), chat, caller)
        stream = None
        try:
            decoding = await run_in_threadpool(self._request, chat, turn)
            is_stream = chat.is_stream and not turn.guard.judges_answers
            stream = self._thread.submit(decoding, turn, is_stream=is_stream)
        finally:
            if stream is None:
                self._conversations.end(turn)
        if chat.is_stream:
            return _StreamedTurn(self._chunks(chat, stream), lambda: self._leave(stream))
        return await self._whole(request, chat, stream)

    def _request(self, chat: ChatRequest, turn: generation.ServedTurn) -> TurnRequest:
        settings = self._settings
        most = settings.max_tokens if chat.max_tokens is None else min(chat.max_tokens, settings.max_tokens)
        mode: Mode = "fast" if chat.sampling.get("do_sample") is False else settings.mode
        request = TurnRequest(
            chat.messages, chat.tools, turn.session, mode=mode, max_new_tokens=most,
            tool_format=settings.tool_format, tool_choice=chat.tool_choice, reserve=turn.reserve, **chat.sampling,
        )  # fmt: skip
        prompt = request.prompt(self._thread.batch.tokenizer)  # here, as the model's thread has other turns to advance
        if chat.max_tokens is None:
            most = max(1, min(most, self._thread.batch.max_length - len(prompt)))
        return replace(request, messages=prompt, max_new_tokens=most)

    async def _whole(self, request: Request, chat: ChatRequest, stream: generation.TurnStream) -> Response:
        collecting = asyncio.ensure_future(self._last(stream))
        leaving = asyncio.ensure_future(http.gone(request.receive))
        try:
            await asyncio.wait({collecting, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not collecting.done():
                raise RefusedError(499, "the client has left")
            turn = collecting.result()
            text = await self._text(chat, stream, turn)
            body = ChatCompletion(chat.model).whole(turn, text, stream.turn.call_ids, _prompt_size(stream))
            stream.is_delivered = True
            return _json(body)
        finally:
            collecting.cancel()
            leaving.cancel()
            self._leave(stream)

    async def _chunks(self, chat: ChatRequest, stream: generation.TurnStream) -> AsyncIterator[bytes]:
        completion = ChatCompletion(chat.model)
        try:
            yield _event(completion.begin())
            async for event in stream.events():
                if isinstance(event, str):
                    yield _event(completion.text(event))
                    continue
                rest = (await self._text(chat, stream, event))[stream.sent :]
                if rest:
                    yield _event(completion.text(rest))
                stream.is_delivered = True  # a client that leaves now may have the calls
                for chunk in completion.end(event, stream.turn.call_ids):
                    yield _event(chunk)
                if chat.has_usage:
                    yield _event(completion.usage(event, _prompt_size(stream)))
            yield b"data: [DONE]\n\n"
        except Exception as error:  # noqa: BLE001 - the status is sent; the error is the last event
            yield _event(json.loads(bytes(_failed(error).body)))

    def _leave(self, stream: generation.TurnStream) -> None:
        if stream.is_delivered:
            self._conversations.end(stream.turn)
        else:
            stream.abandon()

    async def _last(self, stream: generation.TurnStream) -> GeneratedTurn:
        async for event in stream.events():
            if isinstance(event, GeneratedTurn):
                return event
        raise GuardError("the turn could not be generated")

    async def _text(self, chat: ChatRequest, stream: generation.TurnStream, turn: GeneratedTurn) -> str:
        """The text of a turn; what a rule says instead, if it forbids this answer."""
        if turn.calls or not stream.turn.guard.judges_answers:
            return turn.text
        verdict: Verdict = await run_in_threadpool(partial(stream.turn.judge_answer, chat, turn.text))
        return "\n".join(["I cannot answer this.", *verdict.reasons]) if verdict.label else turn.text


class _StreamedTurn(StreamingResponse):
    """A streamed answer. A client can leave before its first part, so the turn ends here and not among the parts.

    Args:
        chunks: the parts.
        leave: ends the turn.
    """

    def __init__(self, chunks: AsyncIterator[bytes], leave: Callable[[], None]) -> None:
        super().__init__(chunks, media_type="text/event-stream", headers=_HEADERS)
        self._leave = leave

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def _session(request: Request) -> str:
    names = request.headers.getlist(SESSION)
    if len(names) != 1 or not 0 < len(names[0]) <= _MAX_NAME or not names[0].isprintable():
        raise InputError(
            f"the header X-GuardAgent-Session names no conversation; expected it once, with one id of up to "
            f"{_MAX_NAME} characters for all requests of a conversation"
        )
    return names[0]


def _prompt_size(stream: generation.TurnStream) -> int:
    return 0 if stream.pending is None else len(stream.pending.prompt)


def _failed(error: Exception) -> Response:
    status, message, headers = 500, "the server failed; its log has more", dict(_HEADERS)
    if isinstance(error, RefusedError):
        status, message = error.status, str(error)
        headers |= {name.decode(): value.decode() for name, value in error.head or []}
    elif isinstance(error, generation.BusyConversationError):
        status, message = 409, str(error)
    elif isinstance(error, InputError):
        status, message = 400, str(error)
    elif isinstance(error, GuardError):
        status, message = 503, "the state cannot be read or written at present, or the model failed"
        _log.error("a request failed: %s", error)
    else:
        _log.error("a request failed: %s", error_text(error), exc_info=error)
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return JSONResponse({"error": {"message": message, "type": kind, "param": None, "code": None}}, status, headers)


def _json(value: Any) -> Response:
    return Response(json.dumps(value, ensure_ascii=True), 200, _HEADERS, media_type="application/json")


def _event(value: Any) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=True).encode() + b"\n\n"
