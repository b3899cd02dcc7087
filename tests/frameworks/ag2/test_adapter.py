"""AG2: what guarded agents really do, with a model that follows a script."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest

pytest.importorskip("ag2.events")

from ag2 import Agent, Context, Depends
from ag2.agent import TaskConfig
from ag2.events import BaseEvent, ToolErrorEvent, ToolResultsEvent
from ag2.stream import MemoryStream
from ag2.tools import Toolkit, ToolResult, tool
from ag2.tools.builtin.web_search import WebSearchTool
from ag2.tools.code import SandboxCodeTool
from ag2.tools.dynamic import dynamic_agent
from ag2.tools.final.client_tool import ClientTool
from ag2.tools.final.function_tool import FunctionTool
from ag2.tools.sandbox import LocalEnvironment
from ag2.tools.subagents import background_agent_tool
from ag2.tools.tool import Tool
from pydantic import BaseModel, SecretStr, field_serializer

from guardagent.enforcement import ApprovalRequest, ToolGuard
from guardagent.errors import InputError
from guardagent.frameworks.ag2 import AskHalted, conversation, guarded, stream_id
from guardagent.testing.conformance.host import NoSecrets
from tests.frameworks.ag2.scripted_config import ScriptedConfig, Turn
from tests.frameworks.guarded_runs import Ran, guarded_run_test, refund
from tests.frameworks.scenarios import APPROVED, AT_MOST_ONE, AUTHENTICATED, HALTED, LIMIT, MISSPELT, Shop, guard_of

PIN = "The PIN is 47x11."
PAY = "version: 1\npolicies:\n  - {id: limit, temporal: 'forall(pay(money=m), m.amount <= 100)'}\n"


def plain(shop: Shop, *turns: Turn, name: str = "clerk", tools: Any = None, **options: Any) -> Any:
    """Returns an agent with the shop's tools, without a guard."""
    tools = [shop.refund, shop.wire, shop.authenticate] if tools is None else tools
    return Agent(name, config=ScriptedConfig(turns), tools=tools, **options)


def awaited_refund(shop: Shop) -> Any:
    """Returns an async tool; the host would copy the shop of a method along with it."""

    async def refund(order_id: str, amount: int = 500) -> str:
        return await shop.arefund(order_id, amount)

    return tool(refund)


def agent_of(guard: ToolGuard, shop: Shop, *turns: Turn, **options: Any) -> Any:
    """As `plain`, with a guard."""
    return guarded(plain(shop, *turns, **options), guard)


def ran(agent: Any, name: str = "c1", **options: Any) -> Any:
    """Runs an agent. Returns its answer."""

    async def run() -> Any:
        with conversation(name):
            return await asyncio.wait_for(agent.ask("please", **options), 20)

    return asyncio.run(run()).body


def outputs(agent: Any) -> list[Any]:
    """Returns the results of calls that the model has read last."""
    return results_in(agent.config.read[-1])


def results_in(events: Any) -> list[Any]:
    return [result for event in events if isinstance(event, ToolResultsEvent) for result in event.results]


def reasons(agent: Any) -> list[str]:
    """Returns the errors among the results that the model has read last."""
    return [str(output.error) for output in outputs(agent) if isinstance(output, ToolErrorEvent)]


def run(guard: ToolGuard, shop: Shop, *turns: Turn, named: str | None = "c1", awaited: bool = False) -> Ran:
    """Runs a guarded agent."""
    tools = [awaited_refund(shop) if awaited else shop.refund, shop.wire, shop.authenticate]
    agent = agent_of(guard, shop, *turns, tools=tools)
    answer = asyncio.run(agent.ask("please")).body if named is None else ran(agent, named)
    read = [[str(getattr(result, "error", result)) for result in results_in(events)] for events in agent.config.read]
    return Ran(answer, ["\n".join(texts) for texts in read], [isinstance(r, ToolErrorEvent) for r in outputs(agent)])


test_guarded_run = guarded_run_test({"agent": run}, AskHalted, written=True)


# --- denials


