"""Calls, outcomes, verdicts, tools and approvals keep their value on the wire; anything else is refused."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal as ExactNumber
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.enforcement import Approval, HostCall, Outcome, ToolSpec
from guardagent.enforcement.wire import (
    MAX_DEPTH,
    WireError,
    dumps,
    loads,
    read_approval,
    read_call,
    read_outcome,
    read_tool,
    read_value,
    read_verdict,
    write_approval,
    write_call,
    write_outcome,
    write_tool,
    write_value,
    write_verdict,
)
from guardagent.types import Decision, Usage, Verdict, Violation, freeze, thaw


def unfolded(moment: Any) -> Any:
    """A time without a mark for the second hour of a clock change, which ISO 8601 lacks."""
    return moment.replace(fold=0)


TEXT = st.text(max_size=8)
EXACT = st.decimals(allow_nan=False, allow_infinity=False)
ATOMS = st.one_of(
    st.none(), st.booleans(), TEXT, st.integers(), st.floats(allow_nan=False, allow_infinity=False), EXACT, st.dates(),
    st.datetimes(timezones=st.just(dt.UTC)).map(unfolded), st.times().map(unfolded),
    st.timedeltas(), st.uuids(), st.binary(max_size=8),
)  # fmt: skip
KEYS = TEXT | st.sampled_from(["$object", "dict"])
VALUES = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))
MAPPINGS = st.dictionaries(KEYS, VALUES, max_size=3)
OPTIONAL = st.none() | TEXT
JSON = st.recursive(
    st.none() | st.booleans() | TEXT | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
)

CALLS = st.builds(
    HostCall,
    tool=TEXT,
    args=MAPPINGS,
    conversation=st.just("c1"),
    id=TEXT,
    agent=OPTIONAL,
    step=OPTIONAL,
    action=OPTIONAL,
    tags=st.frozensets(TEXT, max_size=2),
    facts=MAPPINGS,
    messages=st.none() | st.lists(MAPPINGS, max_size=2).map(tuple),
    seen=st.none() | st.lists(TEXT, max_size=2).map(tuple),
    principal=st.none() | MAPPINGS,
)
VIOLATIONS = st.builds(Violation, TEXT, TEXT, JSON, OPTIONAL)
VERDICTS = st.builds(
    Verdict,
    st.sampled_from(list(Decision)),
    st.lists(TEXT, max_size=2).map(tuple),
    st.lists(VIOLATIONS, max_size=2).map(tuple),
    st.lists(TEXT, max_size=2).map(tuple),
    st.dictionaries(TEXT, JSON, max_size=2),
    OPTIONAL,
    OPTIONAL,
    st.sampled_from(["program", "generated", "policy", "structure"]),
    st.builds(Usage, st.integers(0, 9), seconds=st.just(0.25)),
    st.just(1.5),
)


def passed(written: Any) -> Any:
    return loads(dumps(written))


@given(VALUES)
def test_a_value_keeps_its_type(value: Any) -> None:
    """Decimals, dates and large integers too; and a mapping cannot imitate a tagged value."""
    copy = read_value(passed(write_value(freeze(value))))
    assert copy == value
    assert repr(copy) == repr(value)


@given(CALLS)
def test_a_call_keeps_its_digest(call: HostCall) -> None:
    """So a reviewer approves the call that the agent proposed."""
    copy = read_call(passed(write_call(call)), "c1")
    assert copy == call
    assert copy.digest == call.digest


@given(VERDICTS)
def test_a_verdict_keeps_its_public_json(verdict: Verdict) -> None:
    """Its reader gives the same verdict."""
    if not verdict.usage.calls:
        verdict = replace(verdict, usage=Usage())
    copy = read_verdict(passed(write_verdict(verdict)))
    assert copy == verdict
    assert copy.to_json() == verdict.to_json()


@given(st.builds(Outcome, VALUES, st.none() | st.booleans(), st.booleans(), st.lists(VALUES, max_size=2).map(tuple)))
def test_an_outcome_is_the_one_that_rules_read(outcome: Outcome) -> None:
    """Dates are strings there, as in every history."""
    from guardagent.types.values import readable_copy

    copy = read_outcome(passed(write_outcome(outcome)))
    assert copy.output == thaw(readable_copy(outcome.output))
    assert (copy.failed, copy.ended) == (outcome.failed, outcome.ended)
    assert len(copy.other_outputs) == len(outcome.other_outputs)


@given(
    st.builds(
        ToolSpec,
        TEXT,
        st.dictionaries(TEXT, JSON, max_size=3),
        TEXT,
        unlisted_arguments=st.none() | st.frozensets(TEXT),
    )
)
def test_a_tool_keeps_its_digest(tool: ToolSpec) -> None:
    """And the arguments that only rules see."""
    copy = read_tool(passed(write_tool(tool)))
    assert copy == tool
    assert copy.digest == tool.digest


@given(MAPPINGS, st.sampled_from(["approve", "reject", "edit"]), TEXT, OPTIONAL, OPTIONAL)
def test_approvals_keep_their_value(
    args: dict[str, Any], choice: Any, reason: str, by: str | None, digest: str | None
) -> None:
    approval = Approval(choice, args if choice == "edit" else {}, reason, by or None, digest or None)
    assert read_approval(passed(write_approval(approval))) == approval


CALL: dict[str, Any] = {"id": "1", "tool": "refund", "args": {"amount": 5}}
VERDICT: dict[str, Any] = write_verdict(Verdict(Decision.DENY, ("no",)))
READERS: dict[str, Callable[[Any], Any]] = {
    "call": lambda value: read_call(value, "c1"),
    "verdict": read_verdict,
    "outcome": read_outcome,
    "tool": read_tool,
    "approval": read_approval,
}


@pytest.mark.parametrize(
    ("kind", "value", "where", "problem"),
    [
        ("call", [], "call", "is a list; expected an object"),
        ("call", {**CALL, "argz": {}}, "call.argz", "did you mean 'args'"),
        ("call", {"id": "1", "args": {}}, "call", "the field 'tool' is missing"),
        ("call", {**CALL, "id": 1}, "call.id", "expected a string"),
        ("call", {**CALL, "id": None}, "call.id", "is null"),
        ("call", {**CALL, "args": {"$object": ["decimal", "1"]}}, "call.args", "expected an object"),
        ("call", {**CALL, "args": {"a": {"$object": ["decimal", "NaN"]}}}, "call.args.a", "finite"),
        ("call", {**CALL, "args": {"a": {"$object": ["decimal", "01"]}}}, "call.args.a", "usual form"),
        ("call", {**CALL, "args": {"a": {"$object": ["os", "x"]}}}, "call.args.a", "$object"),
        ("call", {**CALL, "args": {"a": [{"$object": ["date", "May"]}]}}, "call.args.a[0]", "is not a date"),
        ("call", {**CALL, "tags": ["a", 1]}, "call.tags[1]", "expected a string"),
        ("call", {**CALL, "messages": ["hi"]}, "call.messages[0]", "expected an object"),
        ("call", {**CALL, "facts": [1]}, "call.facts", "expected an object"),
        ("verdict", {**VERDICT, "label": 0}, "verdict.label", "the decision is deny"),
        ("verdict", {**VERDICT, "label": True}, "verdict.label", "expected a whole number"),
        ("verdict", {**VERDICT, "decision": "maybe"}, "verdict.decision", "expected one of allow"),
        ("verdict", {**VERDICT, "violations": [{"policy": 1}]}, "verdict.violations[0].policy", "expected a string"),
        ("verdict", {**VERDICT, "model_calls": 1, "usage": {"calls": 2, "cached": 0, "seconds": 0}},
         "verdict.model_calls", "2 calls"),
        ("outcome", {"output": 1, "failed": 0, "ended": True}, "outcome.failed", "true, false or null"),
        ("tool", {"name": "x", "parameters": [1]}, "tools[].parameters", "expected an object"),
        ("approval", {"choice": "edit"}, "approval.args", "the new arguments"),
        ("approval", {"choice": "approve", "args": {}}, "approval.args", "none for 'approve'"),
    ],
)  # fmt: skip
def test_a_wrong_form_is_refused_with_its_place(kind: str, value: Any, where: str, problem: str) -> None:
    """Nothing is guessed or ignored."""
    with pytest.raises(WireError) as refused:
        READERS[kind](value)
    assert refused.value.where == where
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b'{"a": 1e999}', "too large"),
        (b"[" * 200 + b"]" * 200, "too deep"),
        (b"[" * 100_000, "too deep"),
        (b'{"a": ["\\ud800"]}', "a[0]: contains half of a surrogate pair"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b'"\xed\xa0\x80"', "not JSON"),
        (b"1" * 5000, "not JSON"),
        (b'{"a": 0.' + b"1" * 5000 + b"}", "at most 4,300"),
        (b"<html>", "not JSON"),
        (b'"' + b"x" * 1000 + b'"', "at most 900"),
    ],
)
def test_an_ambiguous_text_is_refused(text: bytes, problem: str) -> None:
    """Readers of JSON differ on it, or it is too large."""
    with pytest.raises(WireError, match=problem.replace("[", r"\[")):
        loads(text, limit=200_000 if b"[" in text or len(text) > 4000 else 900)


def test_numbers_stay_exact() -> None:
    """A number that no float prints as is a decimal; any other one is what Python's JSON makes of it."""
    numbers = loads(b"[0.1, 1.10, 0.12345678901234567890123, 1e-400, 123456789012345678901234567890, 1e2]")
    exact = [ExactNumber("0.12345678901234567890123"), ExactNumber("1e-400")]
    assert numbers == [0.1, 1.1, *exact, 123456789012345678901234567890, 100.0]
    assert [type(number) for number in numbers] == [float, float, ExactNumber, ExactNumber, int, float]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (float("nan"), "call.args.a: is nan; expected a finite number"),
        ("\ud800", "call.args.a: contains half"),
        ({1: 2}, "call.args.a: a key is a int"),
        (object(), "call.args.a: is a object; expected JSON"),
        ({1, 2}, "call.args.a: is a set"),
        pytest.param(10**5000, "call.args.a: has more than 4300 digits", id="many digits"),
    ],
)
def test_a_call_without_a_form_is_not_written(value: Any, problem: str) -> None:
    """The server could not judge the call that the tool gets."""
    with pytest.raises(WireError, match=problem):
        write_call(HostCall("refund", {"a": value}, "c1"))


