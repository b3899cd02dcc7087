"""Strands: what guarded agents really do, with a model that follows a script."""

import asyncio
import contextlib
import functools
import json
import re
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

pytest.importorskip("strands")

from mcp import StdioServerParameters, stdio_client
from pydantic import BaseModel, SecretStr, field_serializer, field_validator
from strands import Agent, tool
from strands.hooks import AfterToolCallEvent, AfterToolsEvent, BeforeToolCallEvent
from strands.middleware import ExecuteToolStage
from strands.multiagent import GraphBuilder, Swarm
from strands.session import FileSessionManager
from strands.tools.executors import SequentialToolExecutor
from strands.tools.mcp import MCPClient
from strands.tools.tools import PythonAgentTool
from strands.types.exceptions import StructuredOutputException
from strands.types.tools import AgentTool
from strands.vended_tools.stop import stop
from strands.vended_tools.subagent import subagent

from guardagent.enforcement import Approval, ToolGuard
from guardagent.errors import InputError
from guardagent.frameworks.strands import GuardIntervention, StrandsHalted, conversation, guarded
from guardagent.testing.conformance.host import NoSecrets
from tests.frameworks.guarded_runs import Ran, guarded_run_test
from tests.frameworks.scenarios import APPROVED, AT_MOST_ONE, AUTHENTICATED, HALTED, LIMIT, MISSPELT, Shop, guard_of
from tests.frameworks.strands.agents import Form, agent_of, answers_to, events_of, ran, refund, results, tools_of
from tests.frameworks.strands.scripted_model import ScriptedModel

PIN = "The PIN is 47x11."
LEAKED = re.compile(r"(?<![\w-])47x11")  # and not within a random id
YES = True
FORMS = pytest.mark.parametrize("form", ["intervention", "guarded"])


def run(
    guard: ToolGuard,
    shop: Shop,
    *turns: Any,
    named: str | None = "c1",
    awaited: bool = False,
    form: Form = "intervention",
) -> Ran:
    """Runs a guarded agent."""
    tools = tools_of(shop, "arefund" if awaited else "refund", "wire", "authenticate")
    agent = agent_of(guard, shop, *turns, form=form, tools=tools)
    answer = str(agent("please") if named is None else ran(agent, name=named)).strip()
    failed = [result["status"] == "error" for result in results(agent)]
    return Ran(answer, [str(read) for read in agent.model.read], failed)


RUNS = {form: functools.partial(run, form=form) for form in get_args(Form)}
test_guarded_run = guarded_run_test(RUNS, StrandsHalted, written=True)


# --- denials


def test_a_halt_in_a_sub_agent_ends_the_root(tmp_path: Path) -> None:
    """The host shows an error of the sub-agent as a result; the run around it ends nevertheless."""
    shop, guard = Shop(), guard_of(tmp_path, HALTED)
    inner = Agent(model=ScriptedModel([[("wire", {"amount": 5})]]), tools=tools_of(shop, "wire"), name="inner")
    agent = agent_of(guard, shop, [("inner", {"input": "x"})], refund(50), tools=[inner, *tools_of(shop, "refund")])
    with pytest.raises(StrandsHalted):
        ran(agent)
    assert (shop.wired, shop.refunds) == ([], [])


@pytest.mark.parametrize("fault", [RuntimeError, RecursionError])
def test_whatever_validation_raises_is_a_denial(fault: type[Exception], tmp_path: Path) -> None:
    """The guard records it, and the model reads it."""
    shop = Shop()

    class Odd(BaseModel):
        amount: int

        @field_validator("amount")
        @classmethod
        def check(cls, amount: int) -> int:
            raise fault("odd")

    @tool(name="refund")
    def pays(order: Odd) -> None:
        """Pays."""
        shop.refund("W1", order.amount)

    agent = agent_of(guard_of(tmp_path, HALTED), shop, [("refund", {"order": {"amount": 50}})], tools=[pays])
    ran(agent)
    assert shop.refunds == []
    assert "odd" in str(results(agent))


# --- the conversation


def test_a_run_without_a_conversation_is_denied(tmp_path: Path) -> None:
    """The denial explains what to configure; a session manager, or the attachment, names it."""
    shop, guard = Shop(), guard_of(tmp_path, LIMIT)
    agent = agent_of(guard, shop, refund(5), "sorry")
    agent("please")
    assert "names no conversation" in str(results(agent))
    manager = FileSessionManager(session_id="customer-7", storage_dir=str(tmp_path))
    in_session = agent_of(guard, shop, refund(5), "paid", session_manager=manager)
    in_session("please")
    in_session.tool.refund(order_id="W1", amount=5)
    assert len(guard.session("customer-7").history) == 2
    named = GuardIntervention(guard, conversation=lambda: "c9")
    Agent(
        model=ScriptedModel([refund(6)]), tools=tools_of(shop, "refund"), interventions=[named], callback_handler=None
    )("please")
    assert len(guard.session("c9").history) == 1
    assert len(shop.refunds) == 3