@pytest.mark.parametrize("kind", ["agent", "sub-agent", "subtask"])
def test_a_halt_ends_the_turn(kind: str, tmp_path: Path) -> None:
    """`ask` raises it, also from an agent that a tool runs; afterwards nothing runs in this conversation."""
    shop, guard = Shop(), guard_of(tmp_path, HALTED)
    agent = plain(shop, [("wire", {"amount": 5})], refund(50), "paid")
    if kind == "sub-agent":
        helper = agent.as_tool(description="helps", name="helper")
        agent = plain(shop, [("helper", {"objective": "go"})], refund(50), "x", tools=[helper, shop.refund])
    if kind == "subtask":
        config = ScriptedConfig([[("wire", {"amount": 5})], "done"])
        turns: list[Turn] = [[("run_subtask", {"task": "go"})], refund(50), "x"]
        agent = plain(shop, *turns, tasks=TaskConfig(config=config))
    with pytest.raises(AskHalted, match="No money leaves the bank"):
        ran(guarded(agent, guard))
    later = agent_of(guard, shop, refund(50), "sorry")
    ran(later)
    assert "halted" in reasons(later)[0]
    assert (shop.wired, shop.refunds) == ([], [])


def test_a_turn_without_a_conversation_is_denied(tmp_path: Path) -> None:
    """The denial explains what to do; the id of the stream names it if the operator says so."""
    shop, guard = Shop(), guard_of(tmp_path, LIMIT)
    agent = agent_of(guard, shop, refund(5), "sorry")
    asyncio.run(agent.ask("please"))
    assert "names no conversation" in reasons(agent)[0]
    named = guarded(plain(shop, refund(6), "paid", refund(7), "paid"), guard, conversation=stream_id)

    async def run() -> str:
        stream = MemoryStream()
        reply = await named.ask("please", stream=stream)
        await reply.ask("again")
        return str(stream.id)

    assert len(guard.session(asyncio.run(run())).history) == 2
    assert shop.refunds == [("W1", 6), ("W1", 7)]


# --- approvals


def _deciding(decision: Any, shown: list[str]) -> Any:
    """Returns a hook of the host that decides in this way."""

    async def hook(event: Any) -> str:
        shown.append(event.content)
        return json.dumps(decision)

    return hook


def test_a_person_decides_and_edits(tmp_path: Path) -> None:
    """The hook of the host asks: an approval pays once, an edit what the rules allow."""
    for decision, paid in (
        ({"choice": "approve"}, [("W1", 500)]),
        ({"choice": "edit", "args": {"order_id": "W1", "amount": 60}}, [("W1", 60)]),
        ({"choice": "edit", "args": {"order_id": "W1", "amount": 5000}}, []),
        ({"choice": "edit", "args": {"order_id": "W1", "amount": 60, "more": 1}}, []),
        ({"choice": "edit", "args": {"order_id": "W1", "amount": "much"}}, []),
        ({"choice": "reject", "reason": "too much"}, []),
        ("gibberish", []),
    ):
        shop, shown = Shop(), list[str]()
        hook = _deciding(decision, shown)
        ran(agent_of(guard_of(tmp_path, APPROVED), shop, refund(500), "done", hitl_hook=hook))
        assert shop.refunds == paid, decision
        assert len(shown) == 1
        assert "amount = 500" in shown[0]


def test_a_plain_yes_approves_and_silence_does_not(tmp_path: Path) -> None:
    """As with the host's own `approval_required`; without a hook, or if it raises, the call is denied."""

    def fails(_: Any) -> str:
        raise ConnectionError("nobody is there")

    for hook, paid in ((lambda _: "Yes", [("W1", 500)]), (lambda _: "always", []), (fails, []), (None, [])):
        shop = Shop()
        agent = agent_of(guard_of(tmp_path, APPROVED), shop, refund(500), "done", hitl_hook=hook)
        assert ran(agent) == "done"
        assert shop.refunds == paid


# --- arguments


class Money(BaseModel):
    """Hides its amount from its own serializer."""

    amount: int

    @field_serializer("amount")
    def hidden(self, value: int) -> int:
        return 0


def test_a_serializer_hides_nothing_from_the_rules(tmp_path: Path) -> None:
    """The rules see the attribute that the tool reads; types that hide their value are refused."""
    paid = list[int]()

    def pay(money: Money) -> str:
        paid.append(money.amount)
        return "paid"

    def hidden(secret: SecretStr) -> str:
        return "x"

    turns = [[("pay", {"money": {"amount": amount}})] for amount in (500, 50)]
    ran(agent_of(guard_of(tmp_path, PAY), Shop(), *turns, "done", tools=[pay]))
    assert paid == [50]
    with pytest.raises(InputError, match="no lossless form"):
        agent_of(guard_of(tmp_path, LIMIT), Shop(), tools=[hidden])


