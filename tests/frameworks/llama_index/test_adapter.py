"""LlamaIndex: what guarded agents really do, with a model that follows a script."""

import asyncio
import gc
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core.agent.workflow")

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.memory import Memory
from llama_index.core.objects import ObjectRetriever
from llama_index.core.tools import AsyncBaseTool, FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.workflow import Context
from pydantic import BaseModel, SecretStr
from workflows.events import HumanResponseEvent, InputRequiredEvent

from guardagent.enforcement import Approval, ToolGuard
from guardagent.errors import InputError
from guardagent.frameworks.llama_index import WorkflowHalted, answer, conversation, guarded
from guardagent.testing.conformance.host import NoSecrets
from tests.frameworks.guarded_runs import Ran, guarded_run_test, refund
from tests.frameworks.llama_index.scripted_llm import ScriptedLLM, Turn
from tests.frameworks.scenarios import APPROVED, AT_MOST_ONE, AUTHENTICATED, LIMIT, MISSPELT, Shop, guard_of

PIN = "The PIN is 47x11."


def agent_of(guard: ToolGuard, shop: Shop, *turns: Turn, tools: Any = None, **options: Any) -> Any:
    """Returns a guarded agent with the shop's tools."""
    tools = [shop.refund, shop.wire, shop.authenticate] if tools is None else tools
    return guarded(FunctionAgent(tools=tools, llm=ScriptedLLM(turns), **options), guard)


async def arun(
    agent: Any, name: str = "c1", on_question: Callable[[Any, Any], None] | None = None, **options: Any
) -> Any:
    """Runs an agent. Returns its output and its events; `on_question` answers its questions."""
    with conversation(name):
        handler = agent.run(user_msg="please", **options)
    events = []
    async for event in handler.stream_events():
        events.append(event)
        if on_question is not None and isinstance(event, InputRequiredEvent):
            on_question(handler.ctx, event)
    return await handler, events


def ran(agent: Any, name: str = "c1", **options: Any) -> Any:
    """As `arun`. Returns the output."""
    return asyncio.run(arun(agent, name, **options))[0]


def outputs(agent: Any) -> str:
    """Returns the last messages that the model has read."""
    return str(agent.llm.read[-1])


def run(guard: ToolGuard, shop: Shop, *turns: Turn, named: str | None = "c1", awaited: bool = False) -> Ran:
    """Runs a guarded agent."""
    paying = FunctionTool.from_defaults(async_fn=shop.arefund, name="refund") if awaited else shop.refund
    agent = agent_of(guard, shop, *turns, tools=[paying, shop.wire, shop.authenticate])

    async def unnamed() -> Any:
        return await agent.run("please"), []

    result, events = asyncio.run(unnamed() if named is None else arun(agent, named))
    failed = [event.tool_output.is_error for event in events if hasattr(event, "tool_output")]
    return Ran(str(result), [str(read) for read in agent.llm.read], failed)


test_guarded_run = guarded_run_test({"agent": run}, WorkflowHalted)


# --- denials


def test_a_run_without_a_conversation_is_denied(tmp_path: Path) -> None:
    """The denial explains what to configure; the id of a memory, or of the attachment, names it."""
    shop, guard = Shop(), guard_of(tmp_path, LIMIT)

    async def unnamed(**options: Any) -> Any:
        agent = agent_of(guard, shop, refund(5), "sorry")
        await agent.run("please", **options)
        return agent

    assert "names no conversation" in outputs(asyncio.run(unnamed()))
    asyncio.run(unnamed(memory=Memory.from_defaults(session_id="customer-7")))
    assert len(guard.session("customer-7").history) == 1
    named = guarded(FunctionAgent(tools=[shop.refund], llm=ScriptedLLM([refund(6)])), guard, conversation=lambda: "c9")

    async def run_named() -> None:
        await named.run("please")

    asyncio.run(run_named())
    assert len(guard.session("c9").history) == 1
    assert len(shop.refunds) == 2


# --- approvals


