"""The MCP proxy before an untouched server, over stdio: what passes, what does not, and what a crash leaves."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastmcp")

from tests.frameworks.mcp.helpers import (
    PLAIN,
    SHOP,
    book,
    client_of,
    environment,
    failed,
    paid,
    plain_command,
    proxy_command,
    shop_command,
    text_of,
)
from tests.frameworks.scenarios import (
    APPROVED,
    ASKS,
    AT_MOST_ONE,
    AUTHENTICATED,
    HALTED,
    LIMIT,
    MISSPELT,
    OVER_LIMIT,
    REPLAN,
)

ERAS = pytest.mark.parametrize("modern", [False, True], ids=["handshake", "2026-07-28"])
FREE = "version: 1\npolicies:\n  - id: free\n    temporal: G(tool:zzz -> O tool:zzz)\n"
SILENT = """
version: 1
unlisted: deny
policies:
  - id: tools
    temporal: forall(refund(amount=a), a <= 100)
  - id: helpers
    temporal: 'G(@helpers -> true)'
tags:
  helpers: [ask_model, ask_person, folders]
"""


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 60))


# --- what passes

REQUESTS: list[tuple[str, Any]] = [
    ("tools/list", None),
    ("tools/call", {"name": "get_order", "arguments": {"order_id": "W1"}}),
    ("tools/call", {"name": "with_meta", "arguments": {}}),
    ("tools/call", {"name": "break_down"}),
    ("tools/call", {"name": "count_up", "arguments": {}, "_meta": {"progressToken": "t"}}),
    ("resources/list", None),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "shop://terms"}),
    ("resources/read", {"uri": "shop://orders/W1"}),
    ("resources/read", {"uri": "shop://nothing"}),
    ("prompts/list", None),
    ("prompts/get", {"name": "complaint", "arguments": {"order_id": "W1"}}),
    ("prompts/get", {"name": "nothing"}),
    ("ping", None),
    ("logging/setLevel", {"level": "info"}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "complaint"}, "argument": {"name": "o", "value": ""}},
    ),
    ("tools/list", {"cursor": "nonsense"}),
    ("no/such", {"a": [1, 2.5, None, "ä"]}),
]


@ERAS
def test_everything_passes_as_it_is(tmp_path: Path, *, modern: bool) -> None:
    """The same session, with the server and with the proxy before it, shows the same messages."""

    async def session(command: list[str]) -> list[Any]:
        async with client_of(command, tmp_path, modern=modern) as client:
            seen = [await client.begin()]
            for method, params in REQUESTS:
                seen.append(await client.request(method, params))
            return [*seen, *client.others, *client.broken]

    bare = run(session(shop_command()))
    assert run(session(proxy_command(tmp_path, LIMIT, server=shop_command()))) == bare
    assert len(bare) >= len(REQUESTS) + 1 + (0 if modern else 6)


def test_what_the_server_asks_passes(tmp_path: Path) -> None:
    """Sampling, elicitation and roots reach the client, and its answers the server."""
    answers = {
        "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "sunny"}, "model": "m"},
        "elicitation/create": {"action": "accept", "content": {"value": "red"}},
        "roots/list": {"roots": [{"uri": "file:///tmp"}]},
    }

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, FREE, server=shop_command()), tmp_path) as client:
            client.answer = lambda method, params: answers[method]
            await client.begin(sampling={}, elicitation={}, roots={})
            assert text_of(await client.call("ask_model")) == "sunny"
            assert text_of(await client.call("ask_person")) == "accept"
            assert "file:///tmp" in text_of(await client.call("folders"))

    run(session())
    assert book(tmp_path) == [["sampled", "sunny"], ["elicited", "accept"]]


def test_what_no_rule_speaks_of_is_denied_where_the_policy_says_so(tmp_path: Path) -> None:
    """Resources, prompts, sampling and elicitation are events; with `unlisted: deny` none of them passes."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, SILENT, server=shop_command()), tmp_path) as client:
            client.answer = lambda method, params: {"action": "accept", "content": {"value": "red"}}
            await client.begin(sampling={}, elicitation={}, roots={})
            assert failed(await client.request("resources/read", {"uri": "shop://terms"}))
            assert failed(await client.request("prompts/get", {"name": "complaint", "arguments": {"order_id": "W1"}}))
            assert failed(await client.call("ask_model"))
            assert failed(await client.call("ask_person"))
            assert client.others == []

    run(session())
    assert book(tmp_path) == []


