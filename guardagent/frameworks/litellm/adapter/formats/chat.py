"""Chat completions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Any

from litellm import stream_chunk_builder
from litellm.types.utils import Delta, ModelResponse, ModelResponseStream, StreamingChoices

from guardagent.enforcement import Outcome, ToolSpec
from guardagent.enforcement.schema import read_object
from guardagent.errors import InputError
from guardagent.frameworks.litellm.adapter import formats

_RICH = ("reasoning_content", "thinking_blocks", "audio", "images", "annotations", "provider_specific_fields")
_LEGACY = "'functions' and 'function_call' name no id of a call, so no result can be confirmed; expected 'tools'"


class ChatApi(formats.ModelApi):
    """`/chat/completions`."""

    call_type = "acompletion"

    def tools(self, data: formats.Data, unguarded: Collection[str]) -> list[ToolSpec]:
        if data.get("functions") or data.get("function_call"):
            raise InputError(_LEGACY)
        if data.get("web_search_options") is not None:
            formats.refuse_kind("web_search_options", unguarded)
        tools = []
        for definition in formats.listed(data, "tools"):
            tool = formats.member(definition, "a tool")
            if tool.get("type", "function") != "function":
                formats.refuse_kind(str(tool.get("type")), unguarded)
                continue
            tools.append(_spec(formats.member(tool.get("function"), "the function of a tool")))
        if tools and data.get("n") not in (None, 1):
            raise InputError("the calls of several choices are alternatives, of which no guard knows one; expected n=1")
        return tools

    def history(self, data: formats.Data, unguarded: Collection[str]) -> formats.ShownHistory:  # noqa: ARG002 - one interface
        messages = [formats.member(message, "a message") for message in formats.listed(data, "messages")]
        calls: list[formats.GatewayCall] = []
        results: dict[str, Outcome] = {}
        for message in messages:
            if message.get("role") == "function" or message.get("function_call"):
                raise InputError(_LEGACY)
            calls += [_call(call) for call in message.get("tool_calls") or ()]
            if message.get("role") == "tool":
                formats.add_result(results, message.get("tool_call_id"), formats.outcome_of(message.get("content")))
        plain = [
            {"role": str(chat_message.get("role")), "content": formats.content_text(chat_message.get("content"))}
            for chat_message in messages
        ]
        users = [entry["content"] for entry in plain if entry["role"] == "user"]
        last = plain[-1]["role"] if plain else ""
        return formats.ShownHistory(plain, calls, results, users[-1] if users else "", last == "user")

    def with_feedback(
        self, data: formats.Data, message: formats.ModelMessage, denials: Mapping[int, str]
    ) -> dict[str, Any]:
        proposed = message.body["choices"][0]["message"]
        ids = [call.id or f"call_{at}" for at, call in enumerate(message.calls)]
        calls = [
            {"id": ids[at], "type": "function", "function": {"name": call.name, "arguments": _readable(call.args)}}
            for at, call in enumerate(message.calls)
        ]
        spoken = {**proposed, "role": "assistant", "tool_calls": calls}
        replies = [{"role": "tool", "tool_call_id": ids[at], "content": text} for at, text in denials.items()]
        return {**data, "messages": [*data["messages"], spoken, *replies]}

    def read(self, response: Any, unguarded: Collection[str]) -> formats.ModelMessage:  # noqa: ARG002 - one interface
        if not isinstance(response, ModelResponse | _JoinedStream):
            raise InputError(f"the response is a {type(response).__name__}; expected that of one model")
        body = response if isinstance(response, _JoinedStream) else response.model_dump()
        messages = [choice.get("message") or {} for choice in body["choices"]]
        if any(message.get("function_call") for message in messages):
            raise InputError(_LEGACY)
        calls = [_call(call) for message in messages for call in message.get("tool_calls") or ()]
        if calls and len(messages) > 1:
            raise InputError("several choices of a response have tool calls; expected one choice")
        texts = [
            formats.content_text([formats.content_text(message.get("content")), message]) for message in messages
        ]  # with its `refusal`
        return formats.ModelMessage(body, calls, texts)

    def rewritten(self, response: Any, message: formats.ModelMessage, changes: formats.Rewriting) -> ModelResponse:
        body = dict(message.body)
        body["choices"] = [_choice(choice, changes) for choice in message.body["choices"]]
        model_response = ModelResponse(**body)
        model_response._hidden_params = getattr(response, "_hidden_params", {})  # noqa: SLF001 - the host reads costs from it
        return model_response

    # --- streams

    def frames(self, chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
        return chunks

    def has_call(self, frame: Any) -> bool:
        if not isinstance(frame, ModelResponseStream):
            return True
        deltas = [choice.delta for choice in frame.choices]
        return any(getattr(delta, name, None) for delta in deltas for name in ("tool_calls", "function_call"))

    def assembled(self, frames: Sequence[Any]) -> ModelResponse | _JoinedStream:
        odd = next((frame for frame in frames if not isinstance(frame, ModelResponseStream)), None)
        if odd is not None:
            raise InputError(f"a part of the stream is a {type(odd).__name__}; expected chunks of a chat completion")
        if any(choice.index for frame in frames for choice in frame.choices):
            raise InputError("a stream with several choices cannot be judged; expected n=1")
        if any(choice.delta.function_call for frame in frames for choice in frame.choices):
            raise InputError(_LEGACY)
        chunk_builder = stream_chunk_builder(list(frames)) if _is_rich(frames) or not frames else _joined(frames)
        if not isinstance(chunk_builder, ModelResponse | _JoinedStream):
            raise InputError("the stream of the model has no message")
        deltas = [choice.delta for frame in frames for choice in frame.choices]
        if refusal := "".join((delta.model_extra or {}).get("refusal") or "" for delta in deltas):
            chunk_builder["choices"][0]["message"]["refusal"] = refusal
        return chunk_builder

    def joins_alike(self, frames: Sequence[Any], response: Any) -> bool:
        return isinstance(response, _JoinedStream) and _is_orderly(frames)

    def restreamed(
        self, frames: Sequence[Any], response: Any, message: formats.ModelMessage, changes: formats.Rewriting
    ) -> list[Any]:
        if not changes.calls:
            return super().restreamed(frames, response, message, changes)
        calls = [
            {
                "id": call.id,
                "type": "function",
                "index": at,
                "function": {"name": call.name, "arguments": formats.as_json(call.args)},
            }
            for at, call in enumerate(changes.calls.values())
        ]
        delta = Delta(content=changes.note or None, tool_calls=calls)  # clients join roles, and the first part has one
        added = _like(frames[0], StreamingChoices(index=0, delta=delta))
        kept = [_without_calls(frame) for frame in frames]
        ends = (at for at, frame in enumerate(kept) if any(choice.finish_reason for choice in frame.choices))
        end = next(ends, len(kept))
        return [*kept[:end], added, *kept[end:]]

    def streamed(self, response: ModelResponse) -> Iterable[ModelResponseStream]:
        about = _about(response)
        choice = response.choices[0]
        message = {name: value for name, value in choice.message.model_dump().items() if value is not None}
        calls = [{**tool_call, "index": at} for at, tool_call in enumerate(message.get("tool_calls") or ())]
        delta = Delta(**{**message, "role": "assistant", "tool_calls": calls or None})
        yield ModelResponseStream(**about, choices=[StreamingChoices(index=0, delta=delta)])
        end = StreamingChoices(index=0, delta=Delta(), finish_reason=choice.finish_reason)
        yield ModelResponseStream(**about, choices=[end])
        if (usage := getattr(response, "usage", None)) is not None:
            last = ModelResponseStream(**about, choices=[StreamingChoices(index=0, delta=Delta())])
            last.usage = usage
            yield last


def _spec(function: Mapping[str, Any]) -> ToolSpec:
    schema = function.get("parameters") or {}
    return ToolSpec(
        tool_name(function), formats.member(schema, "the parameters of a tool"), str(function.get("description", ""))
    )


def tool_name(declaration: Mapping[str, Any]) -> str:
    """Returns the name of a declared tool.

    Raises:
        InputError: it has none.
    """
    name = declaration.get("name")
    if not isinstance(name, str) or not name:
        raise InputError(f"the name of a tool is {name!r}; expected a string")
    return name


def _call(value: Any) -> formats.GatewayCall:
    """Reads a call. One that is not a call of a function is refused, since nothing could judge it."""
    call = formats.member(value, "a tool call")
    if call.get("type") not in (None, "function"):
        raise InputError(f"a tool call is of the type {call.get('type')!r}; expected calls of functions")
    function = formats.member(call.get("function"), "the function of a tool call")
    name = function.get("name")
    return formats.GatewayCall(
        formats.call_id(call.get("id")), name if isinstance(name, str) else "", function.get("arguments")
    )


def _readable(args: Any) -> str:
    """Returns arguments that every provider can read back."""
    try:
        read_object(args or "", "")
    except (InputError, TypeError):
        return "{}"
    return args or "{}"


def _choice(choice: Mapping[str, Any], changes: formats.Rewriting) -> dict[str, Any]:
    message = dict(choice.get("message") or {})
    calls = message.pop("tool_calls", None) or ()
    kept = [_kept(call, changes.calls[at]) for at, call in enumerate(calls) if at in changes.calls]
    if not kept:
        return {**choice, "message": {"role": "assistant", "content": changes.note}, "finish_reason": "stop"}
    note = [text for text in (formats.content_text(message.get("content")), changes.note) if text]
    message["content"] = "\n\n".join(note) if changes.note else message.get("content")
    return {**choice, "message": {**message, "tool_calls": kept}, "finish_reason": "tool_calls"}


def _kept(call: Mapping[str, Any], judged: formats.GatewayCall) -> dict[str, Any]:
    return {**call, "id": judged.id, "function": {**call["function"], "arguments": formats.as_json(judged.args)}}


def _about(response: Any) -> dict[str, Any]:
    return {"id": response.id, "created": response.created, "model": response.model}


def _like(chunk: ModelResponseStream, choice: StreamingChoices) -> ModelResponseStream:
    return ModelResponseStream(**_about(chunk), choices=[choice])


def _without_calls(chunk: ModelResponseStream) -> ModelResponseStream:
    """Returns a part of a stream without its parts of calls."""
    choices = []
    for choice in chunk.choices:
        reason = "tool_calls" if choice.finish_reason else None
        delta = choice.delta.model_copy(update={"tool_calls": None})
        choices.append(choice.model_copy(update={"delta": delta, "finish_reason": reason}))
    return chunk.model_copy(update={"choices": choices})


class _JoinedStream(dict[str, Any]):
    """The response in a stream, as plain JSON."""


def _is_rich(frames: Sequence[ModelResponseStream]) -> bool:
    """Whether a stream has more than text and calls."""
    deltas = [choice.delta for frame in frames for choice in frame.choices]
    # `getattr` of a name that a pydantic object lacks takes longer than all the rest.
    named = [part for delta in deltas for part in (vars(delta), delta.model_extra or {})]
    return any(mapping.get(name) for mapping in named for name in _RICH)


def _is_orderly(frames: Sequence[ModelResponseStream]) -> bool:
    """Whether each call of a stream begins once, with its id and its name, and ends before the next one.

    Older clients of the SDK lose the second of two parts of one call, or of two choices, in one chunk.
    """
    begun, ended = 0, False
    if any(len(frame.choices) > 1 for frame in frames):
        return False
    for choice in (choice for frame in frames for choice in frame.choices):
        for at, part in enumerate(choice.delta.tool_calls or ()):
            begins = part.index == begun
            about = bool(part.id), bool(part.function.name)
            if ended or about != (begins, begins) or not (begins or (at == 0 and part.index == begun - 1 >= 0)):
                return False
            begun += begins
        ended = ended or choice.finish_reason is not None
        if choice.finish_reason not in (None, "tool_calls"):
            return False
    return begun > 0


def _joined(frames: Sequence[ModelResponseStream]) -> _JoinedStream:
    """Returns the response in a stream that has only text and calls."""
    text, calls, reason, usage = "", dict[int, dict[str, Any]](), None, None
    for frame in frames:
        usage = getattr(frame, "usage", None) or usage
        for choice in frame.choices:
            reason = choice.finish_reason or reason
            text += choice.delta.content or ""
            for part in choice.delta.tool_calls or ():
                _join_call(calls, part)
    message = {"role": "assistant", "content": text or None, "tool_calls": [calls[at] for at in sorted(calls)] or None}
    choices = [{"index": 0, "message": message, "finish_reason": reason or "stop"}]
    return _JoinedStream(_about(frames[0]), choices=choices, **({"usage": usage} if usage is not None else {}))


def _join_call(calls: dict[int, dict[str, Any]], part: Any) -> None:
    call = calls.setdefault(part.index, {"id": None, "type": "function", "function": {"name": "", "arguments": ""}})
    call["id"], call["type"] = part.id or call["id"], part.type or call["type"]
    call["function"]["name"] += part.function.name or ""
    call["function"]["arguments"] += part.function.arguments or ""