def test_a_reviewer_approves_in_the_running_workflow(tmp_path: Path) -> None:
    """The host asks with its own event; an approval pays once, a rejection and an edit above the limit nothing."""
    for decision, paid in (
        (True, [("W1", 500)]),
        (Approval("edit", {"order_id": "W1", "amount": 60}), [("W1", 60)]),
        (Approval("edit", {"order_id": "W1", "amount": 5000}), []),
        (Approval("edit", {"order_id": "W1", "amount": 60, "more": 1}), []),
        (Approval("reject", reason="too much"), []),
        ("gibberish", []),
    ):
        shop = Shop()
        agent = agent_of(guard_of(tmp_path, APPROVED), shop, refund(500), "done")
        asyncio.run(arun(agent, on_question=lambda ctx, event, decision=decision: answer(ctx, event, decision)))  # type: ignore[misc]
        assert shop.refunds == paid, decision


def test_an_answer_counts_for_its_request(tmp_path: Path) -> None:
    """One for another request is refused, and one that was sent by hand without the digest approves nothing."""
    shop = Shop()

    def reply(ctx: Any, event: Any) -> None:
        with pytest.raises(InputError, match="for another request"):
            answer(ctx, event, Approval("approve", of="0" * 64))
        ctx.send_event(HumanResponseEvent(call=event.digest.partition(".")[0], decision={"choice": "approve"}))

    ran(agent_of(guard_of(tmp_path, APPROVED), shop, refund(500), "done"), on_question=reply)
    assert shop.refunds == []


def test_a_tool_that_asks_a_person_itself_is_one_call(tmp_path: Path) -> None:
    """The host runs its step again once there is an answer; the call is judged once."""
    shop = Shop()

    async def refund_asking(ctx: Context, order_id: str) -> str:
        """Pays after a question."""
        response = await ctx.wait_for_event(HumanResponseEvent, waiter_event=InputRequiredEvent(prefix="really?"))
        return shop.refund(order_id, int(response.response))

    asking = FunctionTool.from_defaults(async_fn=refund_asking, name="refund")
    call = [("refund", {"order_id": "W1"})]
    agent = agent_of(guard_of(tmp_path, AT_MOST_ONE), shop, call, call, "done", tools=[asking])
    ran(agent, on_question=lambda ctx, event: ctx.send_event(HumanResponseEvent(response="50")))
    assert shop.refunds == [("W1", 50)]


# --- ways to run a tool