def test_an_agent_is_attached_in_one_way(tmp_path: Path) -> None:
    """A second conversation would be ignored, and its runs would be parts of the first; the same once more is fine."""
    guard, agent = guard_of(tmp_path, LIMIT), Agent(model=ScriptedModel([]), tools=tools_of(Shop(), "refund"))
    for _ in range(2):
        guarded(agent, guard, conversation="one")
    with pytest.raises(InputError, match="guarded already, with another conversation"):
        guarded(agent, guard, conversation="two")


def test_a_tool_cannot_leave_its_conversation(tmp_path: Path) -> None:
    """An agent that a tool runs by hand under another id belongs to the conversation of the call."""
    shop, guard = Shop(), guard_of(tmp_path, AT_MOST_ONE)

    @tool
    def delegate() -> str:
        """Delegates."""
        with conversation("apart"):
            return str(agent_of(guard, shop, refund(5), "done")("please"))

    ran(agent_of(guard, shop, refund(5), [("delegate", {})], "done", tools=[delegate, *tools_of(shop, "refund")]))
    assert shop.refunds == [("W1", 5)]


# --- approvals


@FORMS
def test_a_reviewer_answers_an_interrupt(form: Form, tmp_path: Path) -> None:
    """The host asks with its own interrupt; an approval pays once, a rejection and an edit above the limit nothing."""
    for answer, paid in (
        (True, [("W1", 500)]),
        ("approve", [("W1", 500)]),
        ({"choice": "edit", "args": {"order_id": "W1", "amount": 60}}, [("W1", 60)]),
        ({"choice": "edit", "args": {"order_id": "W1", "amount": 5000}}, []),
        ({"choice": "edit", "args": {"order_id": "W1", "amount": 60, "more": 1}}, []),
        ({"choice": "reject", "reason": "too much"}, []),
        ({"choice": "approve", "of": "0" * 64}, []),
        (False, []),
        ("gibberish", []),
    ):
        shop = Shop()
        agent = agent_of(guard_of(tmp_path, APPROVED), shop, refund(500), "done", form=form)
        waiting = ran(agent)
        assert waiting.stop_reason == "interrupt"
        assert waiting.interrupts[0].reason["args"] == {"order_id": "W1", "amount": 500}
        assert shop.refunds == []
        assert str(ran(agent, answers_to(waiting, answer))).strip() == "done"
        assert shop.refunds == paid, answer


def test_an_edit_may_need_an_approval_of_its_own(tmp_path: Path) -> None:
    """The edited call is shown again; a second approval pays it."""
    shop = Shop()
    agent = agent_of(guard_of(tmp_path, APPROVED), shop, refund(500), "done")
    edited = {"choice": "edit", "args": {"order_id": "W1", "amount": 600}}
    second = ran(agent, answers_to(ran(agent), edited))
    assert second.interrupts[-1].reason["args"]["amount"] == 600
    ran(agent, answers_to(second, YES))
    assert shop.refunds == [("W1", 600)]


def test_a_rejection_stands(tmp_path: Path) -> None:
    """A later approval from an older state, in another process, pays nothing, also for an edited call."""
    shop, ledger = Shop(), f"sqlite:{tmp_path / 'ledger.db'}"
    guards = [guard_of(tmp_path, APPROVED, ledger=ledger) for _ in range(3)]
    agents = [agent_of(guard, shop, *turns) for guard, turns in zip(guards, ([refund(500)], [], []), strict=True)]
    edited = {"choice": "edit", "args": {"order_id": "W1", "amount": 600}}
    second = ran(agents[0], answers_to(ran(agents[0]), edited))
    for agent, answer in zip(agents[1:], ("reject", "approve"), strict=True):
        agent.load_snapshot(agents[0].take_snapshot(preset="session"))
        ran(agent, answers_to(second, answer)[-1:])
    assert shop.refunds == []


def test_an_approval_survives_in_the_hosts_session(tmp_path: Path) -> None:
    """An agent of another process, with the same session and ledger, continues; a second click pays nothing."""
    shop, options = Shop(), {"ledger": f"sqlite:{tmp_path / 'ledger.db'}"}

    def agent(*turns: Any) -> Any:
        manager = FileSessionManager(session_id="s1", storage_dir=str(tmp_path))
        return agent_of(guard_of(tmp_path, APPROVED, **options), shop, *turns, session_manager=manager)

    waiting = agent(refund(500))("please")
    clicks = [agent("done"), agent("done")]
    for click in clicks:
        click(answers_to(waiting, YES))
    assert shop.refunds == [("W1", 500)]


def test_the_interrupt_of_a_sub_agent_reaches_the_root(tmp_path: Path) -> None:
    """The answer goes back to the call of the sub-agent, which pays once; the root's call is judged once."""
    shop, guard = Shop(), guard_of(tmp_path, APPROVED)
    inner = Agent(
        model=ScriptedModel([refund(500), "done"]), tools=tools_of(shop, "refund"), name="inner", callback_handler=None
    )
    agent = agent_of(guard, shop, [("inner", {"input": "x"})], "over", tools=[inner])
    waiting = ran(agent)
    assert shop.refunds == []
    assert str(ran(agent, answers_to(waiting, YES))).strip() == "over"
    assert shop.refunds == [("W1", 500)]
    assert [event.tool for event in guard.session("c1").history] == ["inner", "refund"]