def test_the_tool_gets_copies_of_what_was_judged(tmp_path: Path) -> None:
    """A model that keeps its argument, and changes it later, does not change the call."""
    kept, paid = list[Any](), list[Any]()

    class Kept(Money):
        def model_post_init(self, _: Any) -> None:
            kept.append(self)

    def approve(request: ApprovalRequest) -> bool:
        for payment in kept:
            payment.amount = 999
        return True

    def pay(money: Kept) -> str:
        paid.append(money.amount)
        return "paid"

    asks = PAY.replace("<= 100", "> 100").replace("'}", "', on_violation: escalate}")
    guard = guard_of(tmp_path, asks, approver=approve)
    ran(agent_of(guard, Shop(), [("pay", {"money": {"amount": 50}})], "done", tools=[pay]))
    assert paid == [50]


def test_a_model_cannot_pass_what_the_host_fills_in(tmp_path: Path) -> None:
    """The host lets an argument of that name replace its dependency; the guard does not."""
    shop, callers = Shop(), list[str]()

    def current_user() -> str:
        return "ann"

    def pay(amount: int, user: Annotated[str, Depends(current_user)], ctx: Context) -> str:
        callers.append(user)
        return shop.refund(user, amount)

    calls = [("pay", {"amount": 5, "user": "root"}), ("pay", {"amount": 5, "ctx": {}}), ("pay", {"amount": 5})]
    agent = agent_of(guard_of(tmp_path, LIMIT), shop, *[[call] for call in calls], "done", tools=[pay])
    ran(agent)
    assert callers == ["ann"]
    assert len(reasons(agent)) == 2


def test_what_a_middleware_changes_is_judged(tmp_path: Path) -> None:
    """The guard stands behind the middlewares of the tool and of the agent."""
    shop = Shop()

    async def raises(call_next: Any, event: Any, context: Any) -> Any:
        event._serialized_arguments = {"order_id": "W1", "amount": 500}
        return await call_next(event, context)

    ran(agent_of(guard_of(tmp_path, LIMIT), shop, refund(50), "done", tools=[tool(shop.refund, middleware=[raises])]))
    assert shop.refunds == []


# --- ways to run a tool


def test_every_kind_of_tool_is_judged(tmp_path: Path) -> None:
    """A function, a tool, an async one, toolkits in toolkits, tools of one turn, and those that come later."""
    kinds = ("function", "tool", "async", "toolkit", "nested", "of one turn", "later", "plugin member")
    for kind in kinds:
        shop, default = Shop(), [("refund", {"order_id": "W1"})]
        pays = awaited_refund(shop) if kind == "async" else tool(shop.refund)
        tools: list[Any] = [shop.refund] if kind == "function" else [pays]
        if kind in ("toolkit", "plugin member"):
            tools = [Toolkit(pays)]
        if kind == "nested":
            tools = [Toolkit(Toolkit(pays, name="inner"), name="outer")]
        late = kind in ("of one turn", "later")
        guard = guard_of(tmp_path, LIMIT)
        agent = agent_of(guard, shop, refund(500), default, refund(50), "done", tools=[] if late else tools)
        if kind == "later":
            agent.add_tool(shop.refund)
        if kind == "plugin member":
            next(tool for tool in agent.tools if isinstance(tool, Toolkit))._add_tool(shop.wire)
        turn: dict[str, Any] = {"tools": tools} if kind == "of one turn" else {}
        assert ran(agent, **turn) == "done"
        assert shop.refunds == [("W1", 50)], kind
        assert [event.status for event in guard.session("c1").history] == ["ok"]


@pytest.mark.parametrize("kind", ["sub-agent", "subtask", "background"])
def test_agents_in_tools_are_guarded(kind: str, tmp_path: Path) -> None:
    """They share the conversation, whatever they name."""
    shop, guard = Shop(), guard_of(tmp_path, AT_MOST_ONE)
    turns: list[Turn] = [refund(60), refund(70, "W2"), "done"]
    helper = plain(shop, *turns, name="helper")
    options: dict[str, Any] = {}
    extra: Any = helper.as_tool(description="helps", name="delegate")
    args = {"objective": "go"}
    if kind == "background":
        extra = background_agent_tool(helper, description="helps", name="delegate")
    if kind == "subtask":
        options = {"tasks": TaskConfig(config=ScriptedConfig(turns))}
    tools = [shop.refund, *([] if kind == "subtask" else [extra])]
    call = [("run_subtask", {"task": "go"})] if kind == "subtask" else [("delegate", args)]
    agent = agent_of(guard, shop, refund(50), call, "done", tools=tools, **options)

    async def run() -> None:
        with conversation("c1"):
            await agent.ask("please")
        await asyncio.sleep(0.3)  # the background ends

    asyncio.run(run())
    assert shop.refunds == [("W1", 50), ("W2", 70)]