def test_a_rule_may_speak_of_a_resource(tmp_path: Path) -> None:
    """`resource.read(uri=…)` is judged by its URI."""
    policy = """
version: 1
policies:
  - id: terms_only
    temporal: forall(resource.read(uri=u), u == "shop://terms")
"""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, policy, server=shop_command()), tmp_path) as client:
            await client.begin()
            assert not failed(await client.request("resources/read", {"uri": "shop://terms"}))
            reply = await client.request("resources/read", {"uri": "shop://orders/W1"})
            assert reply["error"]["data"] == {"decision": "deny", "rules": ["terms_only"]}

    run(session())


# --- acceptance 1


@ERAS
def test_a_denied_refund_is_replanned(tmp_path: Path, *, modern: bool) -> None:
    """500 is a tool's error that says what would do; 50 is paid."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, LIMIT), tmp_path, modern=modern) as client:
            await client.begin()
            denied = await client.call("refund", **REPLAN[0])
            assert failed(denied)
            assert "refund 100 or less" in text_of(denied)
            assert not failed(await client.call("refund", **REPLAN[1]))

    run(session())
    assert paid(tmp_path) == [["W1", 50]]


def test_control_returns_to_the_user(tmp_path: Path) -> None:
    """After three replans in a row the model is told to stop."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, LIMIT), tmp_path) as client:
            await client.begin()
            texts = [text_of(await client.call("refund", order_id="W1", amount=500)) for _ in range(4)]
            assert ["Stop here" in text for text in texts] == [False, False, False, True]

    run(session())
    assert paid(tmp_path) == []


def test_an_order_of_steps(tmp_path: Path) -> None:
    """A refund needs an authentication before it; one that failed is none."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, AUTHENTICATED), tmp_path) as client:
            await client.begin()
            assert failed(await client.call("refund", order_id="W1", amount=50))
            await client.call("authenticate", email="ann@example.com", code="0")
            assert failed(await client.call("refund", order_id="W1", amount=50))
            await client.call("authenticate", email="ann@example.com")
            assert not failed(await client.call("refund", order_id="W1", amount=50))

    run(session())
    assert paid(tmp_path) == [["W1", 50]]


@ERAS
@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"action": "accept", "content": {"decision": "approve"}}, [["W1", 500], ["W1", 500]]),
        ({"action": "accept", "content": {"decision": "reject", "reason": "no"}}, []),
        (
            {"action": "accept", "content": {"decision": "edit", "arguments": '{"order_id": "W1", "amount": 60}'}},
            [["W1", 60], ["W1", 60]],
        ),
        ({"action": "accept", "content": {"decision": "edit", "arguments": '{"order_id": "W1", "amount": 5000}'}}, []),
        ({"action": "accept", "content": {"decision": "edit", "arguments": '{"order_id": "W1", "amount": "60"}'}}, []),
        (
            {
                "action": "accept",
                "content": {"decision": "edit", "arguments": '{"order_id":"W1","amount":60,"amount":500}'},
            },
            [],
        ),
        ({"action": "decline"}, []),
        ({"action": "cancel"}, []),
        ({"action": "accept", "content": {}}, []),
        ({"action": "accept"}, []),
    ],
    ids=["approve", "reject", "edit", "edit, never", "edit, text", "edit, twice", "decline", "cancel", "empty", "none"],
)
def test_the_client_shows_the_approval_form(
    tmp_path: Path, reply: dict[str, Any], expected: list[Any], *, modern: bool
) -> None:
    """An escalated call runs as the person has it; the same call a second time is asked about again."""
    requests: list[str] = []

    def answer(method: str, params: Any) -> Any:
        requests.append(params["message"])
        return reply

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, APPROVED), tmp_path, modern=modern) as client:
            client.answer = answer
            await client.begin(elicitation={})
            for _ in range(2):
                assert failed(await client.call("refund", order_id="W1", amount=500)) == (not expected)

    run(session())
    assert paid(tmp_path) == expected
    assert len(requests) == 2
    assert all("amount = 500" in text and "W1" in text for text in requests)


@ERAS
def test_a_denial_explains_why_no_approval_is_possible(tmp_path: Path, *, modern: bool) -> None:
    """A client without elicitation, and no approver: the call does not run."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, APPROVED), tmp_path, modern=modern) as client:
            await client.begin()
            assert "cannot show a form" in text_of(await client.call("refund", order_id="W1", amount=500))

    run(session())
    assert paid(tmp_path) == []


