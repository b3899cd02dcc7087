"""Items of the OpenAI Agents SDK become events; what cannot be read is an error of its trace."""

from typing import Any

import pytest
from hypothesis import given

from tests.batch.arrow.readers import assert_no_call_is_lost, changed, event_rows, objects

TRACE = {"object": "trace", "id": "t1", "workflow_name": "shop", "group_id": "c1", "metadata": None}


def span(own: str, data: Any, **more: Any) -> dict[str, Any]:
    return {
        "object": "trace.span", "id": own, "trace_id": "t1", "parent_id": None, "error": None, "span_data": data,
        "started_at": "2026-01-31T09:30:00.500000+00:00", "ended_at": "2026-01-31T09:30:01+00:00", **more,
    }  # fmt: skip


def call(own: str, name: str | None, source: Any = '{"order": 7}', output: Any = "done", **more: Any) -> dict[str, Any]:
    data = {"type": "function", "name": name, "input": source, "output": output, "mcp_data": None}
    return span(own, data, **more)


def test_functions_and_hand_offs_are_events_of_their_group() -> None:
    """The group is in the item of the trace, and a hand-off is the event that the adapter of the SDK judges."""
    failed = call("b", "pay", output=None, error={"message": "Error running tool", "data": {}})
    handoff = span("c", {"type": "handoff", "from_agent": "one", "to_agent": "two"})
    time = 1769851800.5
    assert event_rows("openai-agents", call("a", "find"), failed, handoff, TRACE, partial=False) == [
        {"trace": "c1", "tool": "find", "args": '{"order": 7}', "output": '"done"', "time": time},
        {"trace": "c1", "tool": "pay", "args": '{"order": 7}', "time": time, "failed": True},
        {"trace": "c1", "tool": "handoff", "args": '{"to": "two"}', "action": "handoff", "time": time},
    ]


def test_without_a_group_the_trace_has_its_own_id() -> None:
    """An output that looks like JSON remains text."""
    (row,) = event_rows("openai-agents", {"data": [{**TRACE, "group_id": None}, call("a", "find", "", "5")]})
    assert (row["trace"], row["args"], row["output"]) == ("t1", "{}", '"5"')


def test_parallel_and_nested_calls_keep_their_start_times() -> None:
    """An agent as a tool ends after the calls inside it, and so is exported after them."""
    inner = call("b", "inner", started_at="2026-01-31T09:30:02+00:00", parent_id="a")
    rows = event_rows("openai-agents", inner, call("a", "ask"), call("c", "beside"), partial=False)
    assert [(row["tool"], row["time"] - 1769851800) for row in rows] == [("inner", 2.0), ("ask", 0.5), ("beside", 0.5)]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (call("a", "pay", None), "were not recorded; run with 'trace_include_sensitive_data=True'"),
        (call("a", "pay", '{"note": "xx... [truncated]'), "is truncated"),
        (call("a", "pay", "ls -l"), "are a string; expected a JSON object"),
        (call("a", "pay", output={"truncated": True, "original_type": "str", "preview": "x"}), "is truncated"),
        (call("a", "pay", started_at=None), "'started_at' is missing"),
        (call("a", None), "has no name of a tool"),
        (call("a", "answer"), "has the name of the final answer"),
        (span("a", {"type": "computer_use"}), "'computer_use', which this reader does not know"),
        (span("a", None), "'None', which this reader does not know"),
        (span("a", {"type": "handoff", "to_agent": None}), "has no 'to_agent'"),
        (call("a", "pay", object="trace.item"), "expected 'trace' or 'trace.span'"),
        (call("a", "pay", parent_id=4), "'parent_id' is a number"),
        ("null", "the record is missing; expected an object"),
    ],
)
def test_an_unreadable_item_is_an_error(record: Any, message: str) -> None:
    """The error says what to do, and names the trace if the record does."""
    (row,) = event_rows("openai-agents", record)
    assert message in row["error"]
    assert row.get("trace") == ("t1" if isinstance(record, dict) else None)


def test_other_spans_are_no_events() -> None:
    """Nor is a response that proposes calls, or a list of the tools of an MCP server."""
    others = [{"type": kind} for kind in ("agent", "custom", "generation", "guardrail", "mcp_tools", "response")]
    assert event_rows("openai-agents", *[span("a", data) for data in others]) == []


def test_huge_values() -> None:
    """Their size alone is no error."""
    (row,) = event_rows("openai-agents", call("a", "pay", output="x" * 5_000_000))
    assert len(row["output"]) > 5_000_000


DOCUMENT = {"data": [TRACE, call("a", "find"), call("b", "pay", parent_id="a")]}


@given(changed(DOCUMENT))
def test_no_change_loses_a_call(document: Any) -> None:
    """Each span of a function remains an event, or there is an error."""
    listed = document.get("data") if isinstance(document, dict) else None
    datas = [item.get("span_data") for item in objects(listed) if item.get("object") == "trace.span"]
    calls = [data for data in datas if isinstance(data, dict) and data.get("type") == "function"]
    assert_no_call_is_lost("openai-agents", document, calls)