def test_a_subtask_inherits_no_unguarded_tool(tmp_path: Path) -> None:
    """Tools that the agent gets after its guard are guarded in its subtasks, too."""
    shop = Shop()
    tasks = TaskConfig(config=ScriptedConfig([refund(500), [("pay", {"order_id": "W1"})]]), extra_tools=[])
    guard = guard_of(tmp_path, LIMIT, aliases={"pay": "refund"})
    agent = agent_of(guard, shop, [("run_subtask", {"task": "go"})], tools=[], tasks=tasks)
    agent.tool(shop.refund)
    agent.tasks.extra_tools.append(tool(shop.refund, name="pay"))
    ran(agent)
    assert shop.refunds == []


def test_sandboxed_code_is_a_call(tmp_path: Path) -> None:
    """The function inside the tool is judged."""
    rule = "version: 1\npolicies:\n  - {id: r, temporal: 'forall(run_code(code=c), c matches /print.*/)'}\n"
    code = SandboxCodeTool(LocalEnvironment(str(tmp_path)), languages=("python",))
    written = f"open({str(tmp_path / 'made')!r}, 'w')"
    calls = [("run_code", {"code": text, "language": "python"}) for text in (written, "print(6 * 7)")]
    agent = agent_of(guard_of(tmp_path, rule), Shop(), *[[call] for call in calls], "done", tools=[code])
    assert ran(agent) == "done"
    assert not (tmp_path / "made").exists()
    assert len(reasons(agent)) == 1
    assert "42" in str(outputs(agent)[-1].result)


def test_tools_of_an_mcp_server(tmp_path: Path) -> None:
    """A real server: its calls are judged, its errors are failures, and what it adds later needs the operator."""
    pytest.importorskip("mcp.server.mcpserver")
    toolkits = pytest.importorskip("ag2.tools.toolkits.mcp_server", exc_type=ImportError)
    book, guard = tmp_path / "book", guard_of(tmp_path, AUTHENTICATED + LIMIT.split("policies:")[1])
    (tmp_path / "server.py").write_text(_SERVER.format(book=str(book)))

    def served(token: str) -> Any:
        args = [str(tmp_path / "server.py")]
        config = toolkits.MCPStdioServerConfig(command=sys.executable, args=args, env={"TOKEN": token})
        return toolkits.MCPToolkit(config)

    login, bad = [("authenticate", {"email": "a"})], [("authenticate", {"email": "a", "code": "bad"})]
    turns: list[Turn] = [bad, refund(50), login, refund(500), [("refund", {"order_id": "W1"})], refund(50), "done"]
    agent = agent_of(guard, Shop(), *turns, tools=[served("1")])
    assert ran(agent) == "done"
    assert book.read_text().split() == ["W1:50"]
    (tmp_path / "server.py").write_text(_SERVER.format(book=str(book)).replace("# more", _MORE))
    later = agent_of(guard, Shop(), [("payout", {})], "done", tools=[served("2")])
    ran(later)
    assert "is new" in reasons(later)[0]
    assert book.read_text().split() == ["W1:50"]


_SERVER = '''
from mcp.server.mcpserver import MCPServer

server = MCPServer("shop")


@server.tool()
def authenticate(email: str, code: str = "right") -> str:
    """Logs in."""
    if code != "right":
        raise ValueError("wrong code")
    return "welcome"


@server.tool()
def refund(order_id: str, amount: int = 500) -> str:
    """Pays."""
    with open({book!r}, "a") as book:
        book.write(f"{{order_id}}:{{amount}} ")
    return "refunded"


# more
server.run()
'''
_MORE = "@server.tool()\ndef payout() -> str:\n    return refund('W9', 999)\n\n"


def test_work_that_has_not_been_done_is_no_success(tmp_path: Path) -> None:
    """A tool that returns a coroutine has not logged anybody in."""
    shop = Shop()

    def authenticate(email: str) -> Any:
        async def later() -> str:
            return "welcome"

        return later()

    turns: list[Turn] = [[("authenticate", {"email": "a"})], refund(5), "done"]
    ran(agent_of(guard_of(tmp_path, AUTHENTICATED), shop, *turns, tools=[authenticate, shop.refund]))
    assert shop.refunds == []


def test_errors_of_tools_are_failures(tmp_path: Path) -> None:
    """A login that raises does not authenticate; the turn goes on."""
    shop = Shop()

    def authenticate(email: str) -> str:
        raise ConnectionError("no answer")

    turns: list[Turn] = [[("authenticate", {"email": "a"})], refund(5), "done"]
    guard = guard_of(tmp_path, AUTHENTICATED)
    assert ran(agent_of(guard, shop, *turns, tools=[authenticate, shop.refund])) == "done"
    assert shop.refunds == []
    assert [event.status for event in guard.session("c1").history] == ["failed"]


