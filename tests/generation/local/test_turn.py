"""One guarded turn: several calls, backtracking, giving up, and the ending."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from guardagent import InputError
from guardagent.generation.local import GeneratedTurn, guarded_generate
from guardagent.generation.local.decoder import ForbiddenTrie
from guardagent.session.session import Session
from tests.generation.local import tiny

pytestmark = pytest.mark.slow
OF = tiny.hermes()
MAIL, BIG = ("send_mail", {"text": "hi"}), ("refund", {"order": "W2", "amount": 50})
SMALL = ("refund", {"order": "W2", "amount": 5})
PURGE: tuple[str, dict[str, Any]] = ("purge", {})


def written(texts: dict[str, float], session: Session | None, **options: Any) -> GeneratedTurn:
    """A turn of an engine that generates these texts."""
    settings = {"do_sample": True, "seed": 1, **options}
    return guarded_generate(tiny.Known(OF, texts), OF, tiny.CHAT, tiny.TOOLS, session, **settings)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return tiny.session(tiny.policies(tmp_path))


def names(turn: GeneratedTurn) -> list[str]:
    return [call.tool for call in turn.calls]


def test_a_call_is_released_with_its_verdict_and_permit(session: Session) -> None:
    """It is in flight, its outcome can be recorded, and the turn is a chat message."""
    turn = written({tiny.turn(SMALL, text="Here you are. "): 1.0}, session)
    (call,) = turn.calls
    assert call.permit is not None
    assert session.use(call.permit, *SMALL) == SMALL[1]
    session.record("done", permit=call.permit)
    assert session.history[-1].status == "ok"
    assert (turn.text, turn.ended, turn.checks, turn.backtracks) == ("Here you are. ", "end", 1, 0)
    assert turn.message["tool_calls"][0]["function"] == {"name": "refund", "arguments": SMALL[1]}


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_a_call_that_cannot_comply_is_stopped_early(session: Session, mode: Any) -> None:
    """It is stopped at a name or an argument after which no completion complies."""
    unseen = ("refund", {"order": "W1", "amount": 5})
    turn = written({tiny.turn(PURGE): 0.5, tiny.turn(unseen): 0.4, "no": 0.1}, session, mode=mode)
    assert (turn.calls, turn.text, turn.checks) == ((), "no", 0)
    assert turn.backtracks > 0
    assert turn.discarded < turn.backtracks * len(OF(tiny.turn(PURGE))["input_ids"])
    assert len(session.history) == 2


def test_without_sampling_fast_finds_the_likeliest_that_complies(session: Session) -> None:
    """The path that was denied is forbidden; the next one is taken."""
    texts = {tiny.turn(BIG): 0.6, tiny.turn(SMALL): 0.3, "no": 0.1}
    turn = written(texts, session, do_sample=False, mode="fast")
    assert names(turn) == ["refund"]
    assert turn.calls[0].args["amount"] == 5
    assert turn.backtracks == 1


def test_without_sampling_exact_does_not_try_again(session: Session) -> None:
    """The same call would come again."""
    turn = written({tiny.turn(BIG): 0.6, tiny.turn(SMALL): 0.4}, session, do_sample=False)
    assert (turn.ended, turn.calls, turn.backtracks) == ("gave up", (), 0)
    assert "fast" in turn.why


def test_calls_of_one_turn_are_judged_against_the_history_they_make(tmp_path: Path) -> None:
    """A call in flight does not satisfy a precondition, but it counts for a prohibition."""
    policy = (
        "version: 1\npolicies:\n  - id: once\n    temporal: 'forall(refund(order=o), count(f:refund(order=o)) < 1)'\n"
    )
    session = tiny.policies(tmp_path, policy).session()
    texts = {tiny.turn(SMALL, SMALL): 0.7, tiny.turn(SMALL, MAIL): 0.3}
    turn = written(texts, session, mode="fast")
    assert names(turn) == ["refund", "send_mail"]
    assert [event.tool for event in session.history] == ["refund", "send_mail"]


def test_a_call_that_needs_one_of_its_own_turn_waits(tmp_path: Path) -> None:
    """An authentication in flight has not happened yet."""
    session = tiny.policies(tmp_path).session()
    login, order = ("authenticate", {"user": "ann"}), ("get_order", {"order": "W1"})
    turn = written({tiny.turn(login, order): 0.9, tiny.turn(login): 0.1}, session)
    assert names(turn) == ["authenticate"]


def test_calls_that_may_run_in_any_order_are_judged_in_every_order(tmp_path: Path) -> None:
    """A call that forbids one before it is refused beside it, where nobody keeps the order."""
    policy = "version: 1\npolicies:\n  - id: last\n    temporal: G(tool:send_mail -> G !tool:refund)\n"
    rules = tiny.policies(tmp_path, policy)
    texts = {tiny.turn(SMALL, MAIL): 0.8, tiny.turn(SMALL): 0.2}
    assert names(written(texts, rules.session())) == ["refund", "send_mail"]
    assert names(written(texts, rules.session(), parallel=True)) == ["refund"]


def test_it_gives_up_after_so_many_backtracks(session: Session) -> None:
    """No call, no tokens of one, and a refusal with the rule's message."""
    turn = written({tiny.turn(BIG, text="Sure. "): 1.0}, session, max_backtracks=3)
    assert (turn.ended, turn.calls, turn.backtracks) == ("gave up", (), 3)
    assert turn.text.startswith("Sure. \n\nI cannot do this.")
    assert OF.decode(turn.tokens) == "Sure. "
    assert "tool_calls" not in turn.message
    assert len(session.history) == 2


