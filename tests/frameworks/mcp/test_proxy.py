"""The MCP proxy in front of an unmodified server, over stdio: forwarding, denials and crashes."""

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

from guardagent.log.verification import Selection
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
from tests.frameworks.scenarios import APPROVED, ASKS, AT_MOST_ONE, HALTED, LIMIT, MISSPELT, OVER_LIMIT, REPLAN

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


# --- forwarding

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
def test_messages_pass_unchanged(tmp_path: Path, *, modern: bool) -> None:
    """A session has the same messages with and without the proxy."""

    async def session(command: list[str]) -> list[Any]:
        async with client_of(command, tmp_path, modern=modern) as client:
            seen = [await client.begin()]
            for method, params in REQUESTS:
                seen.append(await client.request(method, params))
            return [*seen, *client.others, *client.broken]

    bare = run(session(shop_command()))
    assert run(session(proxy_command(tmp_path, LIMIT, server=shop_command()))) == bare
    assert len(bare) >= len(REQUESTS) + 1 + (0 if modern else 6)


def test_requests_of_the_server_pass(tmp_path: Path) -> None:
    """Sampling, elicitation and roots reach the client, and its answers reach the server."""
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


def test_unlisted_events_can_be_denied(tmp_path: Path) -> None:
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


def test_a_rule_can_restrict_a_resource(tmp_path: Path) -> None:
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
    """500 is denied with a tool error that contains the remedy; 50 is paid."""

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
    """After three consecutive replans the message tells the model to stop."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, LIMIT), tmp_path) as client:
            await client.begin()
            texts = [text_of(await client.call("refund", order_id="W1", amount=500)) for _ in range(4)]
            assert ["Stop here" in text for text in texts] == [False, False, False, True]

    run(session())
    assert paid(tmp_path) == []


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
    """An escalated call runs with the reviewer's edits; an identical second call needs another approval."""
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
    """The client has no elicitation and the guard no approver, so the call does not run."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, APPROVED), tmp_path, modern=modern) as client:
            await client.begin()
            assert "cannot show a form" in text_of(await client.call("refund", order_id="W1", amount=500))

    run(session())
    assert paid(tmp_path) == []


def test_an_approval_is_for_the_call_that_was_shown(tmp_path: Path) -> None:
    """The approval of another call is not accepted, and a new approval is requested."""

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


def test_no_call_runs_after_a_halt(tmp_path: Path) -> None:
    """The call that halts is denied, and so is every later one."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, HALTED), tmp_path) as client:
            await client.begin()
            assert "Every further call" in text_of(await client.call("wire", amount=1))
            assert "halted" in text_of(await client.call("refund", order_id="W1", amount=1))
            assert failed(await client.request("resources/read", {"uri": "shop://terms"}))

    run(session())
    assert book(tmp_path) == []


SLOW = AT_MOST_ONE.replace("refund(", "slow_refund(")


def test_a_call_that_waits_for_approval_can_be_cancelled(tmp_path: Path) -> None:
    """The approval request is withdrawn, a late answer is ignored, and the call never runs."""

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


# It reports a lost connection for `get_order`, and does not answer the ping by which the proxy then confirms it.
DOUBTFUL = f"""
import json, pathlib, sys
def lines(stream=sys.stdin, pinged=pathlib.Path("PINGED")):
    for line in stream:
        message = json.loads(line)
        if "get_order" in line:
            error = {{"code": -32000, "message": "connection closed"}}
            print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "error": error}}), flush=True)
        elif message["method"] != "ping" or pinged.exists():
            yield line
        else:
            pinged.touch()
sys.stdin = lines()
exec(compile(open({plain_command()[-1]!r}).read(), "plain.py", "exec"))
"""


