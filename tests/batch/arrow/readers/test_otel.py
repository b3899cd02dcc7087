"""Spans of OpenTelemetry become events; what cannot be read is an error of its trace."""

import json
from typing import Any

import pytest
from hypothesis import given

from tests.batch.arrow.readers import assert_no_call_is_lost, changed, error_of, event_rows, objects


def attributes(**values: Any) -> list[dict[str, Any]]:
    return [{"key": key.replace("__", "."), "value": value} for key, value in values.items()]


def span(span_id: str, *, start: int = 1, parent: str = "", **more: Any) -> dict[str, Any]:
    times = {"startTimeUnixNano": f"{start}000000000", "endTimeUnixNano": f"{start + 1}000000000"}
    return {"traceId": "t1", "spanId": span_id, "parentSpanId": parent, "name": "x", **times, "status": {}, **more}


def call(span_id: str, tool: str, args: Any = '{"order": 7}', result: str | None = None, **more: Any) -> dict[str, Any]:
    span_attributes = attributes(
        gen_ai__operation__name={"stringValue": "execute_tool"}, gen_ai__tool__name={"stringValue": tool}
    )
    if args is not None:
        span_attributes += attributes(
            gen_ai__tool__call__arguments=args if isinstance(args, dict) else {"stringValue": args}
        )
    if result is not None:
        span_attributes += attributes(gen_ai__tool__call__result={"stringValue": result})
    return span(span_id, parent="root", attributes=span_attributes + more.pop("attributes", []), **more)


def openllmetry(args: Any, result: Any) -> dict[str, Any]:
    """A call as OpenLLMetry records those of LangChain."""
    mark = attributes(traceloop__span__kind={"stringValue": "tool"})
    return call("a", "pay", json.dumps(args), json.dumps(result), attributes=mark)


def openinference(args: str, result: str) -> dict[str, Any]:
    texts = {"openinference__span__kind": "TOOL", "tool__name": "pay", "input__value": args, "output__value": result}
    return span("a", attributes=attributes(**{key: {"stringValue": text} for key, text in texts.items()}))


def agent(span_id: str = "root", output: Any = None, **more: Any) -> dict[str, Any]:
    span_attributes = attributes(
        gen_ai__operation__name={"stringValue": "invoke_agent"}, gen_ai__conversation__id={"stringValue": "c1"}
    )
    if output is not None:
        span_attributes += attributes(gen_ai__output__messages={"stringValue": json.dumps(output)})
    return span(span_id, attributes=span_attributes, **more)


def export(*spans: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "x"}, "spans": list(spans)}]}]}


def test_calls_of_an_agent_are_events_of_its_conversation() -> None:
    """The conversation is that of the agent's span, which comes last and in another line."""
    first = export(call("a", "find", result='{"paid": true}'), call("b", "pay", result="done", start=2))
    assert event_rows("otel", first, export(agent()), partial=False) == [
        {"trace": "c1", "tool": "find", "args": '{"order": 7}', "output": '{"paid": true}', "time": 1.0},
        {"trace": "c1", "tool": "pay", "args": '{"order": 7}', "output": '"done"', "time": 2.0},
    ]


def test_a_span_can_be_a_line() -> None:
    """Without a conversation the trace has its own id."""
    (row,) = event_rows("otel", call("a", "find"))
    assert (row["trace"], row["tool"]) == ("t1", "find")


def test_parallel_calls_keep_their_start_times() -> None:
    """A nested call starts after the one that encloses it, and is exported before it."""
    rows = event_rows(
        "otel", export(call("b", "inner", start=3), call("a", "outer", start=2), call("c", "beside", start=2))
    )
    assert [(row["tool"], row["time"]) for row in rows] == [("inner", 3.0), ("outer", 2.0), ("beside", 2.0)]


@pytest.mark.parametrize(
    "more",
    [
        {"status": {"code": 2, "message": "no"}},
        {"status": {"code": "STATUS_CODE_ERROR"}},
        {"attributes": attributes(error__type={"stringValue": "tool_error"})},
    ],
)
def test_an_error_is_a_failed_call(more: dict[str, Any]) -> None:
    """The status or the type of the error says so."""
    assert event_rows("otel", call("a", "pay", **more))[0]["failed"] is True


