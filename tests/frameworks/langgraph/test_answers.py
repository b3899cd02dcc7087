"""LangChain and LangGraph: final answers, tools of MCP servers, and the page of this host."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain")
pytest.importorskip("langgraph")

from langchain.agents.middleware import AgentMiddleware, hook_config
from langchain.agents.structured_output import ToolStrategy
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool, tool
from langgraph.graph import StateGraph
from langgraph.types import Command
from pydantic import BaseModel

from guardagent.frameworks.langgraph import guarded_answer_node
from guardagent.types import EMPTY, Decision, Verdict
from tests.docs.test_docs import BLOCK, ROOT, expected_output
from tests.frameworks.langgraph.agents import Scripted, State, agent, graph, results, says, thread, user
from tests.frameworks.scenarios import LIMIT, Shop, guard_of

NO_PIN = (
    LIMIT
    + """  - id: no_pin
    temporal: forall(answer(text=t), !(t matches /(?s:.*)47x11(?s:.*)/))
    message: The answer tells a PIN.
"""
)


class NoSecrets:
    """A judge, in place of a GuardAgent, that denies answers with the word `secret`."""

    def guard(self, agent_input: str, agent_output: str, facts: Any = EMPTY) -> Verdict:
        has_secret = "secret" in agent_output
        return Verdict(Decision.DENY if has_secret else Decision.ALLOW, ("it tells a secret",) if has_secret else ())


def test_an_answer_is_judged_before_anybody_sees_it(tmp_path: Path) -> None:
    """No stream mode shows any part of a withheld answer, and all show an allowed one."""
    guard = guard_of(tmp_path, LIMIT, answers=NoSecrets())
    for answer, passes in (("the secret is swordfish", False), ("the weather is fine", True)):
        made = agent(guard, says(answer), [tool(Shop().refund)])
        seen = list(made.stream(user(), thread(str(passes)), stream_mode=["messages", "updates", "values"]))
        assert ("swordfish" in str(seen)) is False
        assert ("fine" in str(seen)) is passes
        assert ("it tells a secret" in str(seen)) is not passes


def test_a_rule_can_speak_of_the_answer(tmp_path: Path) -> None:
    """A denied answer is withheld and no step; an allowed one is recorded, once."""
    guard = guard_of(tmp_path, NO_PIN)
    for answer, passes in (("your PIN is 47x11", False), ("the weather is fine", True)):
        made = agent(guard, says(answer), [tool(Shop().refund)])
        seen = list(made.stream(user(), thread(str(passes)), stream_mode=["messages", "updates", "values"]))
        assert ("47x11" in str(seen), "tells a PIN" in str(seen)) == (False, not passes)
        assert [event.args for event in guard.session(str(passes)).history] == [{"text": answer}] * passes


def test_an_answer_is_judged_with_await(tmp_path: Path) -> None:
    """The same holds for an asynchronous host."""

    async def run() -> str:
        made = agent(
            guard_of(tmp_path, LIMIT, answers=NoSecrets()), says("the secret is swordfish"), [tool(Shop().refund)]
        )
        modes = ["messages", "updates", "values"]
        return str([chunk async for chunk in made.astream(user(), thread(), stream_mode=modes)])

    seen = asyncio.run(run())
    assert "swordfish" not in seen
    assert "withheld" in seen


TELLS = "the secret is swordfish"
MODES = ["messages", "updates", "values"]


class Counting(NoSecrets):
    """A judge that records the answers that it judges."""

    def __init__(self) -> None:
        self.outputs: list[str] = []

    def guard(self, agent_input: str, agent_output: str, facts: Any = EMPTY) -> Verdict:
        self.outputs.append(agent_output)
        return super().guard(agent_input, agent_output, facts)


@tool(return_direct=True)
def direct(text: str) -> str:
    """Returns the final answer."""
    return f"the {text} is swordfish"


@tool
def ending(text: str, runtime: ToolRuntime) -> Command[Any]:
    """Ends the run with its output."""
    reply = ToolMessage(f"the {text} is swordfish", tool_call_id=runtime.tool_call_id)
    return Command(update={"messages": [reply]}, goto="__end__")


@pytest.mark.parametrize("build", [agent, graph])
@pytest.mark.parametrize("used", [direct, ending], ids=lambda tool: tool.name)
def test_a_result_that_is_the_answer_is_judged(used: Any, build: Any, tmp_path: Path) -> None:
    """If it is withheld, no stream mode shows it; otherwise it is judged once."""
    for text, passes in (("secret", False), ("fish", True)):
        judge = Counting()
        made = build(guard_of(tmp_path, LIMIT, answers=judge), says([(used.name, {"text": text})]), [used])
        modes = MODES if build is agent else MODES[1:]  # the fake model streams no empty message
        seen = str(list(made.stream(user(), thread(), stream_mode=modes)))
        assert ("swordfish" in seen) is passes
        assert ("it tells a secret" in seen) is not passes
        assert judge.outputs.count("the fish is swordfish") == passes


def test_a_result_that_is_the_answer_is_judged_with_await(tmp_path: Path) -> None:
    """The same holds for an asynchronous host."""
    guard = guard_of(tmp_path, LIMIT, answers=NoSecrets())
    made = agent(guard, says([("direct", {"text": "secret"})]), [direct])

    async def run() -> str:
        return str([chunk async for chunk in made.astream(user(), thread(), stream_mode=MODES)])

    seen = asyncio.run(run())
    assert "swordfish" not in seen
    assert "it tells a secret" in seen


class Ends(AgentMiddleware):
    """A middleware that ends the run with its own message, at one of the host's hooks."""

    def __init__(self, hook: str) -> None:
        super().__init__()
        self.hook = hook

    def _at(self, hook: str) -> dict[str, Any] | None:
        if hook != self.hook:
            return None
        return {"messages": [AIMessage(TELLS)], **({} if hook == "after_agent" else {"jump_to": "end"})}

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: Any, runtime: Any) -> Any:
        return self._at("before_agent")

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> Any:
        return self._at("before_model")

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: Any, runtime: Any) -> Any:
        return self._at("after_model")

    def after_agent(self, state: Any, runtime: Any) -> Any:
        return self._at("after_agent")


