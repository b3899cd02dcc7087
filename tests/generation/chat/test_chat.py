"""A denied call never comes back from a model that is asked over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from guardagent import Decision, InputError, ModelError, Session, aguarded_chat, guarded_chat, load_policies
from guardagent.models import load_model
from guardagent.testing import ScriptedChat, ScriptedModel
from guardagent.types import thaw
from tests.conftest import Write
from tests.generation.chat.conftest import ASK, FIND, REFUND, TOO_MUCH, TOOLS, Chat
from tests.generation.chat.replies import candidates, chunk, message, part, proposes, stream_of, streamed
from tests.models.conftest import Serve, until
from tests.models.server import Reply, status


def names(session: Session) -> list[str]:
    """The calls since the customer was found."""
    return [event.tool for event in session.history[1:]]


def test_a_call_that_complies_comes_back_and_is_in_flight(chat: Chat, session: Session) -> None:
    """With the arguments that were judged, its verdict and its permit; the tokens are counted."""
    turn, server = chat([proposes(REFUND, text="I refund it.")])
    (call,) = turn.calls
    assert (turn.outcome, turn.text, turn.requests, call.id) == ("calls", "I refund it.", 1, "id_1")
    assert (call.tool, dict(call.args), call.verdict.decision) == ("refund", {"amount": 50, "note": "none"}, "allow")
    assert (turn.usage.calls, turn.usage.prompt_tokens, turn.usage.completion_tokens) == (1, 100, 10)
    assert session.use(call.permit, "refund", call.args) == {"amount": 50, "note": "none"}
    session.record("done", permit=call.permit)
    assert [event.status for event in session.history] == ["ok", "ok"]
    assert server.requests[0]["tools"] == TOOLS
    assert turn.message()["tool_calls"][0]["function"]["arguments"] == '{"amount": 50, "note": "none"}'


def test_a_model_that_keeps_proposing_the_denied_call(chat: Chat, session: Session) -> None:
    """After three requests there is a safe ending; repeated calls are not checked again."""
    turn, server = chat([proposes(TOO_MUCH)])
    assert (turn.outcome, turn.calls, turn.text) == ("refused", (), "I cannot do this. At most 100.")
    assert (turn.requests, len(server.requests), turn.repeated, turn.usage.calls) == (3, 3, 2, 3)
    assert [(refusal.attempt, refusal.tool, refusal.repeated) for refusal in turn.refusals] == [
        (1, "refund", False),
        (2, "refund", True),
        (3, "refund", True),
    ]
    assert turn.verdict is not None
    assert turn.verdict.rules == ("small",)
    assert names(session) == []
    assert "It is excluded" in server.requests[2]["messages"][-1]["content"]


def test_a_model_that_complies_at_the_second_attempt(chat: Chat, session: Session) -> None:
    """The model gets reasons and remedy as the result of the call; the caller's messages do not change."""
    turn, server = chat([proposes(TOO_MUCH, text="All of it."), proposes(REFUND)])
    assert ([call.tool for call in turn.calls], turn.text, turn.requests) == (["refund"], "", 2)
    request, refused, result = server.requests[1]["messages"]
    assert request == ASK[0]
    assert refused["tool_calls"][0]["id"] == result["tool_call_id"]
    why = "- small: At most 100. (needed: amount (500) <= 100) To comply: Refund less."
    assert result["content"] == f"Not run. This is not allowed:\n{why}"
    assert names(session) == ["refund"]


def test_an_allowed_call_beside_a_denied_one_is_not_released_either(chat: Chat, session: Session) -> None:
    """All calls of a turn run or none; the model gets a result for each."""
    turn, server = chat([proposes(REFUND, TOO_MUCH), proposes(REFUND)])
    assert [(call.tool, thaw(call.args)["amount"]) for call in turn.calls] == [("refund", 50)]
    assert names(session) == ["refund"]
    allowed, denied = server.requests[1]["messages"][-2:]
    assert "No rule forbids this call" in allowed["content"]
    assert "At most 100" in denied["content"]

    turn, _ = chat([proposes(REFUND, TOO_MUCH)], attempts=1)
    assert (turn.outcome, turn.calls, names(session)) == ("refused", (), ["refund"])


