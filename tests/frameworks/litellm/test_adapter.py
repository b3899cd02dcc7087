"""LiteLLM's proxy: what clients get, with a model that follows a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("litellm")

import litellm
from litellm.proxy import proxy_server
from litellm.proxy.proxy_server import HTTPException

from guardagent.enforcement import SqliteLedger, ToolGuard
from guardagent.errors import InputError
from guardagent.frameworks.litellm import Guardrail, principal
from guardagent.frameworks.litellm.adapter.conversations import OpenConversations, calling, conversation_of
from guardagent.frameworks.litellm.adapter.formats import sse_data
from guardagent.testing.conformance.host import NoSecrets
from tests.frameworks.litellm.clients import CLIENTS, GatewayClient
from tests.frameworks.litellm.gateway import MODE, guardrail, inside, model, post
from tests.frameworks.litellm.upstream import Turn, event, sse_events
from tests.frameworks.scenarios import (
    APPROVED,
    ASKS,
    AT_MOST_ONE,
    HALTED,
    LIMIT,
    MISSPELT,
    OVER_LIMIT,
    TOKENS,
    broken_rules,
    guard_of,
)

every = pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
SCHEMA = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}, "amount": {"type": "integer", "default": 500}},
}
ANSWER_RULE = """
version: 1
policies:
  - id: secret
    temporal: forall(answer(text=t), !(t matches /(?s:.*)47x11(?s:.*)/))
    message: Do not tell a PIN.
"""


def refund(amount: Any, order_id: str = "W1") -> tuple[str, Any]:
    return ("refund", {"order_id": order_id, "amount": amount})


class Talk:
    """A conversation of a client with the proxy.

    Attributes:
        status: the status of the last response.
        raw: its text.
        items: the messages.
    """

    def __init__(self, client: GatewayClient, process: Guardrail, turns: Sequence[Turn], **options: Any) -> None:
        self.client, self.process, self.options = client, process, options
        names = options.pop("tools", ("refund", "wire"))
        schemas = options.pop("schemas", {})
        self.tools = {name: client.tool(name, schemas.get(name, SCHEMA)) for name in names}
        self.items: list[Any] = [client.user(model().script(turns))]
        self.status, self.raw = 0, ""

    def ask(self, *items: Any, stream: bool = False, **body: Any) -> tuple[str, list[Any]]:
        """Sends the messages. Returns the text and the calls that the client gets."""
        return asyncio.run(self.aask(*items, stream=stream, **body))

    async def aask(self, *items: Any, stream: bool = False, **body: Any) -> tuple[str, list[Any]]:
        self.items += items
        whole = {**self.client.body(self.items, self.tools, stream=stream), **body}
        with inside(self.process):
            response = await post(self.client.path, whole, **self.options)
        self.status, self.raw = response.status_code, response.text
        if self.status != 200:
            return response.text, []
        text, calls, more = self.client.read_text(response.text, stream=stream)
        self.items += more
        return text, calls

    def result(self, call: Any, output: str = "refunded") -> tuple[str, list[Any]]:
        """Sends the result of a call, with the messages."""
        return self.ask(*self.client.results([(call[0], output)]))


def talk(client: GatewayClient, guard: ToolGuard, *turns: Turn, **options: Any) -> Talk:
    """Begins a conversation with a process of the proxy."""
    model()
    about = {name: options.pop(name) for name in ("tools", "schemas", "conversation", "headers") if name in options}
    return Talk(client, guardrail(guard, **options), turns, **about)


# --- denials


@both
@every
def test_a_denied_refund_is_replanned(client: GatewayClient, stream: bool, tmp_path: Path) -> None:
    """The client never sees the call of 5007005; the model reads why, and the client gets the call of 50."""
    client_talk = talk(client, guard_of(tmp_path, LIMIT), [refund(5007005)], [refund(50)])
    _, calls = client_talk.ask(stream=stream)
    assert [args for _, _, args in calls] == [{"order_id": "W1", "amount": 50}]
    assert "5007005" not in client_talk.raw
    assert "refund 100 or less" in str(model().requests[-1])


@both
@every
def test_without_replans_the_reasons_are_the_answer(client: GatewayClient, stream: bool, tmp_path: Path) -> None:
    """The response is complete, and has no call."""
    client_talk = talk(client, guard_of(tmp_path, LIMIT), [refund(500)], replan=False)
    text, calls = client_talk.ask(stream=stream)
    assert calls == []
    assert "A refund is at most 100." in text
    assert "refund 100 or less" in text


@both
@every
def test_of_several_calls_the_allowed_ones_remain(client: GatewayClient, stream: bool, tmp_path: Path) -> None:
    """The text has the reasons of the others."""
    client_talk = talk(client, guard_of(tmp_path, LIMIT), [refund(500, "A"), refund(50, "B"), refund(600, "C")], "paid")
    text, calls = client_talk.ask(stream=stream)
    assert [args["order_id"] for _, _, args in calls] == ["B"]
    assert text.count("A refund is at most 100.") == 2
    assert client_talk.result(calls[0]) == ("paid", [])


@every
def test_after_three_replans_control_returns_to_the_user(client: GatewayClient, tmp_path: Path) -> None:
    """The reasons are the answer; a new message of the user starts from zero."""
    client_talk = talk(client, guard_of(tmp_path, LIMIT), *[[refund(500 + at)] for at in range(5)], [refund(50)])
    text, calls = client_talk.ask()
    assert calls == []
    assert "control returns to the user" in text
    _, calls = client_talk.ask(client.user("go on"))
    assert [args["amount"] for _, _, args in calls] == [50]


@both
@every
def test_a_halt_ends_the_conversation(client: GatewayClient, stream: bool, tmp_path: Path) -> None:
    """No call of its response reaches the client, and none later."""
    guard = guard_of(tmp_path, HALTED)
    client_talk = talk(client, guard, [refund(5), ("wire", {"amount": 5})], [refund(5)])
    text, calls = client_talk.ask(stream=stream)
    assert calls == []
    assert "No money leaves the bank" in text
    text, calls = client_talk.ask(client.user("go on"), stream=stream)
    assert (text, calls) == ("done", [])
    assert "halted" in str(model().requests[-1])
    assert [event.status for event in guard.session(guardrail_id("c1")).history] in ([], ["withdrawn"])


def guardrail_id(name: str) -> str:
    """Returns the guard's id of a conversation of the master key."""
    auth = SimpleNamespace(api_key="litellm_proxy_master_key", team_id=None, org_id=None)
    conversation = conversation_of({"litellm_session_id": name}, auth)
    assert conversation is not None
    return conversation