def test_an_approval_is_for_the_call_that_was_shown(tmp_path: Path) -> None:
    """Who comes back with the approval of another call is asked anew."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, APPROVED), tmp_path, modern=True) as client:
            await client.begin(elicitation={})
            first = await client.request(
                "tools/call", {"name": "refund", "arguments": {"order_id": "W1", "amount": 500}}
            )
            back = {
                "requestState": first["result"]["requestState"],
                "inputResponses": {"guardagent.approval": {"action": "accept", "content": {"decision": "approve"}}},
            }
            other = {"name": "refund", "arguments": {"order_id": "W1", "amount": 900}, **back}
            assert (await client.request("tools/call", other))["result"]["resultType"] == "input_required"
            same = {"name": "refund", "arguments": {"order_id": "W1", "amount": 500}, **back}
            assert (await client.request("tools/call", same))["result"]["resultType"] == "input_required"

    run(session())
    assert paid(tmp_path) == []


def test_after_a_halt_nothing_runs(tmp_path: Path) -> None:
    """The call that halts is denied, and so is every one after it."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, HALTED), tmp_path) as client:
            await client.begin()
            assert "Every further call" in text_of(await client.call("wire", amount=1))
            assert "halted" in text_of(await client.call("refund", order_id="W1", amount=1))
            assert failed(await client.request("resources/read", {"uri": "shop://terms"}))

    run(session())
    assert book(tmp_path) == []


def test_of_two_refunds_at_once_one_is_paid(tmp_path: Path) -> None:
    """Two identical calls, sent together, under at most one."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, AT_MOST_ONE), tmp_path) as client:
            await client.begin()
            same = {"name": "refund", "arguments": {"order_id": "W1", "amount": 50}}
            names = [await client.ask("tools/call", same) for _ in range(2)]
            reply = [await client.answered(name) for name in names]
            assert sorted(map(failed, reply)) == [False, True]

    run(session())
    assert paid(tmp_path) == [["W1", 50]]


SLOW = AT_MOST_ONE.replace("refund(", "slow_refund(")


def test_what_was_cancelled_stays_in_flight(tmp_path: Path) -> None:
    """A call that is cancelled in mid-tool has paid; made again, it is denied."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, SLOW), tmp_path) as client:
            await client.begin()
            name = await client.ask("tools/call", {"name": "slow_refund", "arguments": {"order_id": "W1", "amount": 5}})
            while not paid(tmp_path):  # noqa: ASYNC110 - a file has no events
                await asyncio.sleep(0.02)
            await client.notify("notifications/cancelled", {"requestId": name})
            assert failed(await client.call("slow_refund", order_id="W1", amount=5))

    run(session())
    assert paid(tmp_path) == [["W1", 5]]


def test_a_call_that_waits_for_a_person_can_be_cancelled(tmp_path: Path) -> None:
    """The question is withdrawn, an answer that comes all the same is not heard, and the call never runs."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, APPROVED), tmp_path) as client:
            await client.begin(elicitation={})
            args = {"name": "refund", "arguments": {"order_id": "W1", "amount": 500}}
            name = await client.ask("tools/call", args)
            form = await client.other("elicitation/create")
            await client.notify("notifications/cancelled", {"requestId": name})
            assert (await client.other("notifications/cancelled"))["params"]["requestId"] == form["id"]
            reply = {"action": "accept", "content": {"decision": "approve"}}
            await client.send({"jsonrpc": "2.0", "id": form["id"], "result": reply})
            assert not failed(await client.call("refund", order_id="W1", amount=5))

    run(session())
    assert paid(tmp_path) == [["W1", 5]]


BROKEN = {
    "raises": "raise RuntimeError('the database is down')",
    "hangs": "import time; time.sleep(2)",
    "wrong type": "return object()",
    "exits": "raise SystemExit(0)",
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_rule_set_that_does_not_work_denies(tmp_path: Path, fault: str) -> None:
    """Whatever a state function does, the refund is not paid, and the proxy goes on."""
    command = proxy_command(tmp_path, ASKS, "--state", str(tmp_path / "state.json"), "--deadline", "0.2")
    (tmp_path / "state.json").write_text("{}")
    (tmp_path / "asks.py").write_text(
        f'def answer(state: dict, order_id: str) -> bool | None:\n    """Asks."""\n    {BROKEN[fault]}\n'
    )

    async def session() -> None:
        async with client_of(command, tmp_path) as client:
            await client.begin()
            assert failed(await client.call("refund", order_id="W1", amount=5))
            assert not failed(await client.request("ping"))

    run(session())
    assert paid(tmp_path) == []


# --- acceptance 2


def test_no_spelling_of_the_arguments_gets_past_the_limit(tmp_path: Path) -> None:
    """What the server gets is what was judged, so that it never pays more than 100."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, LIMIT), tmp_path) as client:
            await client.begin()
            for name, text in enumerate(OVER_LIMIT.values(), start=100):
                params = f'{{"name":"refund","arguments":{text}}}'
                await client.line(f'{{"jsonrpc":"2.0","id":{name},"method":"tools/call","params":{params}}}'.encode())
                assert failed(await client.answered(name)), text

    run(session())
    assert paid(tmp_path) == []