# --- the final answer


class Answer(BaseModel):
    text: str


@pytest.mark.parametrize("kind", ["spoken", "tool", "schema"])
def test_a_denied_answer_is_nowhere(kind: str, tmp_path: Path) -> None:
    """Neither in the reply, nor in an event of the stream, nor in the history."""
    turns: list[Turn] = [PIN]

    def look() -> Any:
        return ToolResult("The code is 47x11, as it were.", final=True)

    options: dict[str, Any] = {}
    if kind == "tool":
        turns = [[("look", {})], "I cannot say"]
    if kind == "schema":
        turns, options = [json.dumps({"text": PIN})], {"response_schema": Answer}
    guard = guard_of(tmp_path, LIMIT, answers=NoSecrets())
    agent = agent_of(guard, Shop(), *turns, tools=[tool(look)], **options)
    events = list[Any]()

    async def show(event: BaseEvent) -> None:
        events.append(event)

    async def run() -> Any:
        stream = MemoryStream()
        with conversation("c1"), stream.sub_scope(show):
            reply = await agent.ask("please", stream=stream)
        return reply.body, await stream.history.get_events()

    body, history = asyncio.run(run())
    assert "47x11" not in f"{body} {history!r} {events!r}"
    assert ("I cannot say" if kind == "tool" else "withheld") in body


def test_an_answer_of_a_sub_agent_is_not_the_users(tmp_path: Path) -> None:
    """It is for the agent that called it."""
    inner = plain(Shop(), PIN, name="inner", tools=[])
    call = [("inner", {"objective": "look"})]
    tools = [inner.as_tool(description="looks", name="inner")]
    guard = guard_of(tmp_path, LIMIT, answers=NoSecrets())
    assert ran(agent_of(guard, Shop(), call, "I know it", tools=tools)) == "I know it"


# --- attaching


class Loner(Tool):
    """A tool of another class."""

    name = "loner"

    async def schemas(self, context: Any) -> list[Any]:
        return []


def test_what_cannot_be_guarded_is_refused(tmp_path: Path) -> None:
    """A misspelt rule, a second guard, tools of the provider and of clients, and agents that a model makes up."""
    shop, guard = Shop(), guard_of(tmp_path, LIMIT)
    agent = agent_of(guard, shop)
    assert guarded(agent, guard) is agent
    made_up = dynamic_agent(available_tools=[shop.refund], config=ScriptedConfig([]))

    def by_position(*amounts: int) -> str:
        return "x"

    class Own(FunctionTool):
        async def __call__(self, event: Any, context: Any) -> Any:
            return await super().__call__(event, context)

    own = Own(tool(shop.refund).model, name="refund", description="d", schema={})
    client = ClientTool({"function": {"name": "pay", "parameters": {}}})
    for target, message in (
        (agent, "another guard"),
        (object(), "expected an Agent"),
        (plain(shop, tools=[agent.tools[0]]), "another guard"),
        (plain(shop, tools=[WebSearchTool()]), "runs elsewhere"),
        (plain(shop, tools=[client]), "runs elsewhere"),
        (plain(shop, tools=[Loner()]), "runs elsewhere"),
        (plain(shop, tools=[own]), "a way of its own"),
        (plain(shop, tools=[made_up]), "makes agents"),
        (plain(shop, tools=[by_position]), "by position"),
    ):
        with pytest.raises(InputError, match=message):
            guarded(target, guard_of(tmp_path, LIMIT))
    with pytest.raises(InputError, match="did you mean 'refund'"):
        agent_of(guard_of(tmp_path, MISSPELT), shop)
    named = guarded(plain(shop, "x", tools=[Loner()]), guard_of(tmp_path, LIMIT), unguarded=["loner"])
    assert ran(named) == "x"


def test_tools_of_one_turn_that_cannot_be_guarded_end_it(tmp_path: Path) -> None:
    """Before the model is asked."""
    shop = Shop()
    agent = agent_of(guard_of(tmp_path, LIMIT), shop, refund(50), "done")
    with pytest.raises(InputError, match="runs elsewhere"):
        ran(agent, tools=[Loner()])
    assert (shop.refunds, agent.config.read) == ([], [])


def test_the_original_tools_are_not_changed(tmp_path: Path) -> None:
    """Another agent may use them without a guard."""
    shop = Shop()
    pays = tool(shop.refund)
    agent_of(guard_of(tmp_path, LIMIT), shop, tools=[pays])
    ran(plain(shop, refund(500), "done", tools=[pays]))
    assert shop.refunds == [("W1", 500)]
