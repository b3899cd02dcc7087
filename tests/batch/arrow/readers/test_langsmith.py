"""Runs of LangSmith become events; what cannot be read is an error of its trace."""

import json
from typing import Any

import pytest
from hypothesis import given

from tests.batch.arrow.readers import assert_no_call_is_lost, changed, event_rows, objects


def run(run_id: str, name: str, **more: Any) -> dict[str, Any]:
    return {
        "id": run_id, "trace_id": "t1", "parent_run_id": "root", "name": name, "run_type": "tool", "error": None,
        "start_time": "2026-01-31T09:30:00.500000+00:00", "inputs": {"order": 7}, "outputs": {"output": "done"},
        "session_id": "project", "extra": {"metadata": {"ls_method": "traceable"}}, **more,
    }  # fmt: skip


def root(**more: Any) -> dict[str, Any]:
    more = {"extra": {"metadata": {"thread_id": "c1"}}, "end_time": "2026-01-31T09:31:00Z", **more}
    return run("root", "agent", parent_run_id=None, run_type="chain", **more)


def test_tool_runs_are_events_of_their_thread() -> None:
    """The thread is in the metadata of the outermost run; `session_id` of a run is its project."""
    failed = run("b", "pay", error="ValueError('no')", outputs={"output": None}, start_time="2026-01-31T09:30:02")
    assert event_rows("langsmith", run("a", "find"), failed, root(), partial=False) == [
        {"trace": "c1", "tool": "find", "args": '{"order": 7}', "output": '"done"', "time": 1769851800.5},
        {"trace": "c1", "tool": "pay", "args": '{"order": 7}', "output": "null", "time": 1769851802.0, "failed": True},
    ]


def test_a_run_of_the_newer_api() -> None:
    """It has types in capitals, the thread beside the trace, and a list of parents."""
    record = run("a", "find", run_type="TOOL", thread_id="c2", parent_run_ids=["root", "x"], status="ERROR")
    record = {key: value for key, value in record.items() if key not in ("parent_run_id", "extra")}
    rows = event_rows("langsmith", {"items": [record]}, partial=False)
    assert (rows[0]["trace"], rows[0]["failed"]) == ("c2", True)
    assert "'x'" in rows[1]["error"]


@pytest.mark.parametrize("key", ["thread_id", "session_id", "conversation_id"])
def test_each_key_of_a_thread(key: str) -> None:
    """Metadata name the thread by one of three keys."""
    assert event_rows("langsmith", run("a", "find", extra={"metadata": {key: "c3"}}))[0]["trace"] == "c3"


@pytest.mark.parametrize(
    ("outputs", "output", "failed"),
    [
        ({"paid": True}, '{"paid": true}', None),
        ({"output": {"paid": True}}, '{"paid": true}', None),
        ({"output": {"type": "tool", "content": "5", "tool_call_id": "c"}}, '"5"', None),
        ({"output": {"type": "tool", "content": "no", "tool_call_id": "c", "status": "error"}}, '"no"', True),
        ({"output": {"lc": 1, "kwargs": {"content": "no", "tool_call_id": "c", "status": "error"}}}, '"no"', True),
        ({}, None, None),
        (None, None, None),
    ],
)
def test_outputs(outputs: Any, output: str | None, failed: bool | None) -> None:
    """A returned object is the outputs itself, other values have the key `output`; a message counts as its content."""
    (row,) = event_rows("langsmith", run("a", "find", outputs=outputs))
    assert (row.get("output"), row.get("failed")) == (output, failed)


def test_parallel_and_nested_runs_keep_their_start_times() -> None:
    """Child runs that were loaded with their parents are runs too."""
    inner = run("b", "inner", start_time="2026-01-31T09:30:01Z")
    outer, beside = run("a", "outer", child_runs=[inner]), run("c", "beside")
    rows = event_rows("langsmith", outer, beside)
    assert [(row["tool"], row["time"] - 1769851800) for row in rows] == [
        ("outer", 0.5),
        ("inner", 1.0),
        ("beside", 0.5),
    ]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (run("a", "pay", inputs={}), "were not recorded; select 'inputs'"),
        (run("a", "pay", inputs=None), "were not recorded"),
        (run("a", "pay", inputs="x"), "'inputs' is a string; expected an object"),
        (run("a", "pay", inputs={"input": "{'order': 7}"}, extra={}), "have no certain names"),
        (run("a", "pay", inputs={"note": "x [truncated]"}), "is truncated"),
        (run("a", "pay", outputs={"output": "x ... [truncated]"}), "the output of 'pay' is truncated"),
        (run("a", "pay", start_time=None), "'start_time' is missing; expected a time"),
        (run("a", "pay", start_time=1769851800500), "'start_time' is a number; expected a time"),
        (run("a", "pay", start_time="yesterday"), "expected a time"),
        (run("a", "pay", run_type="agent"), "expected one of chain, embedding"),
        (run("a", "answer"), "has the name of the final answer"),
        (run("a", "pay", extra=[]), "'extra' is a list; expected an object"),
        ({"run_type": "tool"}, "has no name of a tool"),
        (7, "the record is a number; expected an object"),
    ],
)
def test_an_unreadable_run_is_an_error(record: Any, message: str) -> None:
    """The error says what to do, and names the trace if the record does."""
    rows = event_rows("langsmith", record)
    assert message in rows[0]["error"]
    assert rows[0].get("trace") == (record.get("trace_id") if isinstance(record, dict) else None)


def test_a_traceable_function_may_have_a_parameter_input() -> None:
    """The decorator records the names of parameters."""
    assert event_rows("langsmith", run("a", "pay", inputs={"input": "x"}))[0]["args"] == '{"input": "x"}'


def test_the_answer_of_the_outermost_run() -> None:
    """It is certain if the run returns messages and the last one is of the model, without calls."""
    (row,) = event_rows("langsmith", root(outputs={"messages": [{"type": "ai", "content": "Paid.", "tool_calls": []}]}))
    assert (row["tool"], json.loads(row["args"]), row["time"]) == ("answer", {"text": "Paid."}, 1769851860.0)
    proposal = {"messages": [{"type": "ai", "content": "Hm.", "tool_calls": [{"name": "pay"}]}]}
    assert event_rows("langsmith", root(outputs=proposal), root(outputs={"output": "Paid."})) == []


def test_huge_values() -> None:
    """Their size alone is no error."""
    (row,) = event_rows("langsmith", run("a", "pay", inputs={"text": "x" * 5_000_000}))
    assert len(row["args"]) > 5_000_000


DOCUMENT = {"runs": [run("a", "find"), run("b", "pay", child_runs=[run("c", "inner")]), root()]}


@given(changed(DOCUMENT))
def test_no_change_loses_a_call(document: Any) -> None:
    """Each run of a tool remains an event, or there is an error."""
    pages = [document.get("runs")] if isinstance(document, dict) else []
    listed = [run for page in pages if isinstance(page, list) for run in page]
    calls = [item for item in objects(listed) if item.get("run_type") == "tool" and "trace_id" in item]
    assert_no_call_is_lost("langsmith", document, calls)
