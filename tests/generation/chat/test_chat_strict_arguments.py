"""Arguments are validated strictly: nothing is repaired, and invalid ones are refused with the reason."""

from __future__ import annotations

import re
from typing import Any

import pytest

from guardagent import InputError, Session, guarded_chat
from guardagent.generation.tool_set import ToolSet
from guardagent.testing import ChatCandidate, ScriptedChat, WrittenCall
from tests.generation.chat.conftest import ASK, REFUND, TOO_MUCH, TOOLS, Chat, tool
from tests.generation.chat.replies import candidates, message, proposes
from tests.models.conftest import KEY
from tests.tiers import slow_but_every

WRONG = [
    ("refund", '{"amount": 50', "not JSON"),
    ("refund", "", "not JSON"),
    ("refund", "amount=50", "not JSON"),
    ("refund", '{"amount": 500, "amount": 50}', "'amount' appears twice"),
    ("refund", '{"amount": NaN}', "NaN"),
    ("refund", '{"amount": 1e999}', "too large for a number"),
    ("refund", '{"amount": "50"}', "amount: '50' is not of type 'number'"),
    ("refund", '{"amount": true}', "amount: True is not of type 'number'"),
    ("refund", '{"amount": 50, "approved_by": "boss"}', "'approved_by' was unexpected"),
    ("refund", "{}", "'amount' is a required property"),
    ("refund", "[50]", "are a list; expected a JSON object"),
    ("refund", "null", "are a NoneType; expected a JSON object"),
    ("refund", '{"amount": 50, "note": "\\ud83d"}', "a value that JSON cannot represent"),
    ("refund", '{"amount": ' + "[" * 100_000, "not acceptable JSON|not JSON"),
    ("refund", '{"amount": ' + "9" * 5000 + "}", "not acceptable JSON"),
    ("pay", '{"to": "ann!"}', "to: 'ann!' does not match"),
    ("pay", f'{{"to": "{KEY}"}}', "hold a secret of this process"),
    ("pay", '{"to": "\\u0073k-test-0123456789"}', "hold a secret of this process"),
    ("Refund", '{"amount": 50}', "unknown tool 'Refund'; did you mean 'refund'"),
    ("refund ", '{"amount": 50}', "unknown tool 'refund '"),
    ("", "{}", "unknown tool ''"),
    ("drop table; --", "{}", "unknown tool"),
]


@pytest.mark.parametrize(("name", "arguments", "problem"), slow_but_every(2, WRONG))
def test_invalid_arguments_are_refused_with_the_reason(
    chat: Chat, session: Session, name: str, arguments: str, problem: str
) -> None:
    """The model gets the reason, no call runs, and then it complies."""
    turn, server = chat([proposes((name, arguments)), proposes(REFUND)])
    (refusal,) = turn.refusals
    assert (refusal.verdict.label, refusal.verdict.rules) == (1, ())
    assert re.search(problem, server.requests[1]["messages"][-1]["content"])
    assert [event.tool for event in session.history] == ["find", "refund"]
    assert [call.tool for call in turn.calls] == ["refund"]


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (candidates(message(REFUND), finish_reason="length"), "cut off"),
        (candidates(message(REFUND), finish_reason="content_filter"), "content filter"),
        (proposes(), "it is empty"),
        (candidates(message(REFUND) | {"tool_calls": message(REFUND)["tool_calls"] * 2}), "have the same id"),
        (proposes(*[REFUND] * 33), "33 calls; expected at most 32"),
        (proposes(("refund", '{"amount": 5, "note": "' + "x" * 200_000 + '"}')), "characters; expected at most"),
    ],
)
def test_an_unusable_answer_is_refused_as_a_whole(chat: Chat, session: Session, reply: Any, problem: str) -> None:
    """It is refused even if its calls would be allowed."""
    turn, server = chat([reply, proposes(REFUND)])
    assert problem in server.requests[1]["messages"][-1]["content"]
    assert (turn.refusals[0].tool, len(session.history)) == ("", 2)


@pytest.mark.parametrize(
    "call",
    [
        {"id": "a", "type": "custom", "custom": {"name": "refund", "input": "50"}},
        {"id": "a", "type": "function", "function": {"name": "refund", "arguments": {"amount": 50}}},
        {"id": "a", "type": "function", "function": {"name": None, "arguments": "{}"}},
        {"id": "a", "type": "function"},
        {},
    ],
)
def test_a_malformed_call_is_refused(chat: Chat, session: Session, call: dict[str, Any]) -> None:
    """An endpoint may send any object as a call."""
    turn, _ = chat([candidates({"role": "assistant", "content": "x", "tool_calls": [call]})], attempts=1)
    assert (turn.outcome, turn.calls, len(session.history)) == ("refused", (), 1)
    assert "malformed call" in turn.refusals[0].verdict.errors[0]