SMUGGLED = [
    b'{"jsonrpc":"2.0","id":77,"method":"ping","Method":"tools/call","params":%s}',
    b'{"jsonrpc":"2.0","id":77,"method":"ping","method":"tools/call","params":%s}',
    b'{"jsonrpc":"2.0","id":77,"method":"tools/call","method":"ping","params":%s}',
    b'{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{},"Params":%s}',
    b'{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{},"params":%s}',
    b'{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"get_order","Name":"refund","arguments":%s}}',
    b'{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"refund","Arguments":%s}}',
    b'[{"jsonrpc":"2.0","id":77,"method":"tools/call","params":%s}]',
    b'{"jsonrpc":"2.0","id":[77],"method":"tools/call","params":%s}',
    b'{"jsonrpc":"2.0","id":77,"method":"tools/call","params":[%s]}',
    b'{"jsonrpc":"2.0","method":"tools/call","params":%s}',
    b'{"jsonrpc":"2.0","id":null,"method":"tools/call","params":%s}',
    b'{"jsonrpc":"2.0","id":77,"method":["tools/call"],"params":%s}',
    b'{"jsonrpc":"2.0","id":77,"result":{},"method":"tools/call","params":%s}',
    b'{"jsonrpc":"2.0","id":77,"method":"ping","Method ":"tools/call","params":%s}',
    b'{"jsonrpc":"2.0","id":77,"method":"ping","\xef\xbd\x8dethod":"tools/call","params":%s}',
    b'{"jsonrpc":"2.0","ID":77,"method":"notifications/x","Method":"tools/call","params":%s}',
    b'{"jsonrpc":"2.0","id":77,"method":"tools/call ","params":%s}',
    b'{"jsonrpc":"2.0","id":77,"method":"TOOLS/CALL","params":%s}',
    b'{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"get_order","args":{},"name ":"refund","a":%s}}',
    b'{"jsonrpc":"2.0","id":77,"extra":1,"method":"tools/call","params":%s}',
]


CALLS = [
    b'{"name":"refund","arguments":{"order_id":"W1","amount":500}}',
    b'{"order_id":"W1","amount":500}',
    b'"\xff\xfe"',
]


