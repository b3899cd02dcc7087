"""Anthropic's messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from guardagent.enforcement import Outcome, ToolSpec
from guardagent.enforcement.schema import read_object
from guardagent.errors import InputError
from guardagent.frameworks.litellm.adapter import formats
from guardagent.frameworks.litellm.adapter.formats.chat import tool_name

_ANY = {"type": "object"}
_PARTIAL = "partial_json"
_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class MessagesApi(formats.ModelApi):
    """`/v1/messages`."""

    call_type = "anthropic_messages"

    def tools(self, data: formats.Data, unguarded: Collection[str]) -> list[ToolSpec]:
        if data.get("mcp_servers"):
            formats.refuse_kind("mcp", unguarded)
        tools = []
        for definition in formats.listed(data, "tools"):
            tool = formats.member(definition, "a tool")
            kind = tool.get("type") or "custom"
            if kind != "custom":
                formats.refuse_kind(str(kind), unguarded)
            schema = tool.get("input_schema") or ({} if kind == "custom" else _ANY)
            name = tool_name(tool) if kind == "custom" else str(tool.get("name") or kind)
            tools.append(
                ToolSpec(name, formats.member(schema, "the schema of a tool"), str(tool.get("description", "")))
            )
        return tools

    def history(self, data: formats.Data, unguarded: Collection[str]) -> formats.ShownHistory:  # noqa: ARG002 - one interface
        messages = [formats.member(message, "a message") for message in formats.listed(data, "messages")]
        calls: list[formats.GatewayCall] = []
        results: dict[str, Outcome] = {}
        for message in messages:
            blocks = _blocks(message.get("content"))
            calls += _calls(blocks)
            for block in blocks:
                if block.get("type") == "tool_result":
                    outcome = formats.outcome_of(block.get("content"), failed=bool(block.get("is_error")))
                    formats.add_result(results, block.get("tool_use_id"), outcome)
        plain = [
            {"role": str(chat_message.get("role")), "content": formats.content_text(chat_message.get("content"))}
            for chat_message in messages
        ]
        users = [entry["content"] for entry in plain if entry["role"] == "user" and entry["content"]]
        last = messages[-1] if messages else {}
        answers = any(block.get("type") == "tool_result" for block in _blocks(last.get("content")))
        return formats.ShownHistory(
            plain, calls, results, users[-1] if users else "", last.get("role") == "user" and not answers
        )

    def with_feedback(
        self, data: formats.Data, message: formats.ModelMessage, denials: Mapping[int, str]
    ) -> dict[str, Any]:
        replies = [
            {"type": "tool_result", "tool_use_id": message.calls[at].id, "content": text, "is_error": True}
            for at, text in denials.items()
        ]
        spoken = {"role": "assistant", "content": [_readable(block) for block in message.body["content"]]}
        return {**data, "messages": [*data["messages"], spoken, {"role": "user", "content": replies}]}

    def read(self, response: Any, unguarded: Collection[str]) -> formats.ModelMessage:  # noqa: ARG002 - one interface
        body = formats.member(response, "the response")
        if body.get("type") != "message" or not isinstance(body.get("content"), list):
            raise InputError("the response has another form; expected a message of Anthropic's API")
        blocks = _blocks(body["content"])
        return formats.ModelMessage({**body, "content": blocks}, _calls(blocks), [formats.content_text(blocks)])

    def rewritten(self, response: Any, message: formats.ModelMessage, changes: formats.Rewriting) -> Any:  # noqa: ARG002 - one interface
        blocks: list[dict[str, Any]] = []
        note = [{"type": "text", "text": changes.note}] if changes.note else []
        if not changes.calls:
            return {**message.body, "content": note, "stop_reason": "end_turn"}
        at = 0
        for block in message.body["content"]:
            if block.get("type") != "tool_use":
                blocks.append(block)
                continue
            blocks += note if at == 0 else []
            if at in changes.calls:
                blocks.append({**block, "id": changes.calls[at].id, "input": changes.calls[at].args})
            at += 1
        return {**message.body, "content": blocks, "stop_reason": "tool_use"}

    # --- streams

    def frames(self, chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
        return formats.sse_frames(chunks)

    def has_call(self, frame: Any) -> bool:
        try:
            data = formats.sse_data(frame) or {}
        except InputError:
            return True
        return (isinstance(data.get("message"), dict) and bool(data["message"].get("content"))) or (
            isinstance(data.get("content_block"), dict) and data["content_block"].get("type") == "tool_use"
        )

    def assembled(self, frames: Sequence[Any]) -> dict[str, Any]:
        message: dict[str, Any] | None = None
        blocks: dict[int, dict[str, Any]] = {}
        ended = False
        for frame in frames:
            data = formats.sse_data(frame) or {}
            kind = data.get("type")
            if kind == "message_start":
                message = formats.member(data.get("message"), "the message")
                if message.get("content"):
                    raise InputError("the stream begins with content, which clients read differently")
            elif kind == "content_block_start":
                if int(data["index"]) in blocks:
                    raise InputError("a part of the message begins twice, which clients read differently")
                blocks[int(data["index"])] = formats.member(data.get("content_block"), "a part of the message")
            elif kind == "content_block_delta":
                _extend(blocks[int(data["index"])], formats.member(data.get("delta"), "a part of the message"))
            elif kind == "message_delta" and message is not None:
                usage = {**(message.get("usage") or {}), **(data.get("usage") or {})}
                message = {**message, **formats.member(data.get("delta"), "the end of the message"), "usage": usage}
            ended = ended or kind == "message_stop"
        if message is None or not ended:
            raise InputError("the stream of the model is incomplete")
        return {**message, "content": [_whole(blocks[at]) for at in sorted(blocks)]}

    def streamed(self, response: Mapping[str, Any]) -> Iterable[bytes]:
        return map(formats.sse_frame, _events(response))


def _events(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    end = {"stop_reason": response.get("stop_reason"), "stop_sequence": response.get("stop_sequence")}
    about = {name: value for name, value in response.items() if not name.startswith("_")}
    yield {"type": "message_start", "message": {**about, "content": [], "stop_reason": None, "stop_sequence": None}}
    for at, block in enumerate(response["content"]):
        started, deltas = _in_parts(block)
        yield {"type": "content_block_start", "index": at, "content_block": started}
        yield from ({"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": at}
    yield {"type": "message_delta", "delta": end, "usage": response.get("usage") or {}}
    yield {"type": "message_stop"}


def _in_parts(block: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Returns the start of a block and its deltas."""
    if block.get("type") == "tool_use":
        return {**block, "input": {}}, [{"type": "input_json_delta", _PARTIAL: formats.as_json(block["input"])}]
    if block.get("type") not in ("text", "thinking"):
        return dict(block), []
    names = [(kind, name) for kind, name in _DELTAS.items() if block.get(name)]
    return {**block, **{name: "" for _, name in names}}, [{"type": kind, name: block[name]} for kind, name in names]