def test_a_call_that_is_denied_only_in_company_may_come_by_itself(chat: Chat, session: Session) -> None:
    """The turn is excluded, not the call."""
    twice, once = [("pay", {"to": "ann"}), ("pay", {"to": "bob"})], ("pay", {"to": "bob"})
    turn, _ = chat([proposes(*twice), proposes(*twice), proposes(once)])
    assert [dict(call.args) for call in turn.calls] == [{"to": "bob"}]
    assert turn.requests == 3
    assert turn.repeated == 2
    assert names(session) == ["pay"]


def test_several_calls_that_comply_together_are_released_together(chat: Chat, session: Session) -> None:
    """In their order, each with a permit of its own."""
    turn, _ = chat([proposes(FIND, REFUND)])
    assert [call.tool for call in turn.calls] == names(session) == ["find", "refund"]
    for call in turn.calls:
        session.record("done", permit=call.permit)
    assert session.in_flight == ()


def test_a_halt_ends_it_at_once(chat: Chat, session: Session) -> None:
    """Also as one of several; the session is halted, and what is proposed afterwards comes back as halted."""
    turn, server = chat([proposes(REFUND, ("delete", {"id": 1}))])
    assert (turn.outcome, turn.calls, turn.waiting) == ("halted", (), ("delete", {"id": 1}))
    assert turn.verdict is not None
    assert (turn.verdict.decision, turn.verdict.permit) == (Decision.HALT, None)
    assert (session.halted, names(session), len(server.requests)) == (True, [], 1)
    assert chat([proposes(REFUND)])[0].outcome == "halted"


def test_an_escalated_call_waits_for_a_person(chat: Chat, session: Session) -> None:
    """It has no permit until it is approved."""
    turn, server = chat([proposes(("close", {"id": 7}))])
    assert (turn.outcome, turn.calls, turn.waiting, len(server.requests)) == ("escalated", (), ("close", {"id": 7}), 1)
    assert turn.verdict is not None
    assert turn.verdict.permit is None
    assert session.use(session.approve(turn.verdict).permit, "close", {"id": 7}) == {"id": 7}


def test_the_first_candidate_that_complies_wholly_is_taken(chat: Chat, session: Session) -> None:
    """Of three: one is mixed, one complies, and the third is not looked at."""
    mixed, good, halts = message(REFUND, TOO_MUCH), message(REFUND), message(("delete", {"id": 1}))
    turn, server = chat([candidates(mixed, good, halts)], candidates=3)
    assert (len(turn.calls), turn.requests, names(session), session.halted) == (1, 1, ["refund"], False)
    assert server.requests[0]["n"] == 3
    assert server.requests[0]["temperature"] > 0
    assert [refusal.tool for refusal in turn.refusals] == ["refund"]


def test_an_escalated_candidate_comes_back_only_where_none_complies(chat: Chat, session: Session) -> None:
    """And it can still be approved."""
    waits, denied = message(("close", {"id": 1})), message(TOO_MUCH)
    turn, _ = chat([candidates(waits, denied)], candidates=2)
    assert (turn.outcome, turn.waiting) == ("escalated", ("close", {"id": 1}))
    assert turn.verdict is not None
    session.record(failed=True, permit=session.approve(turn.verdict).permit)
    assert chat([candidates(waits, message(REFUND))], candidates=2)[0].calls[0].tool == "refund"


def test_an_endpoint_without_several_candidates_gets_one(chat: Chat) -> None:
    """It says so once."""
    turn, server = chat([status(400, "Unsupported", "n"), proposes(TOO_MUCH), proposes(REFUND)], candidates=2)
    assert ([call.tool for call in turn.calls], turn.requests) == (["refund"], 2)
    assert ["n" in request for request in server.requests] == [True, False, False]


@pytest.mark.parametrize(
    ("ending", "text"),
    [("refusal", "I cannot do this. At most 100."), ("nothing", ""), ("question", "At most 100. How should I go on?")],
)
def test_the_safe_ending_is_a_refusal_a_question_or_nothing(chat: Chat, ending: str, text: str) -> None:
    """Never a call."""
    turn, _ = chat([proposes(TOO_MUCH)], ending=ending, attempts=1)
    assert turn.text.endswith(text)
    assert (turn.outcome, turn.message().get("tool_calls")) == ("refused", None)