def test_no_call_is_smuggled_past(tmp_path: Path) -> None:
    """Messages that two readers may understand in two ways pay nothing, and the proxy outlives them."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, LIMIT), tmp_path) as client:
            await client.begin()
            for number, line in enumerate(SMUGGLED, start=100):
                for place, params in enumerate(CALLS):
                    own = line.replace(b"77", b"%d%d" % (number, place))  # an id in use would be refused for that
                    await client.line(own % params)
                await client.line(b"\x00" + line[:40])
            assert not failed(await client.request("ping"))

    run(session())
    assert paid(tmp_path) == []


TO_THE_CLIENT = {
    "method": '{"jsonrpc":"2.0","id":%s,"Method":"sampling/createMessage","params":{}}',
    "two methods": '{"jsonrpc":"2.0","id":1,"method":"ping","method":"sampling/createMessage","params":{}}',
    "another method": '{"jsonrpc":"2.0","id":1,"method":"Sampling/CreateMessage","params":{}}',
    "params": '{"jsonrpc":"2.0","id":1,"method":"ping","Params":{"messages":[]},"params":{}}',
    "id": '{"jsonrpc":"2.0","ID":%s,"id":"x","result":{"content":[]}}',
    "batch": '[{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}]',
    "two results": '{"jsonrpc":"2.0","id":%s,"result":{"isError":true},"result":{"content":[]}}',
    "isError": '{"jsonrpc":"2.0","id":%s,"result":{"content":[],"isError":false,"IsError":true}}',
    "inputs": '{"jsonrpc":"2.0","id":%s,"result":{"inputRequests":{"a":{"method":"Sampling/createMessage"}}}}',
    "no inputs": '{"jsonrpc":"2.0","id":%s,"result":{"inputRequests":[1]}}',
}


@pytest.mark.parametrize("kind", TO_THE_CLIENT)
def test_nothing_is_smuggled_to_the_client(tmp_path: Path, kind: str) -> None:
    """The client sees nothing of what two readers may take for two things; whose answer it was is told so."""
    server = [sys.executable, "-S", str(PLAIN.with_name("raw.py")), TO_THE_CLIENT[kind]]

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, SILENT, server=server), tmp_path) as client:
            await client.begin(sampling={})
            name = await client.ask("tools/call", {"name": "refund", "arguments": {"order_id": "W1", "amount": 5}})
            reply = await client.answered(name)
            assert failed(reply) == ("%s" in TO_THE_CLIENT[kind] and kind != "id")
            assert client.others == []
            assert client.broken == []
            assert not failed(await client.request("ping"))

    run(session())
    assert paid(tmp_path) == [["W1", 5]]


NOT_THESE = """
version: 1
policies:
  - id: no_secret
    temporal: forall(resource.read(uri=u), u != "shop://secret" && u != "file:///etc/passwd")
"""
SPELLINGS = [
    "shop://secret",
    "SHOP://secret",
    "shop://SECRET",
    "shop://%73ecret",
    "shop://%2573ecret",
    "shop://secret/",
    "shop://secret?",
    "shop://secret?x=1",
    "shop://secret#x",
    "shop://./secret",
    "shop://secret/a/..",
    "shop:\\secret",
    " shop://secret",
    "file:/etc/passwd",
    "file://localhost/etc/passwd",
    "file:///etc/x/../passwd",
    "file:///etc//passwd",
    "file:///etc/%2e%2fpasswd",
    "file:///%65tc/passwd",
]


def test_a_rule_about_a_resource_is_not_got_round(tmp_path: Path) -> None:
    """Under none of its spellings is it read; another one is asked for in its normal spelling."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, NOT_THESE), tmp_path) as client:
            await client.begin()
            for uri in SPELLINGS:
                assert failed(await client.request("resources/read", {"uri": uri})), uri
            for method in ("resources/read", "resources/subscribe"):
                assert not failed(await client.request(method, {"uri": "SHOP://orders/a/../%57%31"}))
                assert failed(await client.request(method, {"uri": "shop://a/%2fb"}))

    run(session())
    assert book(tmp_path) == [["resources/read", "shop://orders/W1"], ["resources/subscribe", "shop://orders/W1"]]


@pytest.mark.parametrize("args", ["", ',"arguments":null', ',"arguments":{},"_meta":{"progressToken":1,"x/Y":[]}'])
def test_clients_of_all_kinds_are_served(tmp_path: Path, args: str) -> None:
    """No arguments, null for them, and a token for the progress; null for the params of what has none."""

    async def session() -> None:
        server = [sys.executable, "-S", str(PLAIN.with_name("growing.py")), "adds"]
        async with client_of(proxy_command(tmp_path, FREE, server=server), tmp_path) as client:
            await client.begin()
            await client.line(b'{"jsonrpc":"2.0","id":"a","method":"tools/list","params":null}')
            assert not failed(await client.answered("a"))
            call = f'{{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{{"name":"turn"{args}}}}}'
            await client.line(call.encode())
            assert not failed(await client.answered("b"))

    run(session())


def test_the_server_pays_what_is_smuggled_where_nothing_is_before_it(tmp_path: Path) -> None:
    """The attacks above are real ones."""

    async def session() -> None:
        async with client_of(plain_command(), tmp_path) as client:
            for line in SMUGGLED[:1]:
                await client.line(line % b'{"name":"refund","arguments":{"order_id":"W1","amount":500}}')
            await client.request("ping")

    run(session())
    assert paid(tmp_path) == [["W1", 500]]