@pytest.mark.parametrize("status", [{}, {"code": 0}, {"code": 1}, None])
def test_the_status_of_other_calls_is_unknown(status: Any) -> None:
    """Then `failed_output` of the policy decides."""
    assert "failed" not in event_rows("otel", call("a", "pay", status=status))[0]


def test_structured_arguments() -> None:
    """All types of OTLP have a JSON value."""
    values = {
        "i": {"intValue": "-7"}, "d": {"doubleValue": 1.5}, "b": {"boolValue": True}, "n": {},
        "l": {"arrayValue": {"values": [{"intValue": 1}, {"stringValue": "x"}]}}, "e": {"arrayValue": {}},
    }  # fmt: skip
    (row,) = event_rows("otel", call("a", "pay", {"kvlistValue": {"values": attributes(**values)}}))
    assert json.loads(row["args"]) == {"i": -7, "d": 1.5, "b": True, "n": None, "l": [1, "x"], "e": []}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (call("a", "pay", None), "were not recorded; switch on the capture of content"),
        (call("a", "pay", ""), "were not recorded"),
        (call("a", "pay", '{"order": 7, "note": "xx'), "begins like JSON and is cut off"),
        (call("a", "pay", '{"a": 1, "a": 2}'), "expected a JSON object"),
        (call("a", "pay", "[1]"), "are a list; expected a JSON object"),
        (call("a", "pay", {"bytesValue": "eA=="}), "expected one of the types of OTLP"),
        (call("a", "pay", {"kvlistValue": {"values": attributes(x={"doubleValue": "NaN"})}}), "types of OTLP"),
        (call("a", "pay", result='{"rows": [1, 2'), "the output of 'pay' begins like JSON and is cut off"),
        (call("a", "pay", result="all of it ... [truncated]"), "is truncated"),
        (call("a", "pay", droppedAttributesCount=1), "attributes of the span were dropped"),
        (span("a", droppedAttributesCount=1, attributes=[]), "attributes of the span were dropped"),
        (call("a", "answer"), "has the name of the final answer"),
        (call("a", ""), "has no name of a tool"),
        (call("a", "pay", startTimeUnixNano="0"), "expected nanoseconds since the epoch"),
        (call("a", "pay", startTimeUnixNano=None), "expected nanoseconds since the epoch"),
        (call("a", "pay", status={"code": 7}), "expected 0, 1 or 2"),
        (call("a", "pay", attributes=attributes(gen_ai__tool__name={"stringValue": "x"})), "appears twice"),
        (call("a", "pay") | {"attributes": "x"}, "'attributes' is a string; expected a list"),
        (span("a", attributes=attributes(openinference__span__kind={"stringValue": "TOOL"})), "has no name of a tool"),
        (openinference("{'order': 7}", "x"), "are a string; expected a JSON object"),
        (openllmetry({"input_str": "7", "inputs": None, "kwargs": {}}, "x"), "no certain names"),
        (span("a", attributes=attributes(traceloop__span__kind={"stringValue": "tool"})), "another convention"),
        (span("a", name="execute_tool pay", attributes=[]), "has no name of a tool"),
        ({"resourceLogs": []}, "expected 'resourceSpans'"),
        ({"resourceSpans": [{"instrumentationLibrarySpans": []}]}, "'scopeSpans' is missing"),
        ([1], "expected 'resourceSpans'"),
        ('{"resourceSpans": [', "not acceptable JSON"),
        ("[" * 10**6, "nested too deep"),
    ],
)
def test_an_unreadable_call_is_an_error(record: Any, message: str) -> None:
    """The error says what to do, and names the trace if the record does."""
    (row,) = event_rows("otel", record)
    assert message in row["error"]
    assert row.get("trace") == ("t1" if isinstance(record, dict) and "traceId" in record else None)


def test_an_error_leaves_the_other_spans_of_its_line() -> None:
    """Each span is read by itself."""
    rows = event_rows("otel", export({"traceId": 5}, 3, call("a", "pay"), call("b", "find", None)))
    assert [row.get("tool", "error") for row in rows] == ["error", "error", "pay", "error"]


def test_proposed_calls_and_other_spans_are_no_events() -> None:
    """A `chat` span that names tools proposes them."""
    chat = span("a", attributes=attributes(gen_ai__operation__name={"stringValue": "chat"}))
    http = span("b", attributes=attributes(http__request__method={"stringValue": "GET"}))
    assert event_rows("otel", export(chat, http, agent())) == []


