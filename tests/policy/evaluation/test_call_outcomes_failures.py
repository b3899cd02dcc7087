"""`failed_output` is held against each part of an output by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from guardagent.batch.records import read_case
from guardagent.enforcement import HostCall, ToolGuard
from guardagent.frameworks.mcp.adapter.calls import outcome_of
from guardagent.policy.evaluation.call_outcomes import is_failure
from guardagent.session.session import Session
from guardagent.types import Event
from tests.enforcement.guards import ran

POLICY = """
version: 1
failed_output: ^(Error|No such user)
policies:
  - id: known
    temporal: before(pay(), true, find(), true)
"""
TEXT, IMAGE = {"type": "text", "text": "No such user"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}
FINE = {"type": "text", "text": "Found. No such user was missed: Error free"}


class Block:
    """As a client library's object."""

    def __init__(self, text: str) -> None:
        self.type, self.text = "text", text


FAILED: dict[str, Any] = {
    "a text": "No such user",
    "a second text": ["looked", "No such user"],
    "a second block": [FINE, TEXT],
    "beside an image": [IMAGE, TEXT],
    "a block that is an object": [Block("fine"), Block("No such user")],
    "a message in a mapping": {"message": "Error: none"},
    "a result with structured content": {"content": [TEXT], "structuredContent": {"users": []}},
    "structured content that says so": {"content": [FINE], "structuredContent": {"message": "Error: none"}},
    "a resource in a block": [{"type": "resource", "resource": {"uri": "x:y", "text": "No such user"}}],
}
WELL: dict[str, Any] = {"a text": FINE["text"], "blocks": [IMAGE, FINE], "half a character": "\ud800", "none": None}


@pytest.fixture
def guard(tmp_path: Path) -> ToolGuard:
    path = tmp_path / "p.yaml"
    path.write_text(POLICY)
    return ToolGuard(path)


def may_pay(session: Session) -> bool:
    return session.check("pay", reserve=False).label == 0


@pytest.mark.parametrize(
    ("output", "well"),
    [*((output, False) for output in FAILED.values()), *((output, True) for output in WELL.values())],
)
def test_a_part_that_matches_is_a_failure(guard: ToolGuard, output: Any, well: bool) -> None:
    """An output returned by a function, recorded in a session and written in a file, as far as JSON allows."""
    session = guard.policies.session()
    session.call(lambda: output, "find")
    assert may_pay(session) is well
    session = guard.policies.session()
    session.observe(Event("find", {}, output))
    assert may_pay(session) is well
    try:
        written = json.dumps({"id": 1, "history": [{"tool": "find", "output": output}], "proposed": {"tool": "pay"}})
    except TypeError:
        return
    case = read_case(written, "f", 1, guard.policies.failed_output)
    assert (case.history[0].status == "ok") is well


@pytest.mark.parametrize(
    ("answer", "well"),
    [
        ({"content": [TEXT], "structuredContent": {"users": []}}, False),
        ({"content": [FINE, TEXT]}, False),
        ({"content": [IMAGE, TEXT]}, False),
        ({"content": [FINE], "structuredContent": {"result": ["fine", "Error: none"]}}, False),
        ({"content": [FINE, IMAGE], "structuredContent": {"users": []}}, True),
    ],
)
def test_an_mcp_answer_is_read_in_all_its_parts(guard: ToolGuard, answer: dict[str, Any], well: bool) -> None:
    """Also those that rules see nothing of, since there is structured content."""
    call = HostCall("find", {}, "c")
    assert guard.before(call).label == 0
    guard.use(call)
    guard.after(call, outcome_of({"jsonrpc": "2.0", "id": 1, "result": answer}))
    assert may_pay(guard.session("c")) is well


def test_parts_that_say_nothing_leave_the_outcome(guard: ToolGuard) -> None:
    """A host's own word stands."""
    ran(guard, HostCall("find", {}, "c"), "fine", failed=None, other_outputs=("fine",))
    assert [event.status for event in guard.session("c").history] == ["unknown"]


PATTERNS = (
    *("^Error", "Error", "^E|no", "r|^n", "^(Error|n)", "(E|n)"),
    *("^(^E|n)", "(?i)error", "^Er+or", "r$", "^", "E|"),
)
texts = st.text(st.sampled_from("Eror: né\n"), max_size=6) | st.sampled_from(["Error: no", "an Error", "\ud800", ""])


@given(st.sampled_from(PATTERNS), texts)
def test_a_pattern_without_operators_is_the_same_as_any(pattern: str, text: str) -> None:
    """It is searched without RE2."""
    printable = text.encode("utf-8", "backslashreplace").decode()
    assert is_failure(re2.compile(pattern), text) == (re2.search(pattern, printable) is not None)