class Till(AsyncBaseTool):
    """A tool that is no FunctionTool."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    @property
    def metadata(self) -> ToolMetadata:
        class Refund(BaseModel):
            order_id: str
            amount: int = 500

        return ToolMetadata("Pays.", "refund", Refund)

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        return ToolOutput("refund", content=self._shop.refund(**kwargs), raw_input={}, raw_output=None)

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        return self.call(**kwargs)


def test_every_kind_of_tool_is_judged(tmp_path: Path) -> None:
    """A function, one with arguments that the operator fills in, a class of its own, and tools of a retriever."""

    class Retriever(ObjectRetriever[Any]):
        def __init__(self, tool: Any) -> None:
            self.tool = tool

        async def aretrieve(self, text: str) -> list[Any]:
            return [self.tool]

    kinds: tuple[Callable[[Shop], dict[str, Any]], ...] = (
        lambda shop: {"tools": [shop.refund]},
        lambda shop: {"tools": [FunctionTool.from_defaults(shop.refund, partial_params={"order_id": "W1"})]},
        lambda shop: {"tools": [Till(shop)]},
        lambda shop: {"tools": [], "tool_retriever": Retriever(FunctionTool.from_defaults(shop.refund))},
    )
    for made in kinds:
        shop = Shop()
        options = made(shop)
        default = [("refund", {"order_id": "W1"})]
        agent = agent_of(guard_of(tmp_path, LIMIT), shop, refund(500), default, refund(50), "done", **options)
        ran(agent)
        assert shop.refunds == [("W1", 50)], options


def test_a_react_agent_and_a_denied_hand_off(tmp_path: Path) -> None:
    """An agent that writes its calls as text is guarded; a denied hand-off stays with its agent."""
    shop = Shop()
    written = 'Thought: I pay.\nAction: refund\nAction Input: {"order_id": "W1", "amount": %d}'
    llm = ScriptedLLM([written % 500, written % 50, "Thought: I can answer.\nAnswer: paid"])
    answer = ran(guarded(ReActAgent(tools=[shop.refund], llm=llm), guard_of(tmp_path, LIMIT)))
    assert (shop.refunds, str(answer)) == ([("W1", 50)], "paid")
    rule = "version: 1\npolicies:\n  - {id: stay, temporal: \"forall(handoff(to=t), t != 'second')\"}\n"
    first = FunctionAgent(
        name="first", description="a", llm=ScriptedLLM([[("handoff", {"to_agent": "second", "reason": "x"})], "mine"])
    )
    second = FunctionAgent(name="second", description="b", llm=ScriptedLLM(["yours"]))
    team = AgentWorkflow(agents=[first, second], root_agent="first")
    assert str(ran(guarded(team, guard_of(tmp_path, rule)))) == "mine"


def test_a_failed_result_of_a_server_is_a_failure(tmp_path: Path) -> None:
    """The error of an MCP server counts, though the host shows it as the tool's output."""
    mcp, types = pytest.importorskip("llama_index.tools.mcp"), pytest.importorskip("mcp.types")
    shop = Shop()

    class Client:
        async def list_tools(self) -> Any:
            schema = {"type": "object", "properties": {"email": {"type": "string"}}}
            return types.ListToolsResult(tools=[types.Tool(name="authenticate", inputSchema=schema)])

        async def call_tool(self, name: str, arguments: Any) -> Any:
            return types.CallToolResult(content=[types.TextContent(type="text", text="no")], isError=True)

    async def run() -> None:
        served = await mcp.McpToolSpec(client=Client()).to_tool_list_async()
        login = [("authenticate", {"email": "a"})]
        agent = agent_of(guard_of(tmp_path, AUTHENTICATED), shop, login, refund(5), tools=[*served, shop.refund])
        await arun(agent)

    asyncio.run(run())
    assert shop.refunds == []


# --- the final answer


class Answer(BaseModel):
    text: str


@pytest.mark.parametrize(
    ("turns", "options"),
    [
        ([PIN], {}),
        ([refund(5)], {"max_iterations": 1, "early_stopping_method": "generate"}),
        (["fine"], {"structured": lambda messages: {"text": PIN}}),
    ],
    ids=["spoken", "early stopping", "structured"],
)
def test_a_denied_answer_is_nowhere(turns: list[Any], options: dict[str, Any], tmp_path: Path) -> None:
    """Neither in the output, nor in the stream, nor in the memory."""
    options, memory = dict(options), Memory.from_defaults(session_id="m")
    structured = options.pop("structured", None)
    guard = guard_of(tmp_path, LIMIT, answers=NoSecrets())
    agent = agent_of(guard, Shop(), *turns, PIN, structured_output_fn=structured)

    async def run() -> tuple[Any, Any, Any]:
        return *(await arun(agent, memory=memory, **options)), await memory.aget_all()

    answer, events, messages = asyncio.run(run())
    shown = [event for event in events if type(event).__name__ != "StopEvent"]
    assert "47x11" not in f"{answer!r} {shown!r} {messages!r}"
    assert "withheld" in str(answer)


# --- attaching


def test_what_cannot_be_guarded_is_refused(tmp_path: Path) -> None:
    """A misspelt rule, a second guard, something that is no agent, and arguments that no rule can read."""

    def pays(order_id: str, secret: SecretStr) -> str:
        return order_id

    guard = guard_of(tmp_path, LIMIT)
    agent = agent_of(guard, Shop())
    assert guarded(agent, guard) is agent
    for target, message in ((agent, "another guard"), (object(), "expected an agent")):
        with pytest.raises(InputError, match=message):
            guarded(target, guard_of(tmp_path, LIMIT))
    with pytest.raises(InputError, match="did you mean 'refund'"):
        agent_of(guard_of(tmp_path, MISSPELT), Shop())
    with pytest.raises(InputError, match="no lossless form"):
        agent_of(guard_of(tmp_path, LIMIT), Shop(), tools=[pays])


