"""The Responses API."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from litellm.types.llms.openai import GenericEvent, ResponsesAPIResponse
from pydantic import BaseModel

from guardagent.enforcement import Outcome, ToolSpec
from guardagent.errors import InputError
from guardagent.frameworks.litellm.adapter import formats
from guardagent.frameworks.litellm.adapter.formats.chat import tool_name

_CALL, _RESULT = "function_call", "function_call_output"
_ENDS = ("response.completed", "response.incomplete")


class ResponsesApi(formats.ModelApi):
    """`/responses`."""

    call_type = "aresponses"
    says_all_twice = True

    def tools(self, data: formats.Data, unguarded: Collection[str]) -> list[ToolSpec]:
        if data.get("background"):
            raise InputError("a response in the background is read without a guard; expected 'background: false'")
        tools = []
        for definition in formats.listed(data, "tools"):
            tool = formats.member(definition, "a tool")
            if tool.get("type") != "function":
                formats.refuse_kind(str(tool.get("type")), unguarded)
                continue
            schema = formats.member(tool.get("parameters") or {}, "the parameters of a tool")
            tools.append(ToolSpec(tool_name(tool), schema, str(tool.get("description") or "")))
        return tools

    def history(self, data: formats.Data, unguarded: Collection[str]) -> formats.ShownHistory:
        items = _items(data)
        calls: list[formats.GatewayCall] = []
        results: dict[str, Outcome] = {}
        for item in items:
            if item.get("type") == _CALL:
                calls.append(_call(item))
            elif item.get("type") == _RESULT:
                formats.add_result(results, item.get("call_id"), formats.outcome_of(item.get("output")))
            else:
                _refuse_other_call(item, unguarded)
        spoken = [message for message in items if message.get("role")]
        plain = [
            {"role": str(message["role"]), "content": formats.content_text(message.get("content"))}
            for message in spoken
        ]
        users = [entry["content"] for entry in plain if entry["role"] == "user"]
        last = items[-1].get("role") if items else None
        return formats.ShownHistory(plain, calls, results, users[-1] if users else "", last == "user")

    def with_feedback(
        self, data: formats.Data, message: formats.ModelMessage, denials: Mapping[int, str]
    ) -> dict[str, Any]:
        ids = [call.id or f"call_{at}" for at, call in enumerate(message.calls)]
        spoken, at = [], 0
        for item in message.body["output"]:
            fields = {name: value for name, value in item.items() if value is not None}
            if item.get("type") == _CALL:
                fields["call_id"], at = ids[at], at + 1
            spoken.append(fields)
        replies = [{"type": _RESULT, "call_id": ids[at], "output": text} for at, text in denials.items()]
        return {**data, "input": [*_items(data), *spoken, *replies]}

    def read(self, response: Any, unguarded: Collection[str]) -> formats.ModelMessage:
        if not isinstance(response, ResponsesAPIResponse):
            raise InputError(f"the response is a {type(response).__name__}; expected one of the Responses API")
        if response.status in ("queued", "in_progress"):
            raise InputError("the response is not complete; expected 'background: false'")
        body = response.model_dump()
        items = [formats.member(output_item, "a part of the response") for output_item in body["output"]]
        for item in items:
            if item.get("type") != _CALL:
                _refuse_other_call(item, unguarded)
        calls = [_call(output_item) for output_item in items if output_item.get("type") == _CALL]
        texts = [
            formats.content_text(output_item.get("content"))
            for output_item in items
            if output_item.get("type") == "message"
        ]
        return formats.ModelMessage({**body, "output": items}, calls, ["\n".join(texts)])

    def rewritten(
        self, response: Any, message: formats.ModelMessage, changes: formats.Rewriting
    ) -> ResponsesAPIResponse:
        responses_apiresponse = ResponsesAPIResponse(
            **{**message.body, "output": _rewritten_items(message.body["output"], changes)}
        )
        responses_apiresponse._hidden_params = getattr(response, "_hidden_params", {})  # noqa: SLF001 - the host reads costs from it
        return responses_apiresponse

    # --- streams

    async def frames(self, chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for chunk in chunks:
            yield chunk

    def has_call(self, frame: Any) -> bool:
        if not isinstance(frame, BaseModel):
            return True
        kind, item = str(getattr(frame, "type", "")), getattr(frame, "item", None)
        if kind.startswith(("response.function_call", "response.custom_tool_call", "response.mcp")):
            return True
        ended = getattr(frame, "response", None)
        items = [*([item] if item is not None else []), *(getattr(ended, "output", None) or ())]
        return any(str(formats.member(item, "a part").get("type", "")).endswith("_call") for item in items)

    def assembled(self, frames: Sequence[Any]) -> ResponsesAPIResponse:
        ends = [frame for frame in frames if str(getattr(frame, "type", "")) in _ENDS or _kind(frame) in _ENDS]
        response = ends[-1].response if ends else None
        if not isinstance(response, ResponsesAPIResponse):
            raise InputError("the stream of the model is incomplete")
        return response

    def streamed(self, response: ResponsesAPIResponse) -> Iterable[GenericEvent]:
        for number, event in enumerate(_events(response.model_dump(mode="json"))):
            yield GenericEvent(**event, sequence_number=number)


def _kind(event: Any) -> str:
    kind = getattr(event, "type", "")
    return str(getattr(kind, "value", kind))


def _items(data: formats.Data) -> list[dict[str, Any]]:
    content = data.get("input")
    if isinstance(content, str):
        return [{"role": "user", "content": content}]
    return [formats.member(input_item, "a part of the input") for input_item in formats.listed(data, "input")]


def _call(item: Mapping[str, Any]) -> formats.GatewayCall:
    return formats.GatewayCall(formats.call_id(item.get("call_id")), str(item.get("name") or ""), item.get("arguments"))


def _refuse_other_call(item: Mapping[str, Any], unguarded: Collection[str]) -> None:
    """Refuses a call, or the result of one, that nothing here can judge.

    Raises:
        InputError: the operator does not allow its kind.
    """
    kind = str(item.get("type") or "")
    base = kind.removesuffix("_output").removesuffix("_call")
    if (base != kind or kind.startswith("mcp_")) and not any(
        allowed_kind.startswith(base.partition("_")[0]) for allowed_kind in unguarded
    ):
        formats.refuse_kind(base, unguarded)


def _rewritten_items(items: Iterable[Mapping[str, Any]], changes: formats.Rewriting) -> list[dict[str, Any]]:
    content = [{"type": "output_text", "text": changes.note, "annotations": []}]
    about = {"type": "message", "id": f"msg_{secrets.token_hex(16)}", "status": "completed", "role": "assistant"}
    note = [{**about, "content": content}] if changes.note else []
    if not changes.calls:
        return note  # a reasoning is invalid without the call that followed it
    rewritten: list[dict[str, Any]] = []
    at = 0
    for item in items:
        if item.get("type") != _CALL:
            rewritten.append(dict(item))
            continue
        if at in changes.calls:
            judged = changes.calls[at]
            rewritten.append({**item, "call_id": judged.id, "arguments": formats.as_json(judged.args)})
        at += 1
    return [*rewritten, *note]


def _events(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**response, "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for at, item in enumerate(response["output"]):
        yield from _item_events(item, {"output_index": at, "item_id": item.get("id")})
    kind = "response.incomplete" if response.get("status") == "incomplete" else "response.completed"
    yield {"type": kind, "response": dict(response)}


def _item_events(item: Mapping[str, Any], place: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    index = {"output_index": place["output_index"]}
    kind = item.get("type")
    begun = {**item, **({"arguments": ""} if kind == _CALL else {"content": []} if kind == "message" else {})}
    yield {"type": "response.output_item.added", **index, "item": begun}
    if kind == _CALL:
        yield {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]}
        yield {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]}
    for at, part in enumerate(item.get("content") or () if kind == "message" else ()):
        yield from _part_events(part, {**place, "content_index": at})
    yield {"type": "response.output_item.done", **index, "item": dict(item)}


def _part_events(part: Mapping[str, Any], place: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    text = part.get("text")
    yield {"type": "response.content_part.added", **place, "part": {**part, **({"text": ""} if text else {})}}
    if text:
        yield {"type": "response.output_text.delta", **place, "delta": text}
        yield {"type": "response.output_text.done", **place, "text": text}
    yield {"type": "response.content_part.done", **place, "part": dict(part)}