def test_too_many_levels_are_not_written() -> None:
    """The limit is the same for readers."""
    value: Any = "x"
    for _ in range(MAX_DEPTH):
        value = [value]
    assert read_value(passed(write_value(value))) == value
    with pytest.raises(WireError, match="too deep"):
        write_value([value])
    with pytest.raises(WireError, match="too deep"):
        read_value([value])


def test_an_outcome_is_always_written() -> None:
    """A lost object is null, as for rules; if a lost string could tell a failure, the status is unknown."""
    assert write_outcome(Outcome([1, object()])) == {"output": [1, None], "failed": False, "ended": True}
    assert write_outcome(Outcome("\ud800")) == {"output": None, "failed": None, "ended": True}
    assert write_outcome(Outcome({1: "x"}, failed=True)) == {"output": None, "failed": True, "ended": True}
    endless: list[Any] = []
    endless.append(endless)
    assert write_outcome(Outcome(endless))["failed"] is None


def test_a_verdict_is_always_written() -> None:
    """Values that JSON lacks become strings."""
    odd = {"x": ExactNumber("1.0"), "y": float("inf"), "z": "\ud800", "w": 10**5000}
    written = passed(write_verdict(Verdict(Decision.DENY, violations=(Violation("p", "m", odd),))))
    assert written["violations"][0]["evidence"] == {
        "x": "1.0", "y": "Infinity", "z": "\\ud800", "w": hex(10**5000),
    }  # fmt: skip
    assert json.dumps(written)
