"""`timeouts:` in a policy: a tool that runs too long is cancelled, and what it did is unknown."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from guardagent import ToolDenied, load_policies
from guardagent.enforcement import ToolGuard
from guardagent.errors import InputError, ToolTimeoutError
from guardagent.frameworks.python import arun_tool_calls, guard_tools

POLICY = """
version: 1
tags: {web: [fetch]}
timeouts: {"@web": 50ms, fetch: 1m, crunch: 5s}
policies:
  - {id: paid_once, temporal: "forall(pay(), count(f:fetch()) == 0)"}
  - {id: seen_first, temporal: "before(read(), true, f:fetch(), true)"}
"""


def guard(text: str = POLICY) -> ToolGuard:
    return ToolGuard(load_policies(text=text))


def test_a_tool_is_cancelled_and_its_outcome_is_unknown() -> None:
    """It counts where it could break a rule, and not where it would have to have succeeded."""
    done: list[str] = []

    async def fetch(url: str) -> str:
        done.append("began")
        try:
            await asyncio.sleep(5 if url == "slow" else 0)
        except asyncio.CancelledError:
            done.append("cancelled")
            raise
        return url

    own = guard()
    [tool] = guard_tools([fetch], own, conversation="a")

    async def run() -> None:
        with pytest.raises(ToolTimeoutError, match=r"'fetch' was cancelled after 0.05 s"):
            await tool("slow")
        assert done == ["began", "cancelled"]
        assert [event.status for event in own.session("a").history] == ["unknown"]
        assert own.session("a").check("pay", reserve=False).rules == ("paid_once",)
        assert own.session("a").check("read", reserve=False).label
        assert await tool("fast") == "fast"
        assert not own.session("a").check("read", reserve=False).label

    asyncio.run(run())


def test_an_error_of_the_tool_is_its_own() -> None:
    async def fetch() -> str:
        raise TimeoutError("of the tool")

    [tool] = guard_tools([fetch], guard(), conversation="a")
    with pytest.raises(TimeoutError, match="of the tool"):
        asyncio.run(tool())


def test_a_plain_function_cannot_be_cancelled_so_it_does_not_run() -> None:
    ran: list[str] = []

    def crunch() -> str:
        ran.append("crunch")
        return "done"

    own = guard()
    [tool] = guard_tools([crunch], own, conversation="a")
    with pytest.raises(ToolDenied, match="a plain function cannot be cancelled"):
        tool()
    assert ran == []
    assert own.session("a").history == ()


@pytest.mark.parametrize(
    ("timeouts", "problem"),
    [
        ("{fetch: soon}", "a duration such as 30s"),
        ("{fetch: 0s}", "a duration such as 30s"),
        ('{"@wbe": 1s}', "unknown tag '@wbe'; did you mean 'web'"),
        ("{fecth: 1s}", "unknown tool 'fecth'; did you mean 'fetch'"),
    ],
)
def test_mistakes_are_errors(timeouts: str, problem: str) -> None:
    text = f"version: 1\ntools: [fetch]\ntags: {{web: [fetch]}}\ntimeouts: {timeouts}\n"
    with pytest.raises(InputError, match=problem):
        load_policies(text=f"{text}policies:\n  - {{id: a, temporal: 'G !tool:fetch'}}\n")


SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": message.get("id")}
    if message["method"] == "initialize":
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "s", "version": "1"}}
    elif message["method"] == "tools/list":
        answer["result"] = {"tools": [{"name": "fetch", "inputSchema": {"type": "object"}}]}
    elif message["method"] == "notifications/cancelled":
        open("cancelled.json", "w").write(line)
    elif message["method"] == "tools/call":
        open("calls.jsonl", "a").write(line)
        if sys.argv[1:]:
            print('{"jsonrpc": "2.0", "id": 0, "id": %d, "result": {}}' % message["id"], flush=True)
    if "result" in answer:
        print(json.dumps(answer), flush=True)
"""
PROXY = "-m guardagent.cli.main mcp-proxy --policies policies.yaml --absent pay --absent read --absent crunch --"