@pytest.mark.parametrize("fault", broken_rules())
def test_broken_rules_deny(fault: str, tmp_path: Path) -> None:
    """An exception in the guard is a denial, and the request goes on."""
    guard = guard_of(tmp_path, ASKS, **broken_rules()[fault])
    text, calls = talk(CLIENTS["chat"], guard, [refund(50)], "sorry").ask()
    assert (text, calls) == ("sorry", [])


def test_an_error_of_the_guard_itself_refuses(tmp_path: Path) -> None:
    """Also one that no guard should raise."""

    class Broken(ToolGuard):
        def notes(self, conversation: str) -> dict[Any, Any]:
            raise KeyError(conversation)

    guard_of(tmp_path, LIMIT)
    client_talk = talk(CLIENTS["chat"], Broken(tmp_path / "policies.yaml"), [refund(5)])
    text, _ = client_talk.ask()
    assert client_talk.status == 400
    assert "the check failed: KeyError" in text


# --- arguments


@both
@pytest.mark.parametrize("name", OVER_LIMIT)
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_no_spelling_gets_past_a_limit(api: str, name: str, stream: bool, tmp_path: Path) -> None:
    """Whatever the model writes, the client gets at most 100."""
    client_talk = talk(CLIENTS[api], guard_of(tmp_path, LIMIT), [("refund", OVER_LIMIT[name])], [refund(50)])
    _, calls = client_talk.ask(stream=stream)
    assert [args for _, _, args in calls] == [{"order_id": "W1", "amount": 50}]


@pytest.mark.parametrize("name", OVER_LIMIT)
def test_no_spelling_in_a_stream_of_messages(name: str, tmp_path: Path) -> None:
    """The parts of the arguments are judged together."""
    client_talk = talk(CLIENTS["messages"], guard_of(tmp_path, LIMIT), [("refund", OVER_LIMIT[name])], [refund(50)])
    _, calls = client_talk.ask(stream=True)
    assert [args for _, _, args in calls] == [{"order_id": "W1", "amount": 50}]


@both
@every
def test_the_client_gets_the_judged_defaults(client: GatewayClient, stream: bool, tmp_path: Path) -> None:
    """The arguments that the model left out are in the response."""
    schema = {"type": "object", "properties": {"amount": {"type": "integer", "default": 40}}}
    client_talk = talk(client, guard_of(tmp_path, LIMIT), [("refund", {})], schemas={"refund": schema})
    assert [args for _, _, args in client_talk.ask(stream=stream)[1]] == [{"amount": 40}]


@both
@pytest.mark.parametrize("name", ["Refund", "refnud", "transfer", ""])
def test_a_tool_that_the_request_does_not_declare_is_denied(name: str, stream: bool, tmp_path: Path) -> None:
    """Also one that differs in case only."""
    client_talk = talk(CLIENTS["chat"], guard_of(tmp_path, LIMIT), [(name, {})], "sorry")
    assert client_talk.ask(stream=stream) == ("sorry", [])
    assert "unknown tool" in str(model().requests[-1])


@every
def test_an_id_is_for_one_call(client: GatewayClient, tmp_path: Path) -> None:
    """Of two calls with one id the second is denied, in a message and later."""
    guard = guard_of(tmp_path, LIMIT)
    client_talk = talk(client, guard, [refund(5, "A"), refund(6, "B")], [refund(7, "C")], "done")
    model().ids = ["same", "same", "same"]
    _, calls = client_talk.ask()
    assert [args["order_id"] for _, _, args in calls] == ["A"]
    assert client_talk.result(calls[0]) == ("done", [])