def test_an_id_that_is_in_use_is_refused(tmp_path: Path) -> None:
    """The answer to one request must not be taken for that to another."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, SLOW), tmp_path) as client:
            await client.begin()
            name = await client.ask("tools/call", {"name": "slow_refund", "arguments": {"order_id": "W1", "amount": 5}})
            await client.send({"jsonrpc": "2.0", "id": name, "method": "ping"})
            assert "in use" in text_of(await client.answered(name))

    run(session())


def test_a_tool_that_is_not_listed_is_not_called(tmp_path: Path) -> None:
    """The denial names the nearest tool that is."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, LIMIT), tmp_path) as client:
            await client.begin()
            assert "did you mean 'refund'" in text_of(await client.call("Refund", order_id="W1", amount=5))

    run(session())
    assert book(tmp_path) == []


# --- names, the list of tools, the log


def test_a_list_that_changes_is_held_against_the_rules_again(tmp_path: Path) -> None:
    """The tools that stay can be called, with their parameters of before; the new one cannot."""
    command = proxy_command(tmp_path, FREE, server=shop_command())

    async def session() -> None:
        async with client_of(command, tmp_path) as client:
            await client.begin()
            assert failed(await client.call("refund_all", customer="ann"))
            assert not failed(await client.call("grow"))
            await client.other("notifications/tools/list_changed")
            assert failed(await client.call("refund_all", customer="ann"))
            assert not failed(await client.call("refund", order_id="W1", amount=5))

    run(session())
    assert book(tmp_path) == [["refund", "W1", 5]]


def test_an_alias_is_the_name_in_the_rules(tmp_path: Path) -> None:
    """Rules about `pay` are about `refund`, once that is said."""
    policy = LIMIT.replace("refund(", "pay(")

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, policy, "--alias", "refund=pay"), tmp_path) as client:
            await client.begin()
            assert failed(await client.call("refund", order_id="W1", amount=500))

    run(session())
    assert paid(tmp_path) == []


def test_a_conversation_outlives_the_proxy(tmp_path: Path) -> None:
    """With a ledger and a name of its own; the next proxy knows what was paid."""
    options = ("--ledger", str(tmp_path / "ledger.db"), "--conversation", "c1")

    async def session() -> bool:
        async with client_of(proxy_command(tmp_path, AT_MOST_ONE, *options), tmp_path) as client:
            await client.begin()
            return failed(await client.call("refund", order_id="W1", amount=5))

    assert [run(session()), run(session())] == [False, True]
    assert paid(tmp_path) == [["W1", 5]]


def test_the_log_holds_every_verdict(tmp_path: Path) -> None:
    """Verdicts and outcomes of a session stand in the log, which verifies."""
    log = tmp_path / "log.db"

    async def session() -> None:
        command = proxy_command(tmp_path, LIMIT, "--log", str(log), "--conversation", "c1")
        async with client_of(command, tmp_path) as client:
            await client.begin()
            await client.call("refund", order_id="W1", amount=500)
            await client.call("refund", order_id="W1", amount=50)
            await client.call("refund", order_id="W1", amount="50")

    run(session())
    shown = subprocess.run(
        [sys.executable, "-m", "guardagent", "log", "show", str(log), "--json", "--conversation", "c1"],
        capture_output=True,
        check=True,
    )
    rows = [json.loads(line)["entry"] for line in shown.stdout.splitlines()]
    assert [row.get("decision") for row in rows if row["kind"] == "verdict"] == ["deny", "allow", "deny"]
    verified = subprocess.run([sys.executable, "-m", "guardagent", "log", "verify", str(log)], check=False)
    assert verified.returncode == 0


def started(
    tmp_path: Path, *options: str, policy: str = LIMIT, server: list[str] | None = None, said: bytes = b""
) -> tuple[int, str]:
    """Exit status and messages of a proxy whose client says something and leaves."""
    command = proxy_command(tmp_path, policy, *options, server=server)
    env, cwd = environment(tmp_path), SHOP.parents[4]
    ran = subprocess.run(command, input=said, capture_output=True, check=False, timeout=60, env=env, cwd=cwd)
    assert ran.stdout == b""
    assert b"Traceback" not in ran.stderr
    return ran.returncode, ran.stderr.decode()