def test_a_text_comes_back_as_it_is(chat: Chat) -> None:
    """There is nothing to judge."""
    turn, _ = chat([proposes(text="Which order?")])
    assert (turn.outcome, turn.text, turn.calls, turn.verdict) == ("text", "Which order?", (), None)


@pytest.mark.parametrize("code", [500, 401])
def test_an_endpoint_that_fails_leaves_nothing_in_flight(chat: Chat, session: Session, code: int) -> None:
    """Whatever was refused before."""
    left = [proposes(TOO_MUCH)]
    with pytest.raises(ModelError, match=f"HTTP {code}"):
        chat(lambda _: left.pop() if left else status(code))
    assert names(session) == []


def test_a_temporary_failure_of_an_endpoint_is_retried(chat: Chat) -> None:
    """Retries are those of plain text."""
    turn, server = chat([status(503), proposes(REFUND)])
    assert (turn.calls[0].tool, turn.requests, len(server.requests)) == ("refund", 1, 2)


def test_the_same_in_an_event_loop(serve: Serve, session: Session) -> None:
    """With a model that has a coroutine for it, and with one that has none."""

    async def ask(model: Any) -> list[str]:
        turn = await aguarded_chat(model, ASK, TOOLS, session, stream=False)
        session.record("done", permit=turn.calls[0].permit)
        return [call.tool for call in turn.calls]

    serve([proposes(TOO_MUCH), proposes(REFUND)])
    assert asyncio.run(ask(load_model("openai/test"))) == ["refund"]
    assert asyncio.run(ask(ScriptedChat([TOO_MUCH, REFUND]))) == ["refund"]


def test_a_cancelled_request_leaves_nothing_in_flight(serve: Serve, session: Session) -> None:
    """The request ends at the server, too."""
    server = serve(lambda _: status(500, seconds=30))

    async def cancelled() -> None:
        asking = asyncio.create_task(aguarded_chat("openai/test", ASK, TOOLS, session))
        await asyncio.to_thread(until, lambda: server.open == 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.to_thread(until, lambda: server.open == 0)

    asyncio.run(cancelled())
    assert names(session) == []


@pytest.mark.parametrize("reads", range(15))
def test_a_concurrent_change_never_releases_part_of_a_turn(write: Write, reads: int) -> None:
    """The state changes after a number of reads: exactly the released calls are in flight."""
    answers = iter([True] * reads)
    rules = write("door.yaml", "version: 1\npolicies: [{id: open, temporal: 'forall(pay(), state.open == true)'}]")
    session = load_policies(rules).session(state=lambda: {"open": next(answers, False)})
    turn = guarded_chat(
        ScriptedChat([[("pay", {"to": "ann"}), ("pay", {"to": "bob"})]]), ASK, TOOLS, session, attempts=1
    )
    assert [call.permit for call in turn.calls] == list(session.in_flight)
    assert len(turn.calls) in (0, 2)
    assert (turn.outcome == "calls") == (reads >= 10)


def test_a_model_without_tools_is_refused(session: Session) -> None:
    """It is an error before any request."""
    model: Any = ScriptedModel(["Hello."])
    with pytest.raises(InputError, match="'scripted' does not support tools; expected an OpenAI-compatible model"):
        guarded_chat(model, ASK, TOOLS, session)
    assert model.requests == []


@pytest.mark.parametrize("options", [{"attempts": 0}, {"candidates": True}, {"ending": "shout"}, {"reserve": False}])
def test_an_invalid_option_is_refused_before_any_request(session: Session, options: dict[str, Any]) -> None:
    """An invalid option is an error of the caller."""
    model = ScriptedChat(["Hello."])
    with pytest.raises(InputError):
        guarded_chat(model, ASK, TOOLS, session, **options)
    assert model.requests == []


# --- a stream is held back until it is judged; an incomplete call is not a call


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