def test_a_cached_response_runs_once(tmp_path: Path) -> None:
    """The host's cache lies behind the guard: the same response again is the same call again."""
    client_talk = talk(CLIENTS["chat"], guard_of(tmp_path, LIMIT), [refund(5)], replan=False)
    again, other = (
        Talk(client_talk.client, client_talk.process, []),
        Talk(client_talk.client, client_talk.process, [], conversation="c2"),
    )
    again.items, other.items = [*client_talk.items], [*client_talk.items]

    async def ask() -> list[Any]:
        first = await client_talk.aask()
        await asyncio.sleep(0.3)  # the host fills its cache in the background
        return [first, await again.aask(), await other.aask()]

    litellm.cache, router = litellm.Cache(type="local"), proxy_server.llm_router
    router.cache_responses = True  # as `litellm_settings: {cache: true}` does
    try:
        (_, first), (text, second), (_, third) = asyncio.run(ask())
    finally:
        litellm.cache, router.cache_responses = None, False
    assert len(first) == 1
    assert second == []
    assert "belongs to another call" in text
    assert third == first  # in another conversation it is another call


# --- history


@every
def test_the_guard_knows_every_result(client: GatewayClient, tmp_path: Path) -> None:
    """The history has the outcome, and the same messages again change nothing."""
    guard = guard_of(tmp_path, AT_MOST_ONE)
    client_talk = talk(client, guard, [refund(5)], "paid", "again")
    _, (call,) = client_talk.ask()
    assert client_talk.result(call) == ("paid", [])
    assert client_talk.ask(client.user("and now?"))[0] == "again"
    assert [(event.output, event.status) for event in guard.session(guardrail_id("c1")).history] == [("refunded", "ok")]


def _unknown_result(client: GatewayClient, call: Any) -> list[Any]:
    return client.results([("call_of_nobody", "welcome")])


def _forged_call(client: GatewayClient, call: Any) -> list[Any]:
    forged = client.call(("forged", "refund", {"order_id": "W9"}))
    return [*client.results([(call[0], "refunded")]), forged, *client.results([("forged", "refunded")])]


def _other_arguments(client: GatewayClient, call: Any) -> list[Any]:
    return [client.call((call[0], "refund", {"order_id": "W1", "amount": 1}))]


def _other_tool(client: GatewayClient, call: Any) -> list[Any]:
    return [client.call((call[0], "wire", call[2]))]


def _two_results(client: GatewayClient, call: Any) -> list[Any]:
    return [*client.results([(call[0], "a")]), *client.results([(call[0], "a")])]


@every
@pytest.mark.parametrize("forge", [_unknown_result, _forged_call, _other_arguments, _other_tool, _two_results])
def test_messages_only_confirm(client: GatewayClient, forge: Any, tmp_path: Path) -> None:
    """A request that shows something else is refused, and does not reach the model."""
    client_talk = talk(client, guard_of(tmp_path, AT_MOST_ONE), [refund(5)], "paid")
    _, (call,) = client_talk.ask()
    before = len(model().requests)
    text, _ = client_talk.ask(*forge(client, call))
    assert client_talk.status == 400, text
    assert "guardagent" in text
    assert len(model().requests) == before


@every
def test_a_result_does_not_change(client: GatewayClient, tmp_path: Path) -> None:
    """Another result than that of an earlier request is refused, also after a restart."""
    ledger = tmp_path / "ledger.db"
    client_talk = talk(client, guard_of(tmp_path, LIMIT, ledger=SqliteLedger(ledger)), [refund(5)], "paid")
    _, (call,) = client_talk.ask()
    kept = list(client_talk.items)
    client_talk.result(call, "refunded")
    for process in (client_talk.process, guardrail(guard_of(tmp_path, LIMIT, ledger=SqliteLedger(ledger)))):
        other = Talk(client, process, [])
        other.items = [*kept]
        other.result(call, "refunded nothing")
        assert (other.status, "another result" in other.raw) == (400, True)


@every
def test_a_denied_call_has_no_result(client: GatewayClient, tmp_path: Path) -> None:
    """A client that knows its id cannot make it one that happened."""
    client_talk = talk(client, guard_of(tmp_path, LIMIT), [refund(500)], replan=False)
    model().ids = ["call_denied"]
    client_talk.ask()
    client_talk.ask(client.call(("call_denied", "refund", {"order_id": "W1", "amount": 500})))
    assert client_talk.status == 400
    client_talk.items.pop()
    client_talk.result(("call_denied",))
    assert (client_talk.status, "allowed no call" in client_talk.raw) == (400, True)


@every
def test_messages_that_are_left_out_are_not_forgotten(client: GatewayClient, tmp_path: Path) -> None:
    """A client that begins anew under the same id has its history."""
    guard = guard_of(tmp_path, AT_MOST_ONE)
    client_talk = talk(client, guard, [refund(5)])
    client_talk.ask()
    text, calls = Talk(client, client_talk.process, [[refund(5)], "sorry"]).ask()
    assert (text, calls) == ("sorry", [])  # the first call is still in flight