def test_a_client_that_leaves_ends_it(tmp_path: Path) -> None:
    """With status 0."""
    assert started(tmp_path)[0] == 0


LONG = b"x" * (70 * 2**20)


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["open", "ended"])
def test_a_message_without_end_ends_it(tmp_path: Path, end: bytes) -> None:
    """With status 2, and in seconds of computing: 70 MiB are not gone through again and again."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    status, reply = started(tmp_path, said=LONG + end)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert status == 2
    assert "more than 16,777,216 bytes" in reply
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 12


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s"}}',
        b'{"method":"tools/call","params":{"name":"%s"},"jsonrpc":"2.0","id":%d}',
    ],
)
def test_a_message_that_is_too_long_is_answered(tmp_path: Path, line: bytes) -> None:
    """Where its id can be told; the next one is taken."""
    long = line.replace(b"%d", b"77").replace(b"%s", LONG[: 17 * 2**20])

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, LIMIT), tmp_path) as client:
            await client.begin()
            await client.line(long)
            assert "more than" in text_of(await client.answered(77))
            assert not failed(await client.call("refund", order_id="W1", amount=5))

    run(session())
    assert paid(tmp_path) == [["W1", 5]]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--alias", "refund"), "TOOL=NAME"),
        (("--alias", "refund=pay", "--alias", "refund=other"), "already"),
        (("--state", "nothing.json"), "nothing.json"),
        (("--header", "A=B"), "with a URL"),
        (("--listen", "nowhere"), "HOST:PORT"),
        (("--listen", "127.0.0.1:1", "--conversation", "c"), "--conversation"),
        (("--ledger", "approvals.db"), "--conversation"),
        (("--deadline", "-1"), "deadline"),
    ],
)
def test_wrong_options_are_errors(tmp_path: Path, options: tuple[str, ...], what: str) -> None:
    """Status 2, and what was expected."""
    status, reply = started(tmp_path, *options)
    assert status == 2
    assert what in reply


def test_a_misspelt_tool_is_seen_at_the_start(tmp_path: Path) -> None:
    """Status 2, with the name that was probably meant."""
    status, reply = started(tmp_path, policy=MISSPELT)
    assert status == 2
    assert "did you mean 'refund'" in reply


def test_a_server_that_cannot_be_started(tmp_path: Path) -> None:
    """Status 2 where there is no such program, 3 where it does not speak."""
    assert started(tmp_path, server=["/no/such/program"])[0] == 2
    assert started(tmp_path, server=[sys.executable, "-c", "pass"])[0] == 3
    assert started(tmp_path, server=["http://127.0.0.1:9/mcp"])[0] == 3


# --- crashes

CRASHES = AT_MOST_ONE.replace("refund(", "crash(")


def test_a_crash_of_the_server_is_survived(tmp_path: Path) -> None:
    """The call under way is answered with an error and stays in flight; then there is a new server."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, CRASHES), tmp_path) as client:
            await client.begin()
            reply = await client.call("crash", order_id="W1")
            assert "started again" in reply["error"]["message"]
            assert failed(await client.call("crash", order_id="W1"))
            assert not failed(await client.call("refund", order_id="W1", amount=5))
            assert (await client.request("tools/list"))["result"]["tools"]

    run(session())
    assert book(tmp_path) == [["crash", "W1"], ["refund", "W1", 5]]


def test_many_crashes_are_survived(tmp_path: Path) -> None:
    """One after the other."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, FREE), tmp_path) as client:
            await client.begin()
            for number in range(3):
                assert failed(await client.call("crash", order_id=str(number)))
            assert not failed(await client.call("get_order", order_id="W1"))

    run(session())
    assert len(book(tmp_path)) == 3


def test_a_server_that_prints_is_no_trouble(tmp_path: Path) -> None:
    """What is no message does not reach the client."""
    noisy = tmp_path / "noisy.py"
    noisy.write_text(
        f"print('hello', flush=True)\nimport sys\nsys.argv = ['x']\nsys.path.insert(0, {str(SHOP.parent)!r})\n"
        "import anyio, shop\nanyio.run(shop.main)\n"
    )

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, FREE, server=[sys.executable, str(noisy)]), tmp_path) as client:
            await client.begin()
            assert not failed(await client.call("get_order", order_id="W1"))
            assert client.broken == []

    run(session())