def test_a_call_of_an_mcp_client_needs_no_operation() -> None:
    """The convention for MCP only recommends the operation."""
    span_attributes = attributes(
        mcp__method__name={"stringValue": "tools/call"},
        gen_ai__tool__name={"stringValue": "find"},
        gen_ai__tool__call__arguments={"stringValue": "{}"},
    )
    assert event_rows("otel", span("a", name="tools/call find", attributes=span_attributes))[0]["tool"] == "find"


def test_the_answer_of_the_outermost_agent() -> None:
    """It is certain if it is the only message and consists of text."""
    message = {"role": "assistant", "parts": [{"type": "text", "content": "Paid."}], "finish_reason": "stop"}
    (row,) = event_rows("otel", agent(output=[message]))
    assert (row["tool"], json.loads(row["args"]), row["time"]) == ("answer", {"text": "Paid."}, 2.0)
    proposal = {**message, "parts": [{"type": "tool_call", "name": "pay"}]}
    assert event_rows("otel", agent(output=[proposal]), agent(output=[message, message])) == []
    assert event_rows("otel", agent(output=[message], parentSpanId="x")) == []


def test_a_missing_parent_makes_the_trace_incomplete() -> None:
    """A parent of another service is not missing: the flags of the span say so."""
    assert (
        "is incomplete: 1 of its spans are missing" in event_rows("otel", call("a", "pay"), partial=False)[-1]["error"]
    )
    assert len(event_rows("otel", call("a", "pay", flags=0x300), partial=False)) == 1


def test_a_trace_of_two_conversations_is_an_error_in_both() -> None:
    """Otherwise a part of one would be judged without the rest."""
    other = span("b", attributes=attributes(gen_ai__conversation__id={"stringValue": "c2"}))
    rows = event_rows("otel", export(call("a", "pay"), agent(), other))
    assert [row["trace"] for row in rows] == ["c1", "c2"]
    assert "names several conversations" in rows[0]["error"]


def test_huge_values() -> None:
    """Their size alone is no error."""
    (row,) = event_rows("otel", call("a", "pay", json.dumps({"text": "x" * 5_000_000}), result="y" * 5_000_000))
    assert len(row["args"]) > len(row["output"]) > 5_000_000
    assert len(event_rows("otel", export(*[call(f"s{at}", "pay") for at in range(5000)]))) == 5000


def is_call(record: dict[str, Any]) -> bool:
    span_attributes = record.get("attributes")
    return (
        isinstance(span_attributes, list)
        and attributes(gen_ai__operation__name={"stringValue": "execute_tool"})[0] in span_attributes
    )


MESSAGE = {"role": "assistant", "parts": [{"type": "text", "content": "Paid."}]}
DOCUMENT = export(call("a", "find", result='{"x": 1}'), call("b", "pay", start=2), agent(output=[MESSAGE]))


@given(changed(DOCUMENT))
def test_no_change_loses_a_call(document: Any) -> None:
    """Each span with the operation `execute_tool` remains an event, or there is an error."""
    assert_no_call_is_lost("otel", document, [item for item in objects(document) if is_call(item)])


def test_the_error_of_a_wrong_trace_id() -> None:
    """A table column holds only text that UTF-8 can encode."""
    assert "expected a string of Unicode characters" in error_of("otel", call("a", "pay", traceId="\ud800"))


def event(name: str, **values: str) -> dict[str, Any]:
    return {"name": name, "attributes": attributes(**{key: {"stringValue": value} for key, value in values.items()})}