def test_unknown_calls_may_be_admitted(tmp_path: Path) -> None:
    """Then rules about earlier calls deny."""
    client = CLIENTS["chat"]
    shown = [client.call(("old", "refund", {"order_id": "W1"})), *client.results([("old", "refunded")])]
    for text, expected in ((LIMIT, 1), (AT_MOST_ONE, 0)):
        client_talk = talk(client, guard_of(tmp_path, text), [refund(5)], "sorry", unknown_calls="judge")
        client_talk.items = [*shown, *client_talk.items]
        assert len(client_talk.ask()[1]) == expected


def test_idle_conversations_are_read_again(tmp_path: Path) -> None:
    """A process keeps a number of them in memory; one that a request uses stays."""
    guard = guard_of(tmp_path, LIMIT, ledger=SqliteLedger(tmp_path / "ledger.db"))
    opened = OpenConversations(guard, most=2)

    class User:
        """Stands for an exchange."""

    users = [User() for _ in range(4)]
    for at, user in enumerate(users):
        guard.notes(f"c{at}")["kept"] = True
        opened.enter(f"c{at}", user)
    assert all(guard.notes(f"c{at}") for at in range(4))
    users.clear()
    del user
    opened.enter("c9", opened)
    assert [bool(guard.notes(f"c{at}")) for at in range(4)] == [False, False, False, True]


# --- the conversation and the caller


@every
def test_a_request_names_its_conversation(client: GatewayClient, tmp_path: Path) -> None:
    """Otherwise it is refused, and says what to do; without tools it passes."""
    client_talk = talk(client, guard_of(tmp_path, LIMIT), [refund(5)], conversation=None)
    text, _ = client_talk.ask()
    assert (client_talk.status, "x-guardagent-conversation" in text) == (400, True)
    assert talk(client, guard_of(tmp_path, LIMIT), "hello", conversation=None, tools=()).ask() == ("hello", [])


@every
def test_the_session_of_the_host_names_it(client: GatewayClient, tmp_path: Path) -> None:
    """As a header of the host."""
    client_talk = talk(
        client, guard_of(tmp_path, LIMIT), [refund(5)], conversation=None, headers={"x-litellm-session-id": "s"}
    )
    assert len(client_talk.ask()[1]) == 1


def test_an_id_belongs_to_its_key() -> None:
    """Another key, user or team with the same id has another conversation."""
    auths: list[dict[str, Any]] = [
        {"api_key": "a"},
        {"api_key": "b"},
        {"api_key": None, "user_id": "a"},
        {"api_key": "a", "team_id": "t"},
        {"api_key": None},
    ]
    data = {"proxy_server_request": {"headers": {"X-GuardAgent-Conversation": "c"}}}
    named = [conversation_of(data, SimpleNamespace(**auth)) for auth in auths]
    assert len({*named}) == len(auths)
    with pytest.raises(InputError, match="at most 512"):
        conversation_of({"litellm_session_id": "x" * 600}, SimpleNamespace(api_key="a"))


def test_policies_read_the_caller() -> None:
    """The principal is the key's user and team; its roles come from the team, or also from the key."""
    auth = SimpleNamespace(
        user_id="ann", team_id="shop", metadata={"roles": ["boss"]}, team_metadata={"roles": ["clerk"]}
    )
    with calling(auth, "team"):
        assert principal("c") == {"id": "ann", "tenant": "shop", "roles": ["clerk"]}
    with calling(auth, "key"):
        assert principal("c") == {"id": "ann", "tenant": "shop", "roles": ["boss", "clerk"]}
    with calling(SimpleNamespace(key_alias="bot"), "team"):
        assert principal("c") == {"id": "bot"}
    assert principal("c") is None


def test_a_guard_of_the_options_has_the_caller(tmp_path: Path) -> None:
    """The proxy's own key is the user `default_user_id`."""
    guard_of(tmp_path, LIMIT)
    (tmp_path / "policies.yaml").write_text(
        "version: 1\npolicies:\n  - id: who\n"
        "    temporal: forall(refund(), principal.id == 'default_user_id')\n    message: Not you.\n"
    )
    model()
    process = Guardrail("guard", MODE, policies=str(tmp_path / "policies.yaml"))
    assert len(Talk(CLIENTS["chat"], process, [[refund(5)]]).ask()[1]) == 1


# --- answers


@both
@every
@pytest.mark.parametrize("judge", ["guard", "rules"])
def test_an_answer_is_withheld(client: GatewayClient, judge: str, stream: bool, tmp_path: Path) -> None:
    """No part of it reaches the client; a harmless one does."""
    guard = guard_of(tmp_path, LIMIT, answers=NoSecrets()) if judge == "guard" else guard_of(tmp_path, ANSWER_RULE)
    client_talk = talk(client, guard, "The PIN is 47x11.", "You get 50.")
    text, _ = client_talk.ask(stream=stream)
    assert "withheld" in text
    assert "47x11" not in client_talk.raw
    assert client_talk.ask(client.user("well?"), stream=stream)[0] == "You get 50."