def test_a_tool_that_asks_a_person_itself_is_one_call(tmp_path: Path) -> None:
    """The host runs it again once there is an answer; the call is judged once."""
    shop = Shop()

    @tool(name="refund", context=True)
    def asking(order_id: str, tool_context: Any) -> str:
        """Pays after a question."""
        return shop.refund(order_id, int(tool_context.interrupt("really?")))

    call = [("refund", {"order_id": "W1"})]
    agent = agent_of(guard_of(tmp_path, AT_MOST_ONE), shop, call, call, "done", tools=[asking])
    ran(agent, answers_to(ran(agent), "50"))
    assert shop.refunds == [("W1", 50)]


def test_a_retry_of_an_approved_call_asks_again(tmp_path: Path) -> None:
    """The first attempt has used its approval, and has failed; a hook retries it as a call of its own."""
    tried, guard = list[int](), guard_of(tmp_path, APPROVED)

    @tool(name="refund")
    def failing(order_id: str, amount: int) -> str:
        """Pays the second time."""
        tried.append(amount)
        if len(tried) == 1:
            raise RuntimeError("down")
        return "paid"

    def retry(event: AfterToolCallEvent) -> None:
        event.retry = event.result["status"] == "error" and len(tried) == 1

    agent = agent_of(guard, Shop(), refund(500), "done", tools=[failing])
    agent.hooks.add_callback(AfterToolCallEvent, retry)
    waiting = ran(agent, answers_to(ran(agent), YES))
    assert (waiting.stop_reason, tried) == ("interrupt", [500])
    assert ran(agent, answers_to(waiting, YES)).stop_reason == "end_turn"
    assert tried == [500, 500]
    assert [event.status for event in guard.session("c1").history] == ["failed", "ok"]


def test_a_new_call_does_not_continue_one_that_waits(tmp_path: Path) -> None:
    """An agent built anew proposes it with the same id: it is judged, and the first one is in flight."""
    shop, guard = Shop(), guard_of(tmp_path, AT_MOST_ONE)

    @tool(name="refund", context=True)
    def paying(order_id: str, tool_context: Any) -> str:
        """Pays before a question."""
        return f"{shop.refund(order_id, 50)} {tool_context.interrupt('a receipt?')}"

    for _ in range(2):
        agent = agent_of(guard, shop, "sorry", tools=[paying])
        use = {"toolUse": {"toolUseId": "call_0", "name": "refund", "input": {"order_id": "W1"}}}
        ran(agent, [{"role": "user", "content": [{"text": "please"}]}, {"role": "assistant", "content": [use]}])
    assert shop.refunds == [("W1", 50)]


# --- ways to run a tool