DETAILS = "gen_ai.client.inference.operation.details"
SENT = [{"role": "tool", "parts": [{"type": "tool_call", "name": "pay", "id": "1", "arguments": {"n": 5}}]}]
RETURNED = [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": [{"text": "ok"}]}]}]


@pytest.mark.parametrize(
    ("more", "args", "output"),
    [
        ({"events": [event("gen_ai.tool.message", role="tool", content='{"n": 5}', id="1")]}, {"n": 5}, None),
        (
            {
                "events": [
                    event("gen_ai.tool.message", content="{}"),
                    event("gen_ai.choice", message='[{"text": "ok"}]'),
                ]
            },
            {},
            [{"text": "ok"}],
        ),
        ({"events": [event(DETAILS, gen_ai__input__messages=json.dumps(SENT))]}, {"n": 5}, None),
        (
            {
                "events": [
                    event(DETAILS, gen_ai__input__messages=json.dumps(SENT)),
                    event(DETAILS, gen_ai__output__messages=json.dumps(RETURNED)),
                ]
            },
            {"n": 5},
            [{"text": "ok"}],
        ),
        ({"attributes": attributes(tool_arguments={"stringValue": '{"n": 5}'})}, {"n": 5}, None),
        (
            {"attributes": attributes(tool_arguments={"stringValue": "{}"}, tool_response={"stringValue": "paid"})},
            {},
            "paid",
        ),
        ({"events": [event("exception"), event("gen_ai.tool.message", content='{"n": 1}')]}, {"n": 1}, None),
    ],
)
def test_arguments_in_events_and_other_attributes_are_read(more: dict[str, Any], args: Any, output: Any) -> None:
    """Strands writes events, with either version of the conventions; Pydantic AI wrote attributes of its own."""
    (row,) = event_rows("otel", call("a", "pay", None, **more))
    assert (json.loads(row["args"]), json.loads(row.get("output") or "null")) == (args, output)


@pytest.mark.parametrize(
    "more",
    [
        {"events": [event("gen_ai.tool.message", role="tool", id="1")]},
        {"events": [event("gen_ai.tool.message", content="")]},
        {"events": [event(DETAILS, gen_ai__input__messages=json.dumps([*SENT, *SENT]))]},
        {"events": [event(DETAILS, gen_ai__input__messages=json.dumps(RETURNED))]},
        {"events": [event("gen_ai.user.message", content='{"n": 5}')]},
        {"events": [event("gen_ai.tool.message", content="[5]")]},
        {"events": [5]},
        {"events": {}},
    ],
)
def test_events_without_arguments_are_an_error(more: dict[str, Any]) -> None:
    assert error_of("otel", call("a", "pay", None, **more))


MESSAGE_FIELDS = {"content": '{"paid": true}', "tool_call_id": "c1", "status": "success"}
WRAPPED = {"input_str": "{'order': 7}", "tags": [], "metadata": {}, "inputs": {"order": 7}, "kwargs": {"color": "x"}}


@pytest.mark.parametrize(
    ("record", "output", "failed"),
    [
        (openllmetry(WRAPPED, {"output": {"lc": 1, "kwargs": MESSAGE_FIELDS}, "kwargs": {}}), {"paid": True}, None),
        (openllmetry(WRAPPED, {"output": "paid", "kwargs": {}}), "paid", None),
        (openllmetry({"order": 7}, "paid"), "paid", None),
        (openinference('{"order": 7}', json.dumps({"type": "tool", "data": MESSAGE_FIELDS})), {"paid": True}, None),
        (
            openinference('{"order": 7}', json.dumps({"type": "tool", **MESSAGE_FIELDS, "status": "error"})),
            {"paid": True},
            True,
        ),
        (openinference('{"order": 7}', "paid"), "paid", None),
    ],
)
def test_what_other_instrumentations_wrap_around_a_call(record: Any, output: Any, failed: bool | None) -> None:
    """Rules see the arguments of the tool and what it returned, not the object around them."""
    (row,) = event_rows("otel", record)
    assert (row["tool"], json.loads(row["args"]), json.loads(row["output"])) == ("pay", {"order": 7}, output)
    assert row.get("failed") is failed


def test_values_of_other_attributes_do_not_matter() -> None:
    """NaN, infinity, bytes and a repeated key make a trace unreadable only where they are read."""
    odd = [{"doubleValue": "NaN"}, {"doubleValue": "Infinity"}, {"bytesValue": "eA=="}, {"new": 1}]
    others = [pair for value in odd for pair in attributes(score=value)]
    (row,) = event_rows("otel", call("a", "pay", attributes=others, events=[{"name": "x", "attributes": others}]))
    assert row["args"] == '{"order": 7}'


def test_missing_arguments_name_the_switch() -> None:
    assert "InstrumentationSettings(include_content=True)" in error_of("otel", call("a", "pay", None))


@pytest.mark.parametrize(("status", "failed"), [("success", False), ("error", True), ("", None), ("other", None)])
def test_the_status_of_strands_is_the_outcome(status: str, failed: bool | None) -> None:
    value = attributes(gen_ai__tool__status={"stringValue": status})
    assert event_rows("otel", call("a", "pay", attributes=value))[0].get("failed") is failed