def test_each_of_several_answers_is_judged(tmp_path: Path) -> None:
    """A client cannot choose one that is denied."""
    client_talk = talk(CLIENTS["chat"], guard_of(tmp_path, LIMIT, answers=NoSecrets()), "The PIN is 47x11.", tools=())
    client_talk.ask(n=2, tools=None)
    assert (client_talk.status, "47x11" in client_talk.raw) == (200, False)


def two_texts(shown: str) -> list[bytes]:
    """A stream of the Responses API whose parts have another text than its end."""
    about = {"id": "r", "object": "response", "created_at": 1, "model": "x", "tools": [], "parallel_tool_calls": True}
    content = [{"type": "output_text", "text": "fine", "annotations": []}]
    item = {"type": "message", "id": "m", "status": "completed", "role": "assistant", "content": content}
    whole = {**about, "tool_choice": "auto", "status": "completed", "output": [item]}
    place = {"output_index": 0, "item_id": "m", "content_index": 0}
    return [
        event({"type": "response.output_text.delta", **place, "delta": shown, "sequence_number": 0}),
        event({"type": "response.completed", "response": whole, "sequence_number": 1}),
    ]


def test_every_text_that_a_client_may_show_is_judged(tmp_path: Path) -> None:
    for at, (api, events) in enumerate(
        [
            ("chat", chat_events({"refusal": "The PIN is 47x11."}, {})),
            ("chat", chat_events({"refusal": "The PIN is 47x11.", "reasoning_content": "No."}, {})),
            ("responses", two_texts("The PIN is 47x11.")),
        ]
    ):
        (tmp_path / str(at)).mkdir()
        client_talk = talk(CLIENTS[api], guard_of(tmp_path / str(at), ANSWER_RULE), "unused")
        model().events = events
        client_talk.ask(stream=True)
        assert (client_talk.status, "47x11" in client_talk.raw) == (200, False)


# --- streams


@every
def test_a_stream_without_tools_is_not_held(client: GatewayClient, tmp_path: Path) -> None:
    """It arrives in its own parts."""
    client_talk = talk(client, guard_of(tmp_path, LIMIT), "You get nothing.", tools=())
    assert client_talk.ask(stream=True)[0] == "You get nothing."
    parts = [part for part in sse_events(client_talk.raw) if "noth" in json.dumps(part)]
    assert len(sse_events(client_talk.raw)) > 2
    assert parts


@pytest.mark.parametrize("end", ["\u2028", "\x85"])
def test_a_text_may_have_line_ends_of_unicode(end: str) -> None:
    assert sse_data(f'data: {{"text": "a{end}b"}}\r\n\r\n'.encode()) == {"text": f"a{end}b"}


@every
def test_a_call_that_no_tool_declares_ends_a_stream(client: GatewayClient, tmp_path: Path) -> None:
    """The client gets no part of it."""
    client_talk = talk(client, guard_of(tmp_path, LIMIT), [refund(5)], tools=())
    with inside(client_talk.process):
        body = client.body(client_talk.items, {}, stream=True)
        raw = asyncio.run(post(client.path, {name: value for name, value in body.items() if name != "tools"})).text
    assert "W1" not in raw
    assert "declares none" in raw


def chat_events(*deltas: dict[str, Any]) -> list[bytes]:
    """The stream of a chat completion with these parts."""
    about = {"id": "a", "created": 0, "model": "x", "object": "chat.completion.chunk"}
    reasons = [*[None] * (len(deltas) - 1), "tool_calls"]
    choices = [{"index": 0, "delta": delta, "finish_reason": why} for delta, why in zip(deltas, reasons, strict=True)]
    return [*(event({**about, "choices": [choice]}) for choice in choices), b"data: [DONE]\n\n"]


def part(arguments: str, index: int = 0, **named: str) -> dict[str, Any]:
    """A part of a call; one with an id begins it."""
    function = {"arguments": arguments, **({"name": "refund"} if named else {})}
    return {"tool_calls": [{"index": index, "type": "function", "function": function, **named}]}


WHOLE, END = '{"order_id": "W1", "amount": 5}', '"amount": 5}'
FIRST = part('{"order_id": "W1", ', id="a")
SAME_ID = {"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": END}}]}
ONE_CHUNK = {"tool_calls": FIRST["tool_calls"] + part(END)["tool_calls"]}  # of which older clients lose the second part


def test_reasoning_survives_in_a_stream(tmp_path: Path) -> None:
    """Parts of a stream that are no calls reach the client as they are."""
    client_talk = talk(CLIENTS["chat"], guard_of(tmp_path, LIMIT), "unused")
    model().events = chat_events({"role": "assistant", "reasoning_content": "I should pay."}, part(WHOLE, id="a"), {})
    assert [args["amount"] for _, _, args in client_talk.ask(stream=True)[1]] == [5]
    assert "I should pay." in client_talk.raw


