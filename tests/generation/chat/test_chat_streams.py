"""A stream is held back until it is judged; an incomplete call is not a call."""

from __future__ import annotations

from typing import Any

import pytest

from guardagent import ModelError, Session
from tests.generation.chat.conftest import REFUND, TOO_MUCH, Chat
from tests.generation.chat.replies import chunk, part, stream_of, streamed
from tests.models.server import Reply

HALF = ['{"amount"', ": 50}"]


def test_a_stream_is_put_together_and_judged(chat: Chat, session: Session) -> None:
    """The denied one is not released, the next one is; text and usage come whole."""
    turn, server = chat([stream_of(TOO_MUCH), stream_of(REFUND)], stream=True)
    (call,) = turn.calls
    assert (dict(call.args), call.id, turn.text) == ({"amount": 50, "note": "none"}, "id_1", "One moment.")
    assert (turn.requests, turn.usage.prompt_tokens, turn.usage.completion_tokens) == (2, 200, 20)
    assert [refusal.verdict.rules for refusal in turn.refusals] == [("small",)]
    assert server.requests[0]["stream_options"] == {"include_usage": True}
    assert [event.tool for event in session.history] == ["find", "refund"]


def test_calls_and_candidates_that_come_in_turns(chat: Chat, session: Session) -> None:
    """Pieces of two calls, and of two candidates, mixed: the first candidate is denied for its second call."""
    pieces = [
        chunk(part(0, HALF[0], "refund", "a")),
        chunk(part(1, '{"amount": 5', "refund", "b")),
        chunk(part(0, HALF[0], "refund", "c"), index=1),
        chunk(part(1, "00}")),
        chunk(part(0, HALF[1])),
        chunk(part(0, HALF[1]), index=1),
        chunk({}, "tool_calls", index=1),
        chunk({}, "tool_calls"),
    ]
    turn, _ = chat([streamed(pieces)], stream=True, candidates=2)
    assert [(call.id, call.args["amount"]) for call in turn.calls] == [("c", 50)]
    assert [refusal.arguments for refusal in turn.refusals] == ['{"amount": 500, "note": "none"}']
    assert len(session.in_flight) == 1


@pytest.mark.parametrize(
    ("pieces", "problem"),
    [
        ([part(0, HALF[0], "refund", "a")], "not JSON"),
        ([part(0, HALF[0], "refund", "a"), part(0, HALF[1], None, "b")], "ids of two calls"),
        ([part(0, HALF[0], "refund", "a"), part(0, HALF[1], "refund")], "unknown tool 'refundrefund'"),
        ([part(0, "{}", "refund"), part(0, "{}")], "not JSON"),
        ([{"tool_calls": [{"index": 0, "function": {"name": "refund", "arguments": {"amount": 50}}}]}], "not strings"),
        ([{"tool_calls": [{"index": 0, "type": "custom", "function": {"name": "refund"}}]}], "not a function call"),
        ([{"function_call": {"name": "refund", "arguments": '{"amount": 500}'}}], "At most 100"),
    ],
)
def test_pieces_that_do_not_make_a_call(chat: Chat, session: Session, pieces: list[Any], problem: str) -> None:
    """They are refused with the reason; nothing is guessed."""
    turn, server = chat([streamed([*map(chunk, pieces), chunk({}, "stop")]), stream_of(REFUND)], stream=True)
    assert problem in server.requests[1]["messages"][-1]["content"]
    assert (turn.requests, [event.tool for event in session.history]) == (2, ["find", "refund"])


@pytest.mark.slow
def test_a_stream_that_breaks_off_is_retried(chat: Chat, session: Session) -> None:
    """A stream cut by the network or without a finish reason has no call, even if its JSON is complete."""
    whole = [chunk(part(0, '{"amount": 50}', "refund", "a"))]
    cut = Reply(stream_of(REFUND).body, content_type="text/event-stream", cut=True)
    for broken in (streamed(whole, done=False), streamed(whole), cut):
        turn, server = chat([broken, stream_of(REFUND)], stream=True)
        assert (turn.requests, len(server.requests)) == (1, 2)
        session.record("done", permit=turn.calls[0].permit)
    with pytest.raises(ModelError, match="the stream broke off"):
        chat([streamed(whole)], stream=True)
    assert [event.tool for event in session.history] == ["find", *["refund"] * 3]


def test_a_stream_that_fails_or_never_ends(chat: Chat, session: Session) -> None:
    """An error in a stream is a model error, and the length of a stream is limited."""
    failed = Reply(b'data: {"error": {"message": "overloaded"}}\n\n', content_type="text/event-stream")
    with pytest.raises(ModelError, match="overloaded"):
        chat([failed], stream=True)
    with pytest.raises(ModelError, match="more than 200,000 characters"):
        chat([streamed(chunk({"content": "x" * 5000}) for _ in range(50))], stream=True)
    with pytest.raises(ModelError):
        chat([Reply(b"data: {nonsense\n\n", content_type="text/event-stream")], stream=True)
    assert session.in_flight == ()
