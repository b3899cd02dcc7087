"""LangChain and LangGraph: final answers, tools of MCP servers, the documentation, and a host that is not there."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain")
pytest.importorskip("langgraph")

from langchain_core.tools import StructuredTool, tool

from guardagent.types import EMPTY, Decision, Verdict
from tests.adapters.langgraph_agents import agent, results, says, thread, user
from tests.adapters.scenarios import LIMIT, Shop, guard_of

ROOT = Path(__file__).parents[2]


class NoSecrets:
    """Stands for a GuardAgent: an answer with the word `secret` may not pass."""

    def guard(self, agent_input: str, agent_output: str, facts: Any = EMPTY) -> Verdict:
        found = "secret" in agent_output
        return Verdict(Decision.DENY if found else Decision.ALLOW, ("it tells a secret",) if found else ())


def test_an_answer_is_judged_before_anybody_sees_it(tmp_path: Path) -> None:
    """In no kind of stream there is a word of an answer that is withheld, and all of one that may pass."""
    guard = guard_of(tmp_path, LIMIT, answers=NoSecrets())
    for answer, passes in (("the secret is swordfish", False), ("the weather is fine", True)):
        made = agent(guard, says(answer), [tool(Shop().refund)])
        seen = list(made.stream(user(), thread(str(passes)), stream_mode=["messages", "updates", "values"]))
        assert ("swordfish" in str(seen)) is False
        assert ("fine" in str(seen)) is passes
        assert ("it tells a secret" in str(seen)) is not passes


def test_an_answer_is_judged_with_await(tmp_path: Path) -> None:
    """The same where the host awaits."""

    async def run() -> str:
        made = agent(
            guard_of(tmp_path, LIMIT, answers=NoSecrets()), says("the secret is swordfish"), [tool(Shop().refund)]
        )
        modes = ["messages", "updates", "values"]
        return str([one async for one in made.astream(user(), thread(), stream_mode=modes)])

    seen = asyncio.run(run())
    assert "swordfish" not in seen
    assert "withheld" in seen


def test_a_tool_with_a_json_schema_gets_what_was_judged(tmp_path: Path) -> None:
    """As MCP servers declare them: nothing is coerced, defaults are written out, undeclared names are refused."""
    paid: list[Any] = []

    async def call(**arguments: Any) -> tuple[list[dict[str, Any]], None]:
        paid.append(arguments)
        return [{"type": "text", "text": '{"paid": true}'}], None

    schema = {
        "type": "object",
        "properties": {"order_id": {"type": "string"}, "amount": {"type": "integer", "default": 500}},
        "required": ["order_id"],
    }
    remote = StructuredTool(
        name="refund", description="", args_schema=schema, coroutine=call, response_format="content_and_artifact"
    )
    tries: list[dict[str, Any]] = [{}, {"amount": "50"}, {"amount": 50, "Amount": 500}, {"amount": 500}, {"amount": 50}]
    guard = guard_of(tmp_path, LIMIT, max_replans=9)
    model = says(*[[("refund", {"order_id": "W1", **one})] for one in tries])
    found = asyncio.run(agent(guard, model, [remote]).ainvoke(user(), thread()))
    assert paid == [{"order_id": "W1", "amount": 50}]
    assert [one.status for one in results(found)] == ["error"] * 4 + ["success"]
    assert guard.session("t").history[0].output == '{"paid": true}'


SERVER = """
import sys
from mcp.server.fastmcp import FastMCP

server = FastMCP("shop")

@server.tool()
def refund(order_id: str, amount: int = 500) -> str:
    with open(sys.argv[1], "a") as out:
        out.write(f"{amount}\\n")
    return "ok"

server.run()
"""


def test_a_tool_of_a_real_mcp_server_is_guarded(tmp_path: Path) -> None:
    """Through the host's own adapters of MCP."""
    pytest.importorskip("langchain_mcp_adapters")
    from langchain_mcp_adapters.client import MultiServerMCPClient

    (tmp_path / "server.py").write_text(SERVER)
    paid = tmp_path / "paid"

    async def run() -> None:
        args = [str(tmp_path / "server.py"), str(paid)]
        client = MultiServerMCPClient({"shop": {"command": sys.executable, "args": args, "transport": "stdio"}})
        tries: list[dict[str, Any]] = [{}, {"amount": 500}, {"amount": 50}]
        model = says(*[[("refund", {"order_id": "W1", **one})] for one in tries])
        await agent(guard_of(tmp_path, LIMIT), model, await client.get_tools()).ainvoke(user(), thread())

    asyncio.run(run())
    assert paid.read_text().split() == ["50"]


def test_the_page_of_this_host_does_what_it_says(tmp_path: Path) -> None:
    """Its program, under forty lines, blocks a real call and prints what the page shows."""
    page = (ROOT / "docs" / "hosts" / "langgraph.md").read_text(encoding="utf-8")
    for name, text in re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        (tmp_path / name).write_text(text)
    program = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    assert len(program.splitlines()) < 40
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [line[3:] for line in program.splitlines() if line.startswith("#> ")]