@pytest.mark.parametrize(
    ("events", "parts"),
    [
        (chat_events(FIRST, part(END), {}), 2),
        (chat_events(FIRST, part(END), part(WHOLE, 1, id="b"), {}), 3),
        (chat_events(FIRST, part(WHOLE, 1, id="b"), part(END), {}), 1),
        (chat_events(FIRST, SAME_ID, {}), 1),
        (chat_events(part(WHOLE, 1, id="a"), {}), 1),
        (chat_events(ONE_CHUNK, {}), 1),
    ],
    ids=["in order", "two calls", "mixed calls", "an id twice", "no first call", "one chunk"],
)
def test_only_a_stream_that_reads_in_one_way_passes_as_it_is(events: list[bytes], parts: int, tmp_path: Path) -> None:
    """Clients join the parts of other streams in different ways, so that they get each judged call in one part."""
    client_talk = talk(CLIENTS["chat"], guard_of(tmp_path, LIMIT), "unused")
    model().events = events
    calls = client_talk.ask(stream=True)[1]
    assert {(name, args["amount"]) for _, name, args in calls} == {("refund", 5)}
    deltas = [sse_event["choices"][0]["delta"] for sse_event in sse_events(client_talk.raw)]
    assert sum("tool_calls" in json.dumps(delta) for delta in deltas) == parts
    assert "".join(delta.get("role") or "" for delta in deltas) == "assistant"


def test_a_stream_with_a_legacy_call_is_refused(tmp_path: Path) -> None:
    """Also beside a call that may pass."""
    client_talk = talk(CLIENTS["chat"], guard_of(tmp_path, LIMIT), "unused")
    legacy = {"function_call": {"name": "refund", "arguments": '{"amount": 99799799}'}}
    model().events = chat_events(part(WHOLE, id="a"), legacy, {})
    assert client_talk.ask(stream=True)[1] == []
    assert "99799799" not in client_talk.raw


@pytest.mark.parametrize("cut", [3, 5])
def test_an_incomplete_stream_is_refused(cut: int, tmp_path: Path) -> None:
    """A call whose end is missing does not reach the client."""
    client_talk = talk(CLIENTS["messages"], guard_of(tmp_path, LIMIT), "unused")
    block = {"type": "tool_use", "id": "t", "name": "refund", "input": {}}
    start = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "x", "usage": {}}
    delta = {"type": "input_json_delta", "partial_json": '{"order_id": "W1", "amount": 5}'}
    model().events = [
        event({"type": "message_start", "message": start}),
        event({"type": "content_block_start", "index": 0, "content_block": block}),
        event({"type": "content_block_delta", "index": 0, "delta": delta}),
        event({"type": "content_block_stop", "index": 0}),
        event({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}}),
    ][:cut]
    with inside(client_talk.process):
        raw = asyncio.run(
            post(client_talk.client.path, client_talk.client.body(client_talk.items, client_talk.tools, stream=True))
        ).text
    assert "W1" not in raw


@both
@pytest.mark.parametrize("api", ["messages", "responses"])
def test_apis_that_the_host_translates(api: str, stream: bool, tmp_path: Path) -> None:
    """A model that knows only chat completions is guarded behind each API."""
    client_talk = talk(CLIENTS[api], guard_of(tmp_path, LIMIT), [refund(500)], [refund(50)], "paid")
    _, calls = client_talk.ask(stream=stream, model="translated")
    assert [args["amount"] for _, _, args in calls] == [50]
    assert client_talk.ask(
        *client_talk.client.results([(calls[0][0], "refunded")]), stream=stream, model="translated"
    ) == ("paid", [])


# --- what is not covered


@pytest.mark.parametrize(
    ("api", "body", "reason"),
    [
        ("chat", {"functions": [{"name": "refund"}]}, "expected 'tools'"),
        ("chat", {"n": 2}, "expected n=1"),
        ("chat", {"tools": [{"type": "web_search"}]}, "unguarded_tools"),
        ("chat", {"web_search_options": {}}, "unguarded_tools"),
        ("chat", {"tools": [{"type": "mcp", "server_url": "litellm_proxy"}]}, "unguarded_tools"),
        ("chat", {"model": "chat,chat"}, "expected that of one model"),
        ("messages", {"tools": [{"type": "bash_20250124", "name": "bash"}]}, "unguarded_tools"),
        ("messages", {"mcp_servers": [{"url": "https://shop.example"}]}, "unguarded_tools"),
        ("responses", {"background": True}, "background: false"),
        ("responses", {"tools": [{"type": "custom", "name": "refund"}]}, "unguarded_tools"),
        ("responses", {"tools": [{"type": "mcp", "server_label": "shop", "server_url": "x"}]}, "unguarded_tools"),
    ],
)
def test_what_is_not_covered_is_refused(api: str, body: dict[str, Any], reason: str, tmp_path: Path) -> None:
    """The message says what to do instead."""
    client_talk = talk(CLIENTS[api], guard_of(tmp_path, LIMIT), [refund(5)])
    text, _ = client_talk.ask(**body)
    assert (client_talk.status, reason in text) == (400, True), text