def fetched(folder: Path, pages: list[int], *server: str) -> list[Any]:
    """Calls `fetch` through a proxy. Returns the answers."""
    (folder / "server.py").write_text(SERVER)
    (folder / "policies.yaml").write_text(POLICY + FETCHED_ONCE)

    async def run() -> list[Any]:
        pipe = asyncio.subprocess.PIPE
        arguments = (*PROXY.split(), sys.executable, "server.py", *server)
        proxy = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=folder, stdin=pipe, stdout=pipe)
        assert proxy.stdin is not None
        assert proxy.stdout is not None

        async def ask(**message: Any) -> Any:
            assert proxy.stdin is not None
            assert proxy.stdout is not None
            proxy.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            return json.loads(await asyncio.wait_for(proxy.stdout.readline(), 20)) if "id" in message else None

        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        await ask(id=1, method="initialize", params=client)
        await ask(method="notifications/initialized")
        calls = [{"name": "fetch", "arguments": {"page": page}} for page in pages]
        answers = [await ask(id=at, method="tools/call", params=call) for at, call in enumerate(calls, 2)]
        for _ in range(0 if server else 100):
            if (folder / "cancelled.json").exists():
                break
            await asyncio.sleep(0.05)
        proxy.stdin.close()
        await proxy.wait()
        return answers

    return asyncio.run(run())


def text_of(answer: Any) -> str:
    assert answer["result"]["isError"]
    return str(answer["result"]["content"][0]["text"])


FETCHED_ONCE = """
  - {id: fetched_once, temporal: "forall(fetch(page=p), count(f:fetch(page=p), !failed(f)) == 0)"}
"""


def test_the_proxy_cancels_a_request_that_takes_too_long(tmp_path: Path) -> None:
    """It may have run, so that it cannot be repeated."""
    first, second = fetched(tmp_path, [1, 1])
    assert "'fetch' was cancelled" in text_of(first)
    assert "fetched_once" in text_of(second)
    assert json.loads((tmp_path / "cancelled.json").read_text())["params"]["requestId"] == 2


def test_a_call_that_never_reached_its_server_has_not_run(tmp_path: Path) -> None:
    """After an answer that is ambiguous, the proxy asks whether the session is alive, and gets no answer in time."""
    ambiguous, *others = fetched(tmp_path, [1, 2, 2], "ambiguous")
    assert "ambiguous" in ambiguous["error"]["message"]
    assert ["it has not run" in text_of(answer) for answer in others] == [True, True]
    assert len((tmp_path / "calls.jsonl").read_text().splitlines()) == 1
    assert not (tmp_path / "cancelled.json").exists()


def test_what_a_tool_makes_of_its_cancellation_is_no_failure() -> None:
    async def fetch() -> None:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            raise RuntimeError from None

    own = guard()
    [tool] = guard_tools([fetch], own, conversation="a")
    with pytest.raises(ToolTimeoutError):
        asyncio.run(tool())
    assert [event.status for event in own.session("a").history] == ["unknown"]


def test_an_async_loop_does_not_wait_for_a_plain_function() -> None:
    def fetch() -> str:
        time.sleep(0.5)
        return "late"

    own = guard()
    call = {"id": "1", "type": "function", "function": {"name": "fetch", "arguments": "{}"}}
    turn = asyncio.run(arun_tool_calls([call], [fetch], own, conversation="a"))
    assert "cancelled after 0.05 s" in str(turn.messages)
    assert [event.status for event in own.session("a").history] == ["unknown"]


def test_a_misspelt_tool_is_refused() -> None:
    async def fetch() -> None:
        """Fetches."""

    with pytest.raises(InputError, match="'timeouts:' names the tool 'fetc'"):
        guard_tools([fetch], guard("version: 1\ntimeouts: {fetc: 1s}\npolicies: [{id: a, temporal: G !tool:b}]"))
    with pytest.raises(InputError, match="expected '@web'"):
        guard(POLICY.replace('"@web": 50ms', "web: 50ms"))