def test_a_call_that_is_cancelled_before_it_is_sent_has_not_run(tmp_path: Path) -> None:
    """So it has failed, and does not stay in flight."""
    policy = AT_MOST_ONE.replace("order_id=o))", "order_id=o), !failed(f))")
    pinged, log = tmp_path / "pinged", tmp_path / "log.db"
    server = [sys.executable, "-S", "-c", DOUBTFUL.replace("PINGED", str(pinged))]

    def is_recorded() -> bool:
        entries = [entry.fields for entry in Selection().entries([str(log)])]
        return any(entry["kind"] == "outcome" and entry.get("status") == "failed" for entry in entries)

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, policy, "--log", str(log), server=server), tmp_path) as client:
            await client.begin()
            assert failed(await client.call("get_order", order_id="W1"))
            args = {"name": "refund", "arguments": {"order_id": "W1", "amount": 5}}
            name = await client.ask("tools/call", args)
            while not pinged.exists():  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.01)
            await client.notify("notifications/cancelled", {"requestId": name})
            while not is_recorded():  # noqa: ASYNC110 - by another process
                await asyncio.sleep(0.02)
            assert not failed(await client.call("refund", order_id="W1", amount=5))

    run(session())
    assert paid(tmp_path) == [["W1", 5]]


BROKEN = {"hangs": "import time; time.sleep(2)", "exits": "raise SystemExit(0)"}  # others: test_tool_guard.py


@pytest.mark.parametrize("fault", BROKEN)
def test_a_failing_state_function_denies(tmp_path: Path, fault: str) -> None:
    """The refund is not paid for any fault of a state function, and the proxy continues."""
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
    """The server receives exactly the judged arguments, so it never pays more than 100."""

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


def test_ambiguous_messages_do_not_reach_the_server(tmp_path: Path) -> None:
    """Messages that two parsers may read differently pay nothing, and the proxy survives them."""

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
def test_ambiguous_messages_do_not_reach_the_client(tmp_path: Path, kind: str) -> None:
    """The client sees nothing of an ambiguous message; the request that it answers gets an error."""
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


def test_no_spelling_of_a_uri_gets_past_the_rules(tmp_path: Path) -> None:
    """The resource is not read under any spelling; other resources are requested in their normal spelling."""

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
def test_optional_fields_of_a_call_are_accepted(tmp_path: Path, args: str) -> None:
    """Arguments may be missing or null, a progress token is allowed, and so is null for empty params."""

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


def test_the_server_pays_for_ambiguous_messages_without_the_proxy(tmp_path: Path) -> None:
    """The attacks above are effective."""

    async def session() -> None:
        async with client_of(plain_command(), tmp_path) as client:
            for line in SMUGGLED[:1]:
                await client.line(line % b'{"name":"refund","arguments":{"order_id":"W1","amount":500}}')
            await client.request("ping")

    run(session())
    assert paid(tmp_path) == [["W1", 500]]


def test_an_id_in_use_is_refused(tmp_path: Path) -> None:
    """The answer to one request must not be mistaken for the answer to another."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, SLOW), tmp_path) as client:
            await client.begin()
            name = await client.ask("tools/call", {"name": "slow_refund", "arguments": {"order_id": "W1", "amount": 5}})
            await client.send({"jsonrpc": "2.0", "id": name, "method": "ping"})
            assert "in use" in text_of(await client.answered(name))

    run(session())


def test_an_unlisted_tool_is_not_called(tmp_path: Path) -> None:
    """The denial names the most similar listed tool."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, LIMIT), tmp_path) as client:
            await client.begin()
            assert "did you mean 'refund'" in text_of(await client.call("Refund", order_id="W1", amount=5))

    run(session())
    assert book(tmp_path) == []


# --- names, the list of tools, the log


def test_a_changed_tool_list_is_checked_again(tmp_path: Path) -> None:
    """Unchanged tools can be called with their original parameters; the new tool cannot."""
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
    """With the alias, rules about `pay` apply to `refund`."""
    policy = LIMIT.replace("refund(", "pay(")

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, policy, "--alias", "refund=pay"), tmp_path) as client:
            await client.begin()
            assert failed(await client.call("refund", order_id="W1", amount=500))

    run(session())
    assert paid(tmp_path) == []