def test_the_original_tools_are_not_changed(tmp_path: Path) -> None:
    """Another agent may use them without a guard; tools that are added later are guarded."""
    shop = Shop()
    tool = FunctionTool.from_defaults(shop.refund)
    agent = agent_of(guard_of(tmp_path, LIMIT), shop, refund(500), "done", tools=[])
    agent.tools.append(tool)
    ran(agent)
    assert shop.refunds == []
    tool.call(order_id="W1", amount=500)
    assert shop.refunds == [("W1", 500)]


def test_a_tool_is_judged_by_its_current_name(tmp_path: Path) -> None:
    """A tool that is renamed after the guard was attached is the tool that the rules name."""
    shop = Shop()
    tool = FunctionTool.from_defaults(shop.refund, name="look_up")
    agent = agent_of(guard_of(tmp_path, LIMIT), shop, refund(500), refund(50), tools=[tool])
    tool.metadata.name = "refund"
    ran(agent)
    assert shop.refunds == [("W1", 50)]


def test_a_tool_that_does_more_than_its_function_is_guarded_as_a_whole(tmp_path: Path) -> None:
    """The `acall` of a subclass is a part of the call."""
    shop = Shop()

    class Paying(FunctionTool):
        async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
            shop.refund(**kwargs)
            return await super().acall(*args, **kwargs)

    def reply(order_id: str, amount: int = 500) -> str:
        return f"refunded {amount} of {order_id}"

    tools = [Paying.from_defaults(reply, name="refund")]
    ran(
        agent_of(
            guard_of(tmp_path, LIMIT), shop, refund(500), [("refund", {"order_id": "W1"})], refund(50), tools=tools
        )
    )
    assert shop.refunds == [("W1", 50)]


@pytest.mark.parametrize("work", [lambda: map(str, [1]), Future])
def test_work_that_is_not_done_satisfies_nothing(work: Callable[[], Any], tmp_path: Path) -> None:
    """Neither an iterator nor a future is what a tool has found."""
    shop = Shop()
    tools = [FunctionTool.from_defaults(work, name="authenticate", description="Logs in."), shop.refund]
    ran(agent_of(guard_of(tmp_path, AUTHENTICATED), shop, [("authenticate", {})], refund(50), tools=tools))
    assert shop.refunds == []


def test_an_agent_in_a_tool_that_times_out_is_no_failure(tmp_path: Path) -> None:
    """It may have done a part of its work: nobody knows how its call has ended."""
    shop, guard = Shop(waits=True), guard_of(tmp_path, AT_MOST_ONE)
    waits = [FunctionTool.from_defaults(async_fn=shop.arefund, name="refund")]
    inner = agent_of(guard, shop, refund(5), tools=waits, timeout=0.2)

    async def ask() -> str:
        return str(await inner.run(user_msg="please"))

    ran(agent_of(guard, shop, [("ask", {})], refund(5), tools=[ask, shop.refund]))
    assert shop.refunds == [("W1", 5)]
    assert [event.status for event in guard.session("c1").history] == ["unknown", None]


def test_a_shared_workflow_keeps_nothing_of_its_runs(tmp_path: Path) -> None:
    """The host makes a tool for hand-offs anew in each step."""
    agents = [FunctionAgent(name=name, description=name, tools=[], llm=ScriptedLLM([])) for name in ("sales", "clerk")]
    workflow = guarded(AgentWorkflow(agents=agents, root_agent="sales"), guard_of(tmp_path, LIMIT))
    kept = []
    for _ in range(3):
        ran(workflow)
        gc.collect()
        kept.append(sum(isinstance(item, FunctionTool) for item in gc.get_objects()))
    assert kept[0] == kept[-1]