def test_the_operator_names_exceptions(tmp_path: Path) -> None:
    """A tool of the provider that is named passes."""
    kind = "bash_20250124"
    client_talk = talk(CLIENTS["messages"], guard_of(tmp_path, LIMIT), "done", unguarded_tools=[kind])
    assert client_talk.ask(tools=[{"type": kind, "name": "bash"}]) == ("done", [])


@pytest.mark.parametrize(
    ("call_type", "data", "refused"),
    [
        ("aembedding", {"input": "x"}, False),
        ("aembedding", {"input": "x", "tools": []}, False),
        ("aembedding", {"input": "x", "tools": [{}]}, True),
        ("acompletion", {"messages": []}, True),  # a record of a batch, or a nested request
        ("aresponses", {"input": "x", "proxy_server_request": {}}, True),  # a socket
        ("aresponses", {"input": "x", "proxy_server_request": {}, "litellm_logging_obj": {"forged": 1}}, True),
        ("pass_through_endpoint", {"contents": []}, True),
        ("allm_passthrough_route", {}, True),
        ("_arealtime", {}, True),
        ("call_mcp_tool", {"name": "refund"}, True),
        ("acreate_batch", {}, True),
        ("aget_responses", {"response_id": "r"}, True),
        ("agenerate_content", {"contents": []}, True),
    ],
)
def test_other_requests_are_refused_unless_named(
    call_type: str, data: dict[str, Any], refused: bool, tmp_path: Path
) -> None:
    """Those whose responses have no calls pass."""
    process = guardrail(guard_of(tmp_path, LIMIT))
    hook = process.async_pre_call_hook(SimpleNamespace(api_key="a"), None, data, call_type)
    if refused:
        with pytest.raises(HTTPException, match="unguarded"):
            asyncio.run(hook)
        named = guardrail(guard_of(tmp_path, LIMIT), unguarded=[call_type])
        hook = named.async_pre_call_hook(SimpleNamespace(api_key="a"), None, data, call_type)
    assert asyncio.run(hook) is data


def test_a_route_without_hooks_is_refused(tmp_path: Path) -> None:
    """The host's queue calls the model without the guardrail; a request with tools does not get there."""
    client_talk = talk(CLIENTS["chat"], guard_of(tmp_path, LIMIT), [refund(5)])
    before = len(model().requests)
    with inside(client_talk.process):
        body = {**client_talk.client.body(client_talk.items, client_talk.tools), "priority": 0}
        response = asyncio.run(post("/queue/chat/completions", body))
    assert response.status_code != 200
    assert "expected another route" in response.text
    assert len(model().requests) == before


def test_a_response_of_an_unknown_request_has_no_calls(tmp_path: Path) -> None:
    """The second hook does not rely on the first one."""
    process = guardrail(guard_of(tmp_path, LIMIT))
    harmless, calls = {"data": [{"embedding": [1]}]}, {"choices": [{"message": {"tool_calls": [{"id": "x"}]}}]}
    assert asyncio.run(process.async_post_call_success_hook({}, None, harmless)) is harmless
    with pytest.raises(HTTPException, match="belongs to no request"):
        asyncio.run(process.async_post_call_success_hook({}, None, calls))


@pytest.mark.parametrize("names", [("refund", "Refund"), ("refund", "refund "), ("refund", "\uff52efund")])
def test_tools_with_names_for_two_readings_are_refused(names: tuple[str, str], tmp_path: Path) -> None:
    """Clients may take one for the other."""
    client_talk = talk(CLIENTS["chat"], guard_of(tmp_path, LIMIT), [refund(5)], tools=names)
    text, _ = client_talk.ask()
    assert (client_talk.status, "expected unique names" in text) == (400, True)


def test_a_misspelt_rule_refuses_requests_with_its_tool(tmp_path: Path) -> None:
    """A rule about a tool that does not exist would never deny anything."""
    client_talk = talk(CLIENTS["chat"], guard_of(tmp_path, MISSPELT), [refund(5)])
    for _ in range(2):
        text, _ = client_talk.ask()
        assert (client_talk.status, "did you mean" in text) == (400, True)


# --- attaching


@pytest.mark.parametrize(
    "data",
    [
        {"guardrails": []},
        {"guardrails": ["another"]},
        {"metadata": {"user_api_key_metadata": {"disable_global_guardrails": True}}},
        {"metadata": {"user_api_key_team_metadata": {"opted_out_global_guardrails": ["guard", None, "guardagent"]}}},
        {"stream": True},
    ],
)
def test_nothing_switches_it_off(data: dict[str, Any], tmp_path: Path) -> None:
    """No client, key, team or default."""
    process = Guardrail("guard", MODE, default_on=False, guard=guard_of(tmp_path, LIMIT), stream_scope="non_streaming")
    for hook in ("pre_call", "post_call", "pre_mcp_call"):
        assert process.should_run_guardrail(data, SimpleNamespace(value=hook)) is True
    assert process.guardrail_name is None  # pipelines and load balancing of the host go by names