def test_the_log_holds_every_verdict(tmp_path: Path) -> None:
    """The verdicts and outcomes of a session are in the log, which verifies."""
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
    verified = subprocess.run(
        [sys.executable, "-m", "guardagent", "log", "verify", str(log), "--json"], capture_output=True, check=False
    )
    assert json.loads(verified.stdout)["status"] == "end_unchecked", "there is no head"


def started(
    tmp_path: Path, *options: str, policy: str = LIMIT, server: list[str] | None = None, stdin: bytes = b""
) -> tuple[int, str]:
    """Returns the exit status and messages of a proxy whose client sends `stdin` and leaves."""
    command = proxy_command(tmp_path, policy, *options, server=server)
    env, cwd = environment(tmp_path), SHOP.parents[4]
    ran = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=60, env=env, cwd=cwd)
    assert ran.stdout == b""
    assert b"Traceback" not in ran.stderr
    return ran.returncode, ran.stderr.decode()


def test_a_client_that_leaves_ends_it(tmp_path: Path) -> None:
    """The exit status is 0."""
    assert started(tmp_path)[0] == 0


LONG = b"x" * (70 * 2**20)


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["open", "ended"])
def test_a_message_without_end_ends_it(tmp_path: Path, end: bytes) -> None:
    """The exit status is 2, after seconds of CPU time: 70 MiB are scanned only once."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    status, reply = started(tmp_path, stdin=LONG + end)
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
def test_an_overlong_message_gets_an_error(tmp_path: Path, line: bytes) -> None:
    """It gets one if its id is readable; the next message is processed."""
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
        (("--header", "A=B"), "a URL only"),
        (("--listen", "nowhere"), "HOST:PORT"),
        (("--listen", "127.0.0.1:1", "--conversation", "c"), "--conversation"),
        (("--ledger", "approvals.db"), "--conversation"),
        (("--deadline", "-1"), "deadline"),
    ],
)
def test_wrong_options_are_errors(tmp_path: Path, options: tuple[str, ...], what: str) -> None:
    """The exit status is 2, and the message says what was expected."""
    status, reply = started(tmp_path, *options)
    assert status == 2
    assert what in reply


def test_a_misspelt_tool_is_reported_at_the_start(tmp_path: Path) -> None:
    """The exit status is 2, and the message has the name that was probably meant."""
    status, reply = started(tmp_path, policy=MISSPELT)
    assert status == 2
    assert "did you mean 'refund'" in reply


def test_a_server_that_cannot_be_started(tmp_path: Path) -> None:
    """The exit status is 2 for a missing program, and 3 for a server that does not answer."""
    assert started(tmp_path, server=["/no/such/program"])[0] == 2
    assert started(tmp_path, server=[sys.executable, "-c", "pass"])[0] == 3
    assert started(tmp_path, server=["http://127.0.0.1:9/mcp"])[0] == 3


# --- crashes

CRASHES = AT_MOST_ONE.replace("refund(", "crash(")


def test_the_proxy_survives_a_crash_of_the_server(tmp_path: Path) -> None:
    """The current call gets an error and stays in flight; then the server is restarted, however often."""

    async def session() -> None:
        async with client_of(proxy_command(tmp_path, CRASHES), tmp_path) as client:
            await client.begin()
            reply = await client.call("crash", order_id="W1")
            assert "started again" in reply["error"]["message"]
            for order in ("W1", "W2", "W3"):
                assert failed(await client.call("crash", order_id=order))
            assert not failed(await client.call("refund", order_id="W1", amount=5))
            assert (await client.request("tools/list"))["result"]["tools"]

    run(session())
    assert book(tmp_path) == [["crash", "W1"], ["crash", "W2"], ["crash", "W3"], ["refund", "W1", 5]]


def test_other_output_of_the_server_is_dropped(tmp_path: Path) -> None:
    """Lines that are not messages do not reach the client."""
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
