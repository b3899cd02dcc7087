"""Observations of Langfuse become events; what cannot be read is an error of its trace."""

import json
from typing import Any

import pytest
from hypothesis import given

from tests.batch.arrow.readers import assert_no_call_is_lost, changed, event_rows, objects


def observation(own: str, name: str | None, **more: Any) -> dict[str, Any]:
    return {
        "id": own, "traceId": "t1", "parentObservationId": "root", "type": "TOOL", "name": name, "level": "DEFAULT",
        "startTime": "2026-01-31T09:30:00.500Z", "input": '{"order": 7}', "output": '{"paid": true}', **more,
    }  # fmt: skip


def agent(**more: Any) -> dict[str, Any]:
    more = {"parentObservationId": None, "sessionId": "c1", "output": "", "endTime": "2026-01-31T09:31:00Z", **more}
    return observation("root", "agent", type="AGENT", **more)


def test_tools_are_events_of_their_session() -> None:
    """The session is that of any observation of the trace."""
    failed = observation("b", "pay", level="ERROR", statusMessage="no", output=None, input={"order": 8})
    assert event_rows("langfuse", observation("a", "find"), failed, agent(), partial=False) == [
        {"trace": "c1", "tool": "find", "args": '{"order": 7}', "output": '{"paid": true}', "time": 1769851800.5},
        {"trace": "c1", "tool": "pay", "args": '{"order": 8}', "time": 1769851800.5, "failed": True},
    ]


def test_an_export_to_blob_storage() -> None:
    """Its keys are in snake case, an absent value is an empty string, and times have no zone."""
    record = {
        "id": "a", "trace_id": "t1", "session_id": "", "parent_observation_id": "", "type": "TOOL", "name": "find",
        "level": "DEFAULT", "start_time": "2026-01-31 09:30:00.500000", "input": "{}", "output": "",
    }  # fmt: skip
    (row,) = event_rows("langfuse", record, partial=False)
    assert row == {"trace": "t1", "tool": "find", "args": "{}", "time": 1769851800.5}


def test_a_downloaded_trace_and_a_page_of_the_api() -> None:
    """The downloaded trace has the session, its observations have not."""
    trace = {"trace": {"id": "t1", "sessionId": "c2"}, "observations": [observation("a", "find")]}
    page = {"data": [observation("b", "pay")], "meta": {}}
    assert [(row["trace"], row["tool"]) for row in event_rows("langfuse", trace, page)] == [
        ("c2", "find"),
        ("c2", "pay"),
    ]


def test_a_logical_root_has_no_parent() -> None:
    """The host's own span above it is not in Langfuse."""
    assert len(event_rows("langfuse", observation("a", "find", isRootObservation=True), partial=False)) == 1


def test_parallel_calls_keep_their_start_times() -> None:
    """The order of the rows is that of the file."""
    later = observation("a", "outer", startTime="2026-01-31T10:30:02+01:00")
    rows = event_rows("langfuse", later, observation("b", "beside"))
    assert [(row["tool"], row["time"] - 1769851800) for row in rows] == [("outer", 2.0), ("beside", 0.5)]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (observation("a", "pay", input=None), "were not recorded; export the field group 'io'"),
        (observation("a", "pay", input=""), "were not recorded"),
        (observation("a", "pay", input="7"), "are a number; expected a JSON object"),
        (observation("a", "pay", input='{"order": 7, "no'), "is cut off"),
        (
            observation("a", "pay", input={"args": [7], "kwargs": {}}),
            "have no names: '@observe' recorded 1 by position",
        ),
        (observation("a", "pay", output="x ...[truncated]"), "is truncated"),
        (observation("a", "pay", level="FATAL"), "expected one of DEBUG, DEFAULT"),
        (observation("a", "pay", type="STEP"), "expected one of AGENT"),
        (observation("a", "pay", startTime=None), "'startTime' is missing"),
        (observation("a", "pay", startTime=3), "'startTime' is a number"),
        (observation("a", "pay", sessionId=3), "'sessionId' is a number"),
        (observation("a", None), "has no name of a tool"),
        (observation("a", "answer"), "has the name of the final answer"),
        ({"dataType": "NUMERIC", "value": 1}, "'type' is 'None'; expected one of"),
        ("{", "not acceptable JSON"),
    ],
)
def test_an_unreadable_observation_is_an_error(record: Any, message: str) -> None:
    """The error says what to do, and names the trace if the record does."""
    (row,) = event_rows("langfuse", record)
    assert message in row["error"]
    assert row.get("trace") == (record.get("traceId") if isinstance(record, dict) else None)


def test_keywords_of_the_decorator_are_the_arguments() -> None:
    """It records positional arguments apart from keywords."""
    rows = [observation("a", "pay", input={"args": [], "kwargs": kwargs}) for kwargs in ({"order": 7}, {})]
    assert [row["args"] for row in event_rows("langfuse", *rows)] == ['{"order": 7}', "{}"]


def test_other_observations_are_no_events() -> None:
    """Nor is a generation that proposes calls."""
    others = [observation("a", "pay", type=kind) for kind in ("SPAN", "GENERATION", "EVENT", "RETRIEVER")]
    assert event_rows("langfuse", *others) == []


def test_the_answer_of_the_outermost_agent() -> None:
    """It is certain if the output of an outermost agent is text."""
    (row,) = event_rows("langfuse", agent(output="Paid."))
    assert (row["tool"], json.loads(row["args"]), row["time"]) == ("answer", {"text": "Paid."}, 1769851860.0)
    assert (
        event_rows("langfuse", agent(output='{"text": "Paid."}'), agent(parentObservationId="x", output="Paid.")) == []
    )


def test_huge_values() -> None:
    """Their size alone is no error."""
    (row,) = event_rows("langfuse", observation("a", "pay", input={"text": "x" * 5_000_000}))
    assert len(row["args"]) > 5_000_000


DOCUMENT = {"data": [observation("a", "find"), observation("b", "pay"), agent(output="Paid.")], "meta": {}}


@given(changed(DOCUMENT))
def test_no_change_loses_a_call(document: Any) -> None:
    """Each observation of a tool remains an event, or there is an error."""
    listed = document.get("data") if isinstance(document, dict) else None
    calls = [item for item in objects(listed) if item.get("type") == "TOOL"]
    assert_no_call_is_lost("langfuse", document, calls)


@pytest.mark.parametrize(("status", "failed"), [("success", None), ("error", True)])
def test_a_tool_message_is_its_content(status: str, failed: bool | None) -> None:
    """The handler for LangChain records the message that carries the output, as an object or as text."""
    message = {"content": '{"paid": true}', "type": "tool", "name": "pay", "tool_call_id": "c1", "status": status}
    for output in (message, json.dumps(message)):
        (row,) = event_rows("langfuse", observation("a", "pay", output=output))
        assert (json.loads(row["output"]), row.get("failed")) == ({"paid": True}, failed)