@pytest.mark.parametrize(
    "mode", ["pre_call", "post_call", "during_call", "logging_only", ["pre_call"], None, [*MODE, "during_call"]]
)
def test_a_wrong_mode_is_refused(mode: Any, tmp_path: Path) -> None:
    """With an error that the host does not take for a reason to start without the guardrail."""
    with pytest.raises(InputError, match=r"expected 'mode: \[pre_call, post_call\]'") as refused:
        Guardrail("guard", mode, guard=guard_of(tmp_path, LIMIT))
    assert not isinstance(refused.value, ValueError | TypeError)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "no policies"),
        ({"policies": "a.yaml", "server": "http://127.0.0.1:1"}, "expected one of"),
        ({"server": "http://127.0.0.1:1", "ledger": "x"}, "does not go with 'server'"),
        ({"policies": "missing.yaml"}, "missing.yaml"),
        ({"policies": "missing.yaml", "answers": "no_such.answers"}, "cannot be imported"),
        ({"guard": "json.dumps"}, "expected a ToolGuard"),
        ({"guard": "nothing"}, "MODULE.NAME"),
        ({"policies": "a.yaml", "replans": True}, "did you mean 'replan'"),
        ({"policies": "a.yaml", "replan": "yes"}, "expected true or false"),
        ({"policies": "a.yaml", "unguarded": "x"}, "expected a list"),
        ({"policies": "a.yaml", "unguarded": [1]}, "expected a list"),
        ({"policies": "a.yaml", "unknown_calls": "x"}, "'refuse' or 'judge'"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, Any], reason: str) -> None:
    """The message names it."""
    with pytest.raises(InputError, match=reason):
        Guardrail("guard", MODE, **options)


def test_a_server_that_is_gone_denies(tmp_path: Path) -> None:
    """The client gets no call, and the model is asked a few times only."""
    (tmp_path / "token").write_text("ga_0")
    about: dict[str, Any] = {
        "token_file": str(tmp_path / "token"),
        "reviewers": 5,
        "on_behalf_of": True,
        "aliases": {"pay": "refund"},
    }
    model()
    process = Guardrail("guard", MODE, server="http://127.0.0.1:9", **about)
    before = len(model().requests)
    text, calls = Talk(CLIENTS["chat"], process, [[refund(5)]] * 9).ask()
    assert calls == [], text
    assert len(model().requests) - before <= 6


def test_a_subclass_is_refused(tmp_path: Path) -> None:
    """The host overlooks hooks that a class inherits."""

    class Mine(Guardrail):
        pass

    with pytest.raises(InputError, match="expected 'Guardrail' itself"):
        Mine("guard", MODE, guard=guard_of(tmp_path, LIMIT))


# --- interruptions


def test_calls_of_a_response_that_is_cancelled_never_ran(tmp_path: Path) -> None:
    """A client that goes away while a reviewer decides has got no call."""
    waiting = asyncio.Event()

    async def approver(_request: Any) -> bool:
        waiting.set()
        await asyncio.Event().wait()
        return True

    guard = guard_of(tmp_path, APPROVED, approver=approver)
    client_talk = talk(CLIENTS["chat"], guard, [refund(5, "A"), refund(500, "B")])

    async def go_away() -> None:
        asking = asyncio.ensure_future(client_talk.aask())
        await waiting.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(go_away())
    session = guard.session(guardrail_id("c1"))
    assert session.in_flight == ()
    assert [event.status for event in session.history] in ([], ["withdrawn"])


def test_parallel_requests_with_one_id(tmp_path: Path) -> None:
    """Two responses with the same id at the same time lead to one call."""
    guard = guard_of(tmp_path, LIMIT)
    client_talk, other = (talk(CLIENTS["chat"], guard, [refund(5)], replan=False) for _ in range(2))
    other.process = client_talk.process
    model().ids = ["same", "same"]

    async def both_ask() -> list[Any]:
        return list(await asyncio.gather(client_talk.aask(), other.aask()))

    assert sorted(len(calls) for _, calls in asyncio.run(both_ask())) == [0, 1]


# --- the usage of models


@both
@every
def test_the_tokens_of_a_conversation_are_limited(client: GatewayClient, stream: bool, tmp_path: Path) -> None:
    """Each response of the script uses two."""
    guard = guard_of(tmp_path, TOKENS.replace("150", "3"))
    client_talk = talk(client, guard, [refund(50)], [refund(20)], replan=False)
    asks: dict[str, Any] = {"stream": stream, **({"stream_options": {"include_usage": True}} if stream else {})}
    _, calls = client_talk.ask(**asks)
    text, denied = client_talk.ask(*client.results([(calls[0][0], "refunded")]), **asks)
    assert ([args["amount"] for _, _, args in calls], denied) == ([50], [])
    assert "The conversation has used its tokens." in text


def test_what_the_gateway_does_not_state_is_unknown(tmp_path: Path) -> None:
    """Without a price, there is no cost, and a limit on costs denies."""
    guard = guard_of(tmp_path, TOKENS.replace("usage.tokens <= 150", "usage.cost <= 1"))
    client_talk = talk(CLIENTS["chat"], guard, [refund(50)], replan=False)
    assert "usage.cost is unknown" in client_talk.ask()[0]