@pytest.mark.parametrize("hook", ["before_agent", "before_model", "after_model", "after_agent"])
@pytest.mark.parametrize("inside", [False, True])
def test_an_answer_of_a_middleware_is_judged(hook: str, *, inside: bool, tmp_path: Path) -> None:
    """This holds for every hook, except `after_agent` of a middleware before the guard, which runs last."""
    guard = guard_of(tmp_path, LIMIT, answers=NoSecrets())
    outer, inner = ([], [Ends(hook)]) if inside or hook == "after_agent" else ([Ends(hook)], [])
    invoke = agent(guard, says("hello"), [tool(Shop().refund)], *inner, before=outer).invoke(user(), thread())
    assert "swordfish" not in str(invoke)
    assert "it tells a secret" in invoke["messages"][-1].content


class Report(BaseModel):
    text: str


@pytest.mark.parametrize(("beside", "text", "passes"), [("", "secret", False), (TELLS, "x", False), ("", "fish", True)])
def test_a_structured_answer_is_judged_with_its_message(
    beside: str, text: str, *, passes: bool, tmp_path: Path
) -> None:
    """The text of the model's message is judged, too. An allowed answer is judged once."""
    judge = Counting()
    reply = AIMessage(beside, tool_calls=[{"name": "Report", "args": {"text": text}, "id": "c1"}])
    model, guard = Scripted(messages=iter([reply])), guard_of(tmp_path, LIMIT, answers=judge)
    made = agent(guard, model, [tool(Shop().refund)], response_format=ToolStrategy(Report))
    invoke = made.invoke(user(), thread())
    assert (invoke.get("structured_response") == Report(text=text)) is passes
    assert "swordfish" not in str(invoke)
    assert not passes or judge.outputs == ['{"text": "fish"}']


def test_a_node_judges_the_answers_of_a_graph_written_by_hand(tmp_path: Path) -> None:
    """The answer node is the last one before the end."""
    guard = guard_of(tmp_path, LIMIT, answers=NoSecrets())
    builder = StateGraph(State)
    builder.add_node("model", lambda state: {"messages": [AIMessage(TELLS)]})
    builder.add_node("answer", guarded_answer_node(guard))
    builder.add_edge("__start__", "model")
    builder.add_edge("model", "answer")
    invoke = builder.compile().invoke(user(), thread())
    assert "swordfish" not in str(invoke)


def test_a_tool_with_a_json_schema_gets_the_judged_arguments(tmp_path: Path) -> None:
    """As with MCP servers, nothing is coerced, defaults are added and undeclared names are refused."""
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
    model = says(*[[("refund", {"order_id": "W1", **attempt})] for attempt in tries])
    final_state = asyncio.run(agent(guard, model, [remote]).ainvoke(user(), thread()))
    assert paid == [{"order_id": "W1", "amount": 50}]
    assert [json.status for json in results(final_state)] == ["error"] * 4 + ["success"]
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
    """The tools come through the host's own MCP adapters."""
    pytest.importorskip("langchain_mcp_adapters")
    from langchain_mcp_adapters.client import MultiServerMCPClient

    (tmp_path / "server.py").write_text(SERVER)
    paid = tmp_path / "paid"

    async def run() -> None:
        args = [str(tmp_path / "server.py"), str(paid)]
        client = MultiServerMCPClient({"shop": {"command": sys.executable, "args": args, "transport": "stdio"}})
        tries: list[dict[str, Any]] = [{}, {"amount": 500}, {"amount": 50}]
        model = says(*[[("refund", {"order_id": "W1", **attempt})] for attempt in tries])
        await agent(guard_of(tmp_path, LIMIT), model, await client.get_tools()).ainvoke(user(), thread())

    asyncio.run(run())
    assert paid.read_text().split() == ["50"]


def test_the_page_of_this_host_does_what_it_says(tmp_path: Path) -> None:
    """The page's programs print what it shows; the first has fewer than forty lines and blocks a call."""
    blocks = list(BLOCK.finditer((ROOT / "docs" / "hosts" / "langgraph.md").read_text(encoding="utf-8")))
    for block in blocks:
        if block["file"]:
            (tmp_path / block["file"]).write_text(block["text"])
    programs = [block["text"] for block in blocks if block["kind"] == "python"]
    assert len(programs[0].splitlines()) < 40
    program = "".join(programs)
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == expected_output(program)