def test_the_form_of_calls_before_tool_calls_is_judged_too(chat: Chat) -> None:
    """An endpoint may still send it."""
    older = {"role": "assistant", "content": None, "function_call": {"name": "refund", "arguments": '{"amount": 500}'}}
    turn, _ = chat([candidates(older)], attempts=1)
    assert (turn.outcome, turn.refusals[0].verdict.rules) == ("refused", ("small",))


def test_the_same_call_in_another_order_of_names_is_the_same(session: Session) -> None:
    """The excluded call is known again, however it is written; another number is another call."""
    first, again = '{"amount": 500, "note": "a"}', '{ "note":"\\u0061", "amount" : 500 }'
    model = ScriptedChat([("refund", first), ("refund", again), ("refund", '{"amount": 501, "note": "a"}')])
    turn = guarded_chat(model, ASK, TOOLS, session)
    assert [refusal.repeated for refusal in turn.refusals] == [False, True, False]


def test_calls_beside_one_that_cannot_be_read_are_not_checked(session: Session) -> None:
    """A malformed turn halts nothing."""
    model = ScriptedChat([[("delete", {"id": 1}), ("refund", "{")], REFUND])
    turn = guarded_chat(model, ASK, TOOLS, session)
    assert (turn.outcome, session.halted) == ("calls", False)
    assert "This call was not judged" in model.requests[1][-2]["content"]


def test_an_odd_name_can_be_sent_back(session: Session) -> None:
    """Endpoints reject lone surrogates and names with spaces."""
    model = ScriptedChat([ChatCandidate("x", (WrittenCall("a b\ud83d", "\udfff"),)), TOO_MUCH, REFUND])
    guarded_chat(model, ASK, TOOLS, session)
    assert model.requests[1][1]["tool_calls"][0]["function"] == {"name": "a_b_", "arguments": "{}"}
    assert str(model.requests[2]).isascii()


@pytest.mark.parametrize(
    ("tools", "problem"),
    [
        ([{"name": "refund"}], r"'tools\[0\]' is not a tool"),
        ("refund", "expected a list"),
        ([tool("a"), tool("a")], "expected each name once"),
        ([tool("a", x={"type": "nummer"})], "'nummer' is not valid"),
        ([tool("a", x={"enum": {1}})], "are not JSON"),
        ([tool("a", x={"$ref": "https://example.org/schema"})], "expected a reference within the same schema"),
        ([tool("a", x={"type": "string", "pattern": "(?=a)"})], "not an RE2 regular expression"),
        ([tool("a", x={"type": "object", "patternProperties": {"a": {}}})], "'patternProperties' is not supported"),
    ],
)
def test_an_invalid_tool_is_an_error_of_the_caller(tools: Any, problem: str) -> None:
    """It is raised before any request."""
    with pytest.raises(InputError, match=problem):
        ToolSet(tools)


def test_a_pattern_takes_linear_time() -> None:
    """The string comes from the model; a backtracking engine would need exponential time for this one."""
    offered = ToolSet([tool("a", x={"type": "string", "pattern": "^(a+)+$"})])
    with pytest.raises(InputError, match="does not match"):
        offered.parse("a", f'{{"x": "{"a" * 5000}!"}}')


def test_names_in_parts_of_a_schema_are_declared_and_a_tool_may_take_any() -> None:
    """A schema may be put together; one that says that it takes other names does."""
    named = {"properties": {"y": {"type": "integer"}}}
    schema = {"$defs": {"p": named}, "properties": {"x": {}}, "allOf": [{"$ref": "#/$defs/p"}]}
    offered = ToolSet(
        [
            {"type": "function", "function": {"name": "a", "parameters": schema}},
            {"type": "function", "function": {"name": "any", "parameters": {"additionalProperties": True}}},
            {"type": "function", "function": {"name": "none"}},
        ]
    )
    assert offered.parse("a", '{"x": 1, "y": 2}') == {"x": 1, "y": 2}
    assert offered.parse("any", '{"z": 1}') == {"z": 1}
    assert offered.parse("none", "{}") == {}
    for name, arguments in (("a", '{"z": 1}'), ("a", '{"y": "1"}'), ("none", '{"z": 1}')):
        with pytest.raises(InputError, match="do not fit"):
            offered.parse(name, arguments)