def _extend(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Adds a delta to a block.

    Raises:
        InputError: it is of an unknown kind.
    """
    kind = str(delta.get("type"))
    if kind == "input_json_delta":
        block[_PARTIAL] = block.get(_PARTIAL, "") + str(delta.get(_PARTIAL) or "")
    elif kind in _DELTAS:
        name = _DELTAS[kind]
        block[name] = str(block.get(name) or "") + str(delta.get(name) or "")
    elif kind == "citations_delta":
        block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]
    else:
        raise InputError(f"a part of the stream is of the kind {kind!r}, which the guard cannot read")


def _whole(block: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a block with its input as it was streamed, which is read when the call is judged."""
    fields = {name: value for name, value in block.items() if name != _PARTIAL}
    if _PARTIAL not in block:
        return fields
    if block.get("type") == "tool_use":
        return {**fields, "input": block[_PARTIAL]}
    return {**fields, "input": read_object(block[_PARTIAL], str(block.get("name")))}


def _blocks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str) or content is None:
        return [{"type": "text", "text": content}] if content else []
    return [formats.member(part, "a part of a message") for part in content]


def _calls(blocks: Iterable[Mapping[str, Any]]) -> list[formats.GatewayCall]:
    uses = [block for block in blocks if block.get("type") == "tool_use"]
    return [
        formats.GatewayCall(formats.call_id(use.get("id")), str(use.get("name") or ""), use.get("input"))
        for use in uses
    ]


def _readable(block: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a part of a message whose input a provider can read back."""
    if block.get("type") != "tool_use" or isinstance(block.get("input"), dict):
        return dict(block)
    try:
        return {**block, "input": read_object(str(block.get("input") or ""), "")}
    except InputError:
        return {**block, "input": {}}