def test_it_gives_up_after_so_many_tokens(session: Session) -> None:
    """Those that were taken back count."""
    turn = written({tiny.turn(BIG): 1.0}, session, max_total_tokens=50, max_backtracks=1000)
    assert turn.ended == "gave up"
    assert turn.discarded + len(turn.tokens) == 50


def test_it_gives_up_where_every_way_is_forbidden(session: Session) -> None:
    """A turn that has to be a call, of which none is allowed."""
    turn = written({tiny.turn(BIG): 1.0}, session, mode="fast", tool_choice="required", do_sample=False)
    assert turn.ended == "gave up"
    assert "forbidden" in turn.why


ESCALATING = """
version: 1
policies:
  - id: large
    temporal: forall(refund(amount=a), a <= 20)
    message: A person decides on more than 20.
    on_violation: escalate
"""


def test_the_ending_is_silence_a_refusal_a_question_or_the_callers(tmp_path: Path) -> None:
    """An escalated call is not made; the question asks for it."""
    rules = tiny.policies(tmp_path, ESCALATING)
    texts = {}
    for ending in ("silence", "refusal", "question", lambda verdict: f"{verdict.decision}!"):
        turn = written({tiny.turn(BIG): 1.0}, rules.session(), max_backtracks=1, ending=ending, tool_choice="auto")
        texts[str(ending)] = turn.text
        assert turn.calls == ()
    assert [*texts.values()] == [
        "",
        "I cannot do this. A person decides on more than 20.",
        "I cannot do this as it is. A person decides on more than 20. May it be done?",
        "escalate!",
    ]


def test_a_call_that_would_halt_halts_nothing_as_it_never_was(tmp_path: Path) -> None:
    """It was taken back; the next one may be made."""
    session = tiny.policies(tmp_path, ESCALATING.replace("escalate", "halt")).session()
    turn = written({tiny.turn(BIG): 0.8, tiny.turn(SMALL): 0.2}, session)
    assert names(turn) == ["refund"]
    assert not session.halted


def test_an_incomplete_call_is_dropped(session: Session) -> None:
    """At the token limit, the tokens of an incomplete call are dropped too."""
    turn = written(
        {tiny.turn(MAIL, SMALL): 1.0}, session, max_new_tokens=len(OF(tiny.turn(MAIL, SMALL))["input_ids"]) - 6
    )
    assert (names(turn), turn.ended) == (["send_mail"], "length")
    assert "refund" not in OF.decode(turn.tokens)


