"""Spans of OpenTelemetry in OTLP JSON, with the semantic conventions for generative AI.

A document is an export (`resourceSpans`), as the collector's file exporter writes one in each line, or one span.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from guardagent._support import json_values
from guardagent.batch.arrow import readers
from guardagent.errors import InputError

_OPERATION, _TOOL = "gen_ai.operation.name", "gen_ai.tool.name"
_CONVERSATION = "gen_ai.conversation.id"
_OTHERS = {  # of operations; any other span that names a tool is a call
    "chat", "create_agent", "embeddings", "generate_content", "invoke_agent", "invoke_workflow", "plan", "retrieval",
    "text_completion",
}  # fmt: skip
_OPENINFERENCE, _OPENLLMETRY = "openinference.span.kind", "traceloop.span.kind"
_READ = {  # attributes of spans and their events; any value may be in another one
    _OPERATION, _TOOL, _CONVERSATION, _OPENINFERENCE, _OPENLLMETRY, "content", "error.type", "gen_ai.input.messages",
    "gen_ai.output.messages", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.tool.status",
    "input.value", "mcp.method.name", "message", "output.value", "tool.name", "tool_arguments", "tool_response",
}  # fmt: skip
_REMOTE_PARENT = 0x200  # a bit of `flags`
_RECORD_CONTENT = (
    "switch on the capture of content in the instrumentation: OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT, "
    "or of Pydantic AI 'InstrumentationSettings(include_content=True)'"
)
_FAILED = {"error": True, "success": False}  # by the status that Strands records


def spans(document: Any) -> Iterator[readers.TraceSpan]:
    """Yields the spans of an export, or the only span of the document."""
    if type(document) is dict and "traceId" in document:
        yield _read(document)
    else:
        yield from _exported(document)


def _exported(document: Any) -> Iterator[readers.TraceSpan]:
    if type(document) is not dict or "resourceSpans" not in document:
        message = "the document is not an OTLP export of spans; expected 'resourceSpans', or one span with 'traceId'"
        yield readers.TraceSpan(rows=(readers.error_row(message),))
        return
    for resource in _objects(document, "resourceSpans"):
        for scope in [resource] if isinstance(resource, readers.TraceSpan) else _objects(resource, "scopeSpans"):
            yield from [scope] if isinstance(scope, readers.TraceSpan) else map(_read, _objects(scope, "spans"))


def _objects(record: Any, key: str) -> Iterator[Any]:
    """Yields the values of a list, or in its place a span with an error."""
    value = record.get(key) if type(record) is dict else None
    if type(value) is not list:
        yield readers.TraceSpan(
            rows=(readers.error_row(f"{key!r} is {readers.kind(value)}; expected a list of objects"),)
        )
        return
    yield from value


def _read(record: Any) -> readers.TraceSpan:
    return record if isinstance(record, readers.TraceSpan) else readers.read_span(record, ("traceId",), _place, _events)


def _place(record: Mapping[str, Any]) -> readers.TraceSpan:
    flags = record.get("flags")
    remote = type(flags) is int and flags & _REMOTE_PARENT
    return readers.TraceSpan(
        readers.text_or_none(record.get("traceId"), "'traceId'"),
        readers.text_or_none(record.get("spanId"), "'spanId'"),
        None if remote else readers.text_or_none(record.get("parentSpanId"), "'parentSpanId'"),
        readers.text_or_none(_attributes(record).get(_CONVERSATION), repr(_CONVERSATION)),
    )


def _events(record: Mapping[str, Any]) -> Iterator[readers.Row]:
    attributes = _attributes(record)
    if _is_call(record, attributes):
        yield _call(record, attributes)
    elif attributes.get(_OPERATION) == "invoke_agent" and not record.get("parentSpanId"):
        yield from _answers(record, attributes)


def _call(record: Mapping[str, Any], attributes: Mapping[str, Any]) -> readers.Row:
    tool = readers.tool_name(readers.first(attributes, _TOOL, "tool.name"))
    _refuse_dropped(record)
    known = {**_recorded_by_events(record, tool), **attributes}
    result = readers.first(known, "gen_ai.tool.call.result", "tool_response", "output.value")
    output, message_failed = _output(result, attributes, tool)
    failed = message_failed or _has_error(record, attributes)
    return {
        "tool": tool,
        "args": _arguments(
            readers.first(known, "gen_ai.tool.call.arguments", "tool_arguments", "input.value"), attributes, tool
        ),
        "output": output,
        "time": _seconds(record, "startTimeUnixNano"),
        "failed": failed or _FAILED.get(str(attributes.get("gen_ai.tool.status"))),
    }


def _arguments(value: Any, attributes: Mapping[str, Any], tool: str) -> str:
    """Returns the arguments of a call, also from the object in which OpenLLMetry wraps those of LangChain."""
    written = readers.argument_text(value, tool, _RECORD_CONTENT)
    match json_values.loads(written):
        case {"input_str": _, "kwargs": _, **envelope} if attributes.get(_OPENLLMETRY) == "tool":
            if type(envelope.get("inputs")) is not dict:
                raise InputError(
                    f"the arguments of the call of {tool!r} have no certain names: only the string 'input_str' has "
                    "them; call the tool with an object of arguments"
                )
            return readers.argument_text(envelope["inputs"], tool, _RECORD_CONTENT)
    return written


def _output(value: Any, attributes: Mapping[str, Any], tool: str) -> tuple[str | None, bool]:
    """(the output of a call, whether it is a message that tells of an error)."""
    written = readers.output_text(value, tool)
    if written is None or not {_OPENINFERENCE, _OPENLLMETRY} & attributes.keys():
        return written, False
    output = json_values.loads(written)
    match output:
        case {"output": inner, "kwargs": _} if attributes.get(_OPENLLMETRY) == "tool":
            output = inner
    content, failed = readers.message_content(output)
    return readers.output_text(content, tool) or "null", failed


def _recorded_by_events(record: Mapping[str, Any], tool: str) -> dict[str, Any]:
    """Returns the arguments and the result that events of the span hold, as Strands records them."""
    known: dict[str, Any] = {}
    for event in readers.list_at(record, "events"):
        if type(event) is not dict:
            raise InputError(f"an event of the call of {tool!r} is {readers.kind(event)}; expected an object")
        values = _attributes(event)
        sent = _message_part(values.get("gen_ai.input.messages"), "tool_call")
        returned = _message_part(values.get("gen_ai.output.messages"), "tool_call_response")
        if event.get("name") == "gen_ai.tool.message":
            known["gen_ai.tool.call.arguments"] = values.get("content")
        elif event.get("name") == "gen_ai.choice":
            known["gen_ai.tool.call.result"] = values.get("message")
        if sent is not None:
            known["gen_ai.tool.call.arguments"] = sent.get("arguments")
        if returned is not None:
            known["gen_ai.tool.call.result"] = returned.get("response")
    return known


def _message_part(messages: Any, kind_of_part: str) -> Mapping[str, Any] | None:
    """Returns the only part of the only message, if it is of a kind."""
    written = readers.output_text(messages, "a message")
    match written and json_values.loads(written):
        case [{"parts": [{"type": str(type_of_part)} as part]}] if type_of_part == kind_of_part:
            return dict(part)
    return None


def _is_call(record: Mapping[str, Any], attributes: Mapping[str, Any]) -> bool:
    """Whether a span is of a call; an error if only another convention says so, or attributes were dropped."""
    operation = readers.text_or_none(attributes.get(_OPERATION), repr(_OPERATION))
    if operation is None:
        if attributes.get(_OPENINFERENCE) == "TOOL":
            return True
        if attributes.get(_OPENLLMETRY) == "tool":
            raise InputError(
                f"the call is recorded with {_OPENLLMETRY!r}, another convention; expected {_OPERATION!r}: "
                "'execute_tool'. Use a version of the instrumentation with the GenAI semantic conventions"
            )
        _refuse_dropped(record)
    named = attributes.get(_TOOL) is not None or str(record.get("name")).startswith(("execute_tool", "tools/call"))
    method = attributes.get("mcp.method.name")
    return operation == "execute_tool" or method == "tools/call" or (named and operation not in _OTHERS)


def _refuse_dropped(record: Mapping[str, Any]) -> None:
    if record.get("droppedAttributesCount") not in (None, 0, "0"):
        raise InputError("attributes of the span were dropped; record them without a limit on their number")


def _has_error(record: Mapping[str, Any], attributes: Mapping[str, Any]) -> bool:
    code = readers.object_at(record, "status").get("code")
    if code not in (None, 0, 1, 2, "STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR") or type(code) is bool:
        raise InputError(f"the code of 'status' is {str(code)[:40]!r}; expected 0, 1 or 2")
    return code in (2, "STATUS_CODE_ERROR") or attributes.get("error.type") not in (None, "")


def _answers(record: Mapping[str, Any], attributes: Mapping[str, Any]) -> Iterator[readers.Row]:
    """Yields the final answer: the only message of an outermost agent, if it consists of text."""
    written = readers.output_text(attributes.get("gen_ai.output.messages"), "the agent")
    match written and json_values.loads(written):
        case [{"role": "assistant", "parts": [*parts]}] if parts and all(map(_is_message_text, parts)):
            yield from readers.answer_rows(
                "".join(part["content"] for part in parts), _seconds(record, "endTimeUnixNano")
            )


def _is_message_text(part: Any) -> bool:
    return type(part) is dict and part.get("type") == "text" and type(part.get("content")) is str


def _seconds(record: Mapping[str, Any], key: str) -> float:
    value = record.get(key)
    if isinstance(value, int | str) and _is_integer(value) and int(value) > 0:  # 0 is how protobuf writes no time
        return int(value) / 1e9
    raise InputError(f"{key!r} is {str(value)[:40]!r}; expected nanoseconds since the epoch")


def _attributes(record: Mapping[str, Any]) -> dict[str, Any]:
    pairs = readers.list_at(record, "attributes")
    known = [
        pair for pair in pairs if type(pair) is not dict or type(key := pair.get("key")) is not str or key in _READ
    ]
    return _pairs(known)


def _pairs(pairs: list[Any]) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for pair in pairs:
        if type(pair) is not dict or type(key := pair.get("key")) is not str:
            raise InputError("an attribute has no key; expected {'key': …, 'value': …}")
        if key in attributes:
            raise InputError(f"the attribute {key[:60]!r} appears twice; expected it once")
        attributes[key] = _value(pair.get("value"), key)
    return attributes


def _value(value: Any, key: str) -> Any:
    """Returns the JSON value of an OTLP value."""
    match value:
        case {"stringValue": str(text)} if len(value) == 1:
            return text
        case None | {} if not value:
            return None
        case {"boolValue": bool(truth)} if len(value) == 1:
            return truth
        case {"intValue": int() | str() as number} if len(value) == 1 and _is_integer(number):
            return int(number)
        case {"doubleValue": number} if len(value) == 1 and (type(number) is int or _is_finite(number)):
            return number
        case {"arrayValue": dict(items)} if len(value) == 1:
            return [_value(item, key) for item in readers.list_at(items, "values")]
        case {"kvlistValue": dict(items)} if len(value) == 1:
            return _pairs(readers.list_at(items, "values"))
    raise InputError(f"the value of the attribute {key[:60]!r} is invalid; expected one of the types of OTLP")


def _is_finite(number: Any) -> bool:
    return type(number) is float and math.isfinite(number)


def _is_integer(number: int | str) -> bool:
    digits = str(number).removeprefix("-") if type(number) is not bool else ""
    return digits.isascii() and digits.isdigit() and len(digits) < 21
