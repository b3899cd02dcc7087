"""`timeouts:` of a server's policy: the answer to a check has the time of its call."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn")

from guardagent.enforcement import HostCall, ToolSpec, arun
from guardagent.errors import ToolDenied, ToolTimeoutError
from tests.remote_guards import running_server

POLICY = """
version: 1
dispatch: {call_tool: {tool: name, arguments: arguments}}
timeouts: {export: 50ms, list: 1m}
policies:
  - {id: once, temporal: "forall(export(page=p), count(f:export(page=p), !failed(f)) == 0)"}
"""


def test_a_tool_behind_a_gateway_has_the_time_of_the_policy(tmp_path: Path) -> None:
    """Its time depends on the arguments of the gateway, which the server judges."""

    async def tool(args: Any) -> str:
        await asyncio.sleep(0.5)
        return "done"

    def call(name: str, page: int) -> HostCall:
        return HostCall("call_tool", {"name": name, "arguments": {"page": page}}, "c1", f"{name} {page}")

    async def run() -> None:
        with pytest.raises(ToolTimeoutError, match=r"after 0\.05 s"):
            await arun(guard, call("export", 1), tool)
        with pytest.raises(ToolDenied):  # it may have done its work
            await arun(guard, call("export", 1), tool)
        assert await arun(guard, call("list", 1), tool) == "done"
        assert await arun(guard, call("look", 1), tool) == "done"

    policies = tmp_path / "policies.yaml"
    policies.write_text(POLICY)
    with running_server(tmp_path / "server", policies) as server, server.guard() as guard:
        guard.attach([ToolSpec("call_tool", {"type": "object"})])
        asyncio.run(run())