def test_a_call_that_something_else_overtook_is_not_released(tmp_path: Path) -> None:
    """Another thread's call comes while the turn is written: all calls of the turn are withdrawn."""
    policy = "version: 1\npolicies:\n  - id: last\n    temporal: G(tool:purge -> G !tool:refund)\n"
    session = tiny.policies(tmp_path, policy).session()

    class Overtaking(tiny.Known):
        def step(self, token: int) -> None:
            super().step(token)
            if len(self._tokens) == len(OF(tiny.turn(MAIL, SMALL))["input_ids"]):
                session.check("purge")

    engine = Overtaking(OF, {tiny.turn(MAIL, SMALL): 1.0})
    turn = guarded_generate(engine, OF, tiny.CHAT, tiny.TOOLS, session, do_sample=True, seed=1)
    assert (turn.calls, turn.ended, turn.tokens) == ((), "gave up", ())
    assert [(event.tool, event.status) for event in session.history] == [("purge", None)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "quick"}, "'exact' or 'fast'"),
        ({"ending": "shrug"}, "'refusal'"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"max_backtracks": -1}, "max_backtracks"),
        ({"tool_format": "herms"}, "'hermes'"),
        ({"temperature": -1.0}, "temperature"),
        ({"tools": [{"name": "a"}, {"name": "a"}]}, "two tools"),
        ({"tools": [{"name": "a", "parameters": {"type": "array"}}]}, "not a JSON schema of an object"),
        ({"tools": [{"name": "a", "parameters": {"properties": {"x": {"type": "colour"}}}}]}, "grammar"),
        ({"tools": [5]}, "a tool is a int"),
        ({"messages": 5}, "'messages' is a int"),
        ({"messages": ["a", 5]}, "not a message"),
        ({"model": object()}, "a ModelEngine"),
        ({"tokenizer": object()}, "fast tokenizer"),
    ],
)
def test_wrong_options_are_refused(session: Session, options: dict[str, Any], message: str) -> None:
    """The error has the expectation, and no call is reserved."""
    call = {
        "model": tiny.Known(OF, {tiny.turn(MAIL): 1.0}), "tokenizer": OF, "messages": tiny.CHAT, "tools": tiny.TOOLS,
        "session": session, "do_sample": True, **options,
    }  # fmt: skip
    with pytest.raises(InputError, match=message):
        guarded_generate(**call)
    assert len(session.history) == 2


AMOUNTS = {21: 0.2, 22: 0.15, 23: 0.14, 24: 0.13, 25: 0.12, 26: 0.1, 27: 0.06, 28: 0.04, 29: 0.03, 30: 0.02, 5: 0.01}


def test_a_prefix_of_many_denied_values_is_forbidden(session: Session) -> None:
    """After eight amounts that begin with a 2, the ninth is not tried."""
    texts = {tiny.turn(("refund", {"order": "W2", "amount": amount})): weight for amount, weight in AMOUNTS.items()}
    turn = written(texts, session, do_sample=False, mode="fast")
    assert [call.args["amount"] for call in turn.calls] == [5]
    assert turn.backtracks == len(AMOUNTS) - 2


def test_an_extension_of_a_denied_value_forbids_its_prefix() -> None:
    """900 is denied at its end; after 9000 is denied, 900 is not extended again."""
    digits, end = [9, 0, 0], 10
    forbidden = ForbiddenTrie(0)
    for token in [1, *digits, end]:
        forbidden.push(token)
    assert forbidden.deny([1, *digits, end], 1) == 4
    forbidden.cut(4)
    for token in [0, end]:
        forbidden.push(token)
    assert forbidden.deny([1, *digits, 0, end], 1) == 3
    forbidden.cut(3)
    assert forbidden.here == {0}