class Till(AgentTool):
    """A tool of the operator's own class."""

    def __init__(self, shop: Shop, name: str = "refund") -> None:
        super().__init__()
        self._shop, self._name = shop, name

    @property
    def tool_name(self) -> str:
        return self._name

    @property
    def tool_spec(self) -> Any:
        properties = {"order_id": {"type": "string"}, "amount": {"type": "integer", "default": 500}}
        schema = {"type": "object", "properties": properties, "required": ["order_id"]}
        return {"name": self._name, "description": "Pays.", "inputSchema": {"json": schema}}

    @property
    def tool_type(self) -> str:
        return "till"

    async def stream(self, tool_use: Any, invocation_state: Any, **kwargs: Any) -> Any:
        yield "paying"
        paid = self._shop.refund(**tool_use["input"])
        yield {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": paid}]}


def module_tool(shop: Shop) -> Any:
    def pays(tool_use: Any, **kwargs: Any) -> Any:
        paid = shop.refund(**tool_use["input"])
        return {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": paid}]}

    return PythonAgentTool("refund", Till(shop).tool_spec, pays)


def other_tool(shop: Shop) -> Any:
    @tool
    def look(order_id: str) -> str:
        """Looks."""
        return order_id

    return look


def selected_by_a_hook(shop: Shop) -> dict[str, Any]:
    def select(event: BeforeToolCallEvent) -> None:
        event.selected_tool = Till(shop)

    return {"tools": [], "hooks": [select]}


def replaced_by_middleware(agent: Any, shop: Shop) -> Any:
    agent.add_middleware(ExecuteToolStage.Input, lambda context: context.replace(tool=Till(shop)))
    return agent


@FORMS
@pytest.mark.parametrize("kind", ["class", "module", "hook", "middleware", "late", "dynamic", "reloaded"])
def test_every_kind_of_tool_is_judged(kind: str, form: Form, tmp_path: Path) -> None:
    """Tools of other kinds, those that a hook or a middleware selects, and those that the agent gets later."""
    shop = Shop()
    options: dict[str, Any] = {
        "class": {"tools": [Till(shop)]},
        "module": {"tools": [module_tool(shop)]},
        "hook": selected_by_a_hook(shop),
    }.get(kind, {"tools": []})
    turns = (refund(500), [("refund", {"order_id": "W1"})], refund(50), "done")
    agent = agent_of(guard_of(tmp_path, LIMIT), shop, "hello", *turns, form=form, **options)
    ran(agent)
    if kind == "middleware":
        replaced_by_middleware(agent, shop)
    if kind in ("late", "reloaded"):
        agent.tool_registry.register_tool(tools_of(shop, "refund")[0])
    if kind == "reloaded":
        agent.tool_registry.replace(Till(shop))
    if kind == "dynamic":
        agent.tool_registry.dynamic_tools["refund"] = Till(shop)
    ran(agent)
    assert shop.refunds == [("W1", 50)]


@FORMS
def test_later_hooks_and_middleware_change_nothing_unjudged(form: Form, tmp_path: Path) -> None:
    """The guard judges what they leave, right at the tool, however late they were added."""
    shop = Shop()
    agent = agent_of(guard_of(tmp_path, LIMIT), shop, "hello", refund(1), refund(2), "done", form=form)
    ran(agent)

    def more(event: BeforeToolCallEvent) -> None:
        amount = event.tool_use["input"]["amount"]
        event.tool_use["input"] = {"order_id": "W1", "amount": 500 if amount == 1 else 60}

    def rewritten(context: Any) -> Any:
        amount = context.tool_use["input"]["amount"]
        return context.replace(tool_use={**context.tool_use, "input": {"order_id": "W1", "amount": amount + 1}})

    agent.add_hook(more, order=1000)
    agent.add_middleware(ExecuteToolStage.Input, rewritten)
    ran(agent)
    assert shop.refunds == [("W1", 61)]


def test_names_that_resemble_each_other_are_denied(tmp_path: Path) -> None:
    """Also inside of a model, whose validation would drop one of them."""
    paid: list[Any] = []

    class Payment(BaseModel):
        amount: int

    @tool
    def pay(payment: Payment) -> str:
        """Pays."""
        paid.append(payment)
        return "paid"

    call = [("pay", {"payment": {"amount": 50, "Amount": 500}})]
    agent = agent_of(guard_of(tmp_path, HALTED, absent={"wire"}), Shop(), call, tools=[pay])
    ran(agent)
    assert paid == []
    assert "expected only one of them" in str(results(agent))


def test_hooks_cannot_change_arguments_while_the_tool_runs(tmp_path: Path) -> None:
    """The tool has copies, also in its context: what the host's messages hold may change meanwhile."""
    shop, held = Shop(), list[Any]()

    @tool(name="refund", context=True)
    def pays(order_id: str, amounts: list[int], tool_context: Any) -> None:
        """Pays."""
        held[0]["input"]["amounts"][0] = 500
        shop.refund(order_id, amounts[0])
        shop.refund(order_id, tool_context.tool_use["input"]["amounts"][0])

    def keep(event: BeforeToolCallEvent) -> None:
        held.append(event.tool_use)

    call = [("refund", {"order_id": "W1", "amounts": [5]})]
    ran(
        agent_of(
            guard_of(tmp_path, LIMIT.replace("amount=a", "order_id=a").replace("a <= 100", "true")),
            shop,
            call,
            tools=[pays],
            hooks=[keep],
        )
    )
    assert shop.refunds == [("W1", 5), ("W1", 5)]


@FORMS
def test_direct_calls_are_judged(form: Form, tmp_path: Path) -> None:
    """`agent.tool.NAME(...)` is judged like a model's call, also before any run; it cannot wait for a reviewer."""
    shop = Shop()
    agent = agent_of(guard_of(tmp_path, APPROVED), shop, form=form)
    with conversation("c1"):
        assert agent.tool.refund(order_id="W1", amount=5000)["status"] == "error"
        waiting = agent.tool.refund(order_id="W1", amount=500)
        assert "cannot be interrupted" in waiting["content"][0]["text"]
        assert agent.tool.refund(order_id="W1", amount=50)["status"] == "success"
    assert shop.refunds == [("W1", 50)]


def test_a_direct_call_shows_its_tool_no_other_arguments(tmp_path: Path) -> None:
    """The host also puts them into the state of the call, where a reviewer's edit would not reach."""
    shop = Shop()

    def pays(tool_use: Any, amount: int | None = None, **kwargs: Any) -> Any:
        assert "agent" in kwargs
        shop.refund("W1", amount or tool_use["input"]["amount"])
        return {"toolUseId": tool_use["toolUseId"], "status": "success", "content": []}

    guard = guard_of(tmp_path, APPROVED, approver=lambda request: Approval("edit", {**request.args, "amount": 70}))
    agent = agent_of(guard, shop, tools=[PythonAgentTool("refund", Till(shop).tool_spec, pays)])
    with conversation("c1"):
        assert agent.tool.refund(order_id="W1", amount=500)["status"] == "success"
    assert shop.refunds == [("W1", 70)]


def test_background_tasks_are_judged(tmp_path: Path) -> None:
    """A tool in the background runs in the conversation of its run."""
    shop = Shop()
    tools = tools_of(shop, "refund")
    turns = (refund(500), refund(50), "wait", "done", "done", "done")
    agent = agent_of(guard_of(tmp_path, LIMIT), shop, *turns, tools=tools, background_tasks={"always": tools})
    ran(agent)
    assert shop.refunds == [("W1", 50)]


def test_a_background_task_is_shown_what_was_judged(tmp_path: Path) -> None:
    """Its context has the edited arguments, too."""
    shop = Shop()

    @tool(name="refund", context=True)
    def pays(order_id: str, amount: int, tool_context: Any) -> None:
        """Pays."""
        shop.refund(order_id, tool_context.tool_use["input"]["amount"])

    guard = guard_of(tmp_path, APPROVED, approver=lambda request: Approval("edit", {**request.args, "amount": 70}))
    background = {"always": [pays]}
    ran(agent_of(guard, shop, refund(500), "wait", "done", "done", tools=[pays], background_tasks=background))
    assert shop.refunds == [("W1", 70)]


def test_a_background_task_waits_for_a_reviewer(tmp_path: Path) -> None:
    """The host shows the call, and pays once there is an answer."""
    shop = Shop()
    tools = tools_of(shop, "refund")
    turns = (refund(500), "wait", "done", "done")
    guard = guard_of(tmp_path, APPROVED)
    agent = agent_of(guard, shop, *turns, tools=tools, background_tasks={"always": tools})
    waiting = ran(agent)
    assert "amount = 500" in str(waiting.interrupts[0].reason)
    assert shop.refunds == []
    ran(agent, answers_to(waiting, YES))
    assert shop.refunds == [("W1", 500)]


def test_agents_built_within_a_run_inherit_the_guard(tmp_path: Path) -> None:
    """The host's tool for sub-agents gives them the parent's interventions."""
    for form in ("intervention", "guarded"):
        shop, turns = Shop(), (refund(500), refund(50), "inner done")
        call = [("subagent", {"task": "pay", "instructions": "pay"})]
        agent = agent_of(
            guard_of(tmp_path, LIMIT),
            shop,
            call,
            *turns,
            "done",
            form=form,
            tools=[*tools_of(shop, "refund"), subagent],
        )
        ran(agent)
        assert shop.refunds == [("W1", 50)], form


def test_the_original_tools_are_not_changed(tmp_path: Path) -> None:
    """Another agent may use them without a guard."""
    shop = Shop()
    tools = tools_of(shop, "refund")
    ran(agent_of(guard_of(tmp_path, LIMIT), shop, refund(500), tools=tools))
    assert shop.refunds == []
    Agent(model=ScriptedModel([refund(500)]), tools=tools, callback_handler=None)("please")
    assert shop.refunds == [("W1", 500)]


# --- what a tool gets, and gives


def test_a_tool_gets_exactly_the_judged_values(tmp_path: Path) -> None:
    """Neither a serializer nor a validator that runs twice makes a difference between rule and tool."""
    shop = Shop()

    class Order(BaseModel):
        amount: int

        @field_serializer("amount")
        def shown(self, amount: int) -> int:
            return amount * 10

        @field_validator("amount")
        @classmethod
        def doubled(cls, amount: int) -> int:
            return amount * 2

    @tool
    def pay(order: Order) -> None:
        """Pays."""
        shop.refund("W1", order["amount"])  # type: ignore[index]  # the host gives the tool what it serializes

    rule = 'version: 1\npolicies:\n  - {id: limit, temporal: "forall(pay(order=o), o.amount <= 100)"}\n'
    calls = [[("pay", {"order": {"amount": amount}})] for amount in (50, 5)]
    ran(agent_of(guard_of(tmp_path, rule), shop, *calls, tools=[pay]))
    assert shop.refunds == [("W1", 100)]


def test_a_failed_result_is_a_failure(tmp_path: Path) -> None:
    """The error of a tool, and a result that the policy calls one, satisfy no rule; what was lost may have happened."""
    for failing in ("Error: no", ConnectionError("no"), {"status": "error", "content": [{"text": "no"}]}):
        shop = Shop()
        tools = [tool(name="authenticate")(_failing(failing)), *tools_of(shop, "refund")]
        ran(agent_of(guard_of(tmp_path, AUTHENTICATED), shop, [("authenticate", {})], refund(5), tools=tools))
        assert shop.refunds == [], failing


def _failing(failing: Any) -> Any:
    def authenticate() -> Any:
        """Lets a customer in."""
        if isinstance(failing, Exception):
            raise failing
        return failing

    return authenticate


@pytest.mark.parametrize("content", [None, "text", ["text"]])
def test_a_result_of_another_form_is_no_error_of_the_run(content: Any, tmp_path: Path) -> None:
    """A tool may return what the host's types do not allow; the host shows it to the model."""
    tools = [tool(_failing({"status": "success", "content": content}))]
    agent = agent_of(guard_of(tmp_path, LIMIT), Shop(), [("authenticate", {})], "done", tools=tools)
    assert str(ran(agent)).strip() == "done"


def test_a_stream_of_a_tool_is_shown_as_it_comes(tmp_path: Path) -> None:
    """The events of an allowed tool are in the stream; a denied one has none."""
    shop = Shop()
    agent = agent_of(guard_of(tmp_path, LIMIT), shop, refund(500), refund(50), "done", tools=[Till(shop)])
    datas = [
        agent_event["tool_stream_event"]["data"]
        for agent_event in asyncio.run(events_of(agent))
        if "tool_stream_event" in agent_event
    ]
    assert datas[0] == "paying"
    assert datas.count("paying") == 1


def test_a_real_server_is_guarded(tmp_path: Path) -> None:
    """A tool of an MCP server gets the judged arguments, and its errors count."""
    server = Path(__file__).parents[1] / "mcp" / "servers" / "plain.py"
    book = tmp_path / "book"
    command = StdioServerParameters(command=sys.executable, args=[str(server)], env={"SHOP": str(book)})
    guard = guard_of(tmp_path, LIMIT)
    with MCPClient(lambda: stdio_client(command)) as client:
        agent = agent_of(guard, Shop(), refund(500), refund("50"), refund(50), "done", tools=client.list_tools_sync())
        ran(agent)
    assert [json["status"] for json in results(agent)] == ["error", "error", "success"]
    assert [event.args["amount"] for event in guard.session("c1").history] == [50]
    assert [json.loads(line) for line in book.read_text().splitlines()] == [["refund", "W1", 50]]


# --- the final answer


class Answer(BaseModel):
    text: str


@FORMS
@pytest.mark.parametrize("kind", ["spoken", "structured", "stop", "delegated", "hook"])
def test_a_denied_answer_is_nowhere(kind: str, form: Form, tmp_path: Path) -> None:
    """Neither in the result, nor in the stream, nor at the callback, nor in the messages."""
    shop, printed = Shop(), list[Any]()
    turns: Any = {
        "spoken": [PIN],
        "structured": [[("Answer", {"text": PIN})], "sorry"],
        "stop": [[("stop", {"message": PIN})]],
        "delegated": [[("inner", {"input": "x"})]],
        "hook": [refund(5)],
    }[kind]
    inner = Agent(model=ScriptedModel([PIN]), name="inner", callback_handler=None)
    tools = [*tools_of(shop, "refund"), stop, inner.as_tool(delegate=True)]
    guard = guard_of(tmp_path, LIMIT, answers=NoSecrets())
    agent = agent_of(
        guard, shop, *turns, form=form, tools=tools, callback_handler=lambda **event: printed.append(event)
    )
    options: dict[str, Any] = {"structured_output_model": Answer} if kind == "structured" else {}
    events: list[Any] = []
    with contextlib.suppress(StructuredOutputException):  # there is no structured answer
        events = asyncio.run(events_of(agent, **options))
    shown = [
        {key: part for key, part in event.items() if key in ("data", "message", "result", "delta", "event")}
        for event in (*events, *printed)
    ]
    if kind != "stop":  # its arguments are a call, which the stream shows
        assert not LEAKED.search(f"{shown!r} {agent.messages!r}")
    if kind not in ("structured", "hook"):
        assert "withheld" in str(events[-1]["result"])
        assert not LEAKED.search(str(events[-1]["result"]))


def test_a_cancelled_stream_shows_no_text(tmp_path: Path) -> None:
    """The host's message says that it was cancelled, so that the text before was never judged."""
    guard = guard_of(tmp_path, LIMIT, answers=NoSecrets())
    agent = agent_of(guard, Shop(), PIN)
    plain = agent.model.stream

    async def cancelled(*args: Any, **options: Any) -> Any:
        async for chunk in plain(*args, **options):
            if "contentBlockStop" in chunk:
                agent.cancel()
            yield chunk

    agent.model.stream = cancelled
    events = asyncio.run(events_of(agent))
    assert events[-1]["result"].stop_reason == "cancelled"
    assert not LEAKED.search(str(events))


def test_a_denied_answer_is_not_in_the_session(tmp_path: Path) -> None:
    """The host's session manager never stores it; that of a hook is redacted there."""

    def ends(event: AfterToolsEvent) -> None:
        event.end_turn = PIN

    guard = guard_of(tmp_path, LIMIT, answers=NoSecrets())
    kinds: tuple[dict[str, Any], ...] = ({}, {"hooks": [ends]})
    for number, options in enumerate(kinds):
        manager = FileSessionManager(session_id=f"s{number}", storage_dir=str(tmp_path / "sessions"))
        turns: Any = [refund(5)] if options else [PIN]
        agent = agent_of(guard, Shop(), *turns, session_manager=manager, **options)
        assert "withheld" in str(agent("please"))
        stored = "".join(path.read_text() for path in (tmp_path / "sessions" / f"session_s{number}").rglob("*.json"))
        assert "withheld" in stored
        assert not LEAKED.search(stored)


def test_an_allowed_answer_is_judged_once_and_streamed(tmp_path: Path) -> None:
    """All words of it are in the stream, and a structured answer is in the result."""
    judged = list[str]()

    class Counting(NoSecrets):
        def guard(self, agent_input: str, output: str, facts: Any = None) -> Any:
            judged.append(output.strip())
            return super().guard(agent_input, output, facts)

    guard = guard_of(tmp_path, LIMIT, answers=Counting())
    events = asyncio.run(events_of(agent_of(guard, Shop(), refund(5), "all is well")))
    assert "".join(event["data"] for event in events if "data" in event).strip() == "all is well"
    agent = agent_of(guard, Shop(), [("Answer", {"text": "well"})])
    assert ran(agent, structured_output_model=Answer).structured_output == Answer(text="well")
    assert judged == ["all is well", '{"text": "well"}']


@pytest.mark.filterwarnings("ignore:Agent.structured_output:DeprecationWarning")
def test_the_deprecated_structured_output_is_refused(tmp_path: Path) -> None:
    """It asks the model behind the host's own stages; agents whose answers are judged refuse it."""
    for form in ("intervention", "guarded"):
        guard = guard_of(tmp_path, LIMIT, answers=NoSecrets())
        agent = agent_of(guard, Shop(), json.dumps({"text": PIN}), form=form)
        with pytest.raises(InputError, match="structured_output_model"), conversation("c1"):
            agent.structured_output(Answer, "please")


# --- teams


def test_a_denied_hand_off_stays_with_its_agent(tmp_path: Path) -> None:
    """A swarm's hand-off is the event `handoff(to=...)`; its session manager names the conversation."""
    rule = "version: 1\npolicies:\n  - {id: stay, temporal: \"forall(handoff(to=t), t != 'second')\"}\n"
    call = [("handoff_to_agent", {"agent_name": "second", "message": "x"})]
    first = Agent(model=ScriptedModel([call, "mine"]), name="first", callback_handler=None)
    second = Agent(model=ScriptedModel(["yours"]), name="second", callback_handler=None)
    manager = FileSessionManager(session_id="team-1", storage_dir=str(tmp_path))
    swarm = guarded(Swarm([first, second], session_manager=manager), guard_of(tmp_path, rule))
    assert [node.node_id for node in swarm("please").node_history] == ["first"]
    assert "names no conversation" not in str(results(first))


def test_the_agents_of_a_team_share_their_replans(tmp_path: Path) -> None:
    """The user speaks to the team, and not to each agent in it."""
    builder, models = GraphBuilder(), [ScriptedModel([refund(500), refund(501), "done"]) for _ in range(2)]
    for name, model in zip("ab", models, strict=True):
        builder.add_node(Agent(model=model, tools=tools_of(Shop(), "refund"), callback_handler=None), name)
    builder.add_edge("a", "b")
    result = ran(guarded(builder.build(), guard_of(tmp_path, LIMIT)))
    assert "control returns to the user" in str(result.results["b"].result)


def test_a_halt_ends_a_team(tmp_path: Path) -> None:
    """The host reports the halted node as failed, and nobody takes over."""
    shop, hand_over = Shop(), [("handoff_to_agent", {"agent_name": "second", "message": "x"}), ("wire", {"amount": 5})]
    options = {"tools": tools_of(shop, "refund", "wire"), "callback_handler": None}
    first = Agent(model=ScriptedModel([hand_over, "over"]), name="first", **options)
    second = Agent(model=ScriptedModel([refund(5)]), name="second", **options)
    result = ran(guarded(Swarm([first, second]), guard_of(tmp_path, HALTED)))
    assert result.status.value == "failed"
    assert (shop.wired, shop.refunds) == ([], [])


def test_a_graph_and_an_interrupt_in_a_swarm(tmp_path: Path) -> None:
    """The agents of both share the conversation; an answer to a swarm pays once."""
    shop, guard = Shop(), guard_of(tmp_path, AT_MOST_ONE)
    builder = GraphBuilder()
    for name in ("a", "b"):
        node = Agent(model=ScriptedModel([refund(5), "done"]), tools=tools_of(shop, "refund"), callback_handler=None)
        builder.add_node(node, name)
    builder.add_edge("a", "b")
    with conversation("c1"):
        guarded(builder.build(), guard)("please")
    assert shop.refunds == [("W1", 5)]
    payer = Agent(
        model=ScriptedModel([refund(500), "done"]), tools=tools_of(shop, "refund"), name="payer", callback_handler=None
    )
    swarm = guarded(Swarm([payer]), guard_of(tmp_path, APPROVED))
    waiting = ran(swarm)
    assert shop.refunds == [("W1", 5)]
    ran(swarm, answers_to(waiting, YES))
    assert shop.refunds == [("W1", 5), ("W1", 500)]


# --- attaching


def test_what_cannot_be_guarded_is_refused(tmp_path: Path) -> None:
    """A misspelt rule, a second guard, what is no agent or half one, and arguments that no rule can read."""

    @tool
    def pays(order_id: str, secret: SecretStr) -> str:
        """Pays."""
        return order_id

    class Half(Agent):
        def __init__(self) -> None:
            self.name = "half"

        def __del__(self) -> None: ...

    guard = guard_of(tmp_path, LIMIT)
    agent = agent_of(guard, Shop(), form="guarded")
    assert guarded(agent, guard) is agent
    for target, message in (
        (agent, "another guard"),
        (object(), "expected an Agent"),
        (Half(), "_middleware_registry"),
    ):
        with pytest.raises(InputError, match=message):
            guarded(target, guard_of(tmp_path, LIMIT))
    with pytest.raises(InputError, match="did you mean 'refund'"):
        agent_of(guard_of(tmp_path, MISSPELT), Shop(), form="guarded")
    with pytest.raises(InputError, match="no lossless form"):
        agent_of(guard_of(tmp_path, LIMIT), Shop(), tools=[pays], form="guarded")


def test_an_intervention_that_cannot_attach_lets_nothing_run(tmp_path: Path) -> None:
    """A misspelt rule fails each run and each direct call."""
    shop = Shop()
    agent = agent_of(guard_of(tmp_path, MISSPELT), shop, refund(50), refund(50))
    for _ in range(2):
        with pytest.raises(Exception, match="did you mean 'refund'"):
            ran(agent)
        with pytest.raises(Exception, match="did you mean 'refund'"), conversation("c1"):
            agent.tool.refund(order_id="W1", amount=50)
    assert shop.refunds == []


@pytest.mark.parametrize(
    "config",
    [
        {"anthropic_tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"params": {"tools": [{"type": "web_search"}]}},
        {"params": {"web_search_options": {}}},
    ],
)
def test_tools_of_the_provider_are_refused(config: dict[str, Any], tmp_path: Path) -> None:
    """Unless the operator names them. A model that the agent gets later is checked, too."""
    guard = guard_of(tmp_path, LIMIT)
    with pytest.raises(InputError, match="runs at the provider"):
        guarded(Agent(model=ScriptedModel([], **config), callback_handler=None), guard)
    named = Agent(model=ScriptedModel(["hello"], cache_tools="default", **config), callback_handler=None)
    guarded(named, guard, unguarded={"web_search", "web_search_options"})
    assert str(ran(named)).strip() == "hello"
    agent = agent_of(guard, Shop(), "hello", form="guarded")
    agent.model = ScriptedModel(["hello"], **config)
    with pytest.raises(InputError, match="runs at the provider"):
        ran(agent)


def test_an_executor_of_another_kind_is_refused(tmp_path: Path) -> None:
    """It may run tools by itself; also one that the agent gets later."""
    shop = Shop()

    class Own(SequentialToolExecutor):
        async def _execute(self, agent: Any, tool_uses: Any, tool_results: Any, *args: Any, **kwargs: Any) -> Any:
            for tool_use in tool_uses:
                async for event in agent.tool_registry.registry[tool_use["name"]].stream(tool_use, {}):
                    tool_results.append(event["tool_result"])
                    yield event

    with pytest.raises(InputError, match="tool_executor is a Own"):
        agent_of(guard_of(tmp_path, LIMIT), shop, form="guarded", tool_executor=Own())
    agent = agent_of(guard_of(tmp_path, LIMIT), shop, refund(500), form="guarded")
    agent.tool_executor = Own()
    with pytest.raises(InputError, match="tool_executor is a Own"):
        ran(agent)
    assert shop.refunds == []


def test_nodes_that_run_elsewhere_are_refused(tmp_path: Path) -> None:
    """A remote agent in a graph is no node for this guard, unless the operator names it."""

    class Remote:
        async def invoke_async(self, prompt: Any = None, **kwargs: Any) -> Any: ...

        def __call__(self, prompt: Any = None, **kwargs: Any) -> Any: ...

        def stream_async(self, prompt: Any = None, **kwargs: Any) -> Any: ...

    def graph() -> Any:
        builder = GraphBuilder()
        builder.add_node(Remote(), "far")
        return builder.build()

    with pytest.raises(InputError, match="'far' is a Remote"):
        guarded(graph(), guard_of(tmp_path, LIMIT))
    assert guarded(graph(), guard_of(tmp_path, LIMIT), unguarded={"far"}) is not None


def test_one_guard_sees_the_history_of_all_agents(tmp_path: Path) -> None:
    """An agent that is built per request continues the conversation."""
    shop, guard = Shop(), guard_of(tmp_path, AT_MOST_ONE)
    for _ in range(3):
        ran(agent_of(guard, shop, refund(5), "done"))
    assert shop.refunds == [("W1", 5)]
