"""Claude Agent SDK: what sessions of the SDK's own program really do, with a model that follows a script."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import typing
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk")

import claude_agent_sdk
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, HookMatcher, create_sdk_mcp_server
from mcp.server import Server

from guardagent.enforcement import ToolGuard
from guardagent.errors import InputError
from guardagent.frameworks.claude_agent_sdk import GuardedClient, conversation, guarded, query
from guardagent.testing.conformance.host import NoSecrets
from guardagent.types import thaw
from tests.frameworks.claude_agent_sdk.messages_server import messages_server
from tests.frameworks.claude_agent_sdk.sessions import REFUND as SCHEMA
from tests.frameworks.claude_agent_sdk.sessions import offline, shop_options, tool_of
from tests.frameworks.scenarios import (
    APPROVED,
    ASKS,
    AT_MOST_ONE,
    HALTED,
    LIMIT,
    MISSPELT,
    Shop,
    broken_rules,
    guard_of,
    policy_file,
)

pytestmark = pytest.mark.slow  # each run starts the program
REFUND, WIRE = "mcp__shop__refund", "mcp__shop__wire"
ALIASES = {REFUND: "refund", WIRE: "wire"}
NO_TOUCH = """
version: 1
policies:
  - id: no_touch
    temporal: 'forall(Bash(command=c), !(c matches /(?s:.*)forbidden(?s:.*)/))'
    message: Leave it alone.
"""
Turns = Sequence[Any]


def refund(amount: Any, order_id: str = "W1", **more: Any) -> list[tuple[str, Any]]:
    return [(REFUND, {"order_id": order_id, "amount": amount, **more})]


def bash(command: str) -> list[tuple[str, Any]]:
    return [("Bash", {"command": command})]


TOUCH_CHANGED = {"command": "touch changed"}
CUT_OFF = [("Bash", {"command": "sleep 5", "timeout": 300})]


class Ran:
    """The session's deeds.

    Attributes:
        messages: those that its reader got.
        requests: those that its model got.
    """

    def __init__(self, messages: list[Any], requests: list[Any]) -> None:
        self.messages, self.requests = messages, requests

    @property
    def result(self) -> Any:
        return next(
            message for message in reversed(self.messages) if isinstance(message, claude_agent_sdk.ResultMessage)
        )

    @property
    def shown(self) -> str:
        """All that the user sees: all but the results of tools."""
        return "".join(
            str(message) for message in self.messages if not isinstance(message, claude_agent_sdk.UserMessage)
        )


def ran(guard: Any, home: Path, turns: Turns, shop: Shop | None = None, **options: Any) -> Ran:
    """Runs a guarded session with a shop.

    Args:
        guard: the guard.
        home: the folder that the program sees.
        turns: what the model says.
        shop: the shop.
        options: `reader` is the function that reads the session, `named` and `unguarded` those of `guarded`, `inner`
            the turns of the model in a sub-agent (its prompt is `script:inner`); the others are those of the SDK.
    """
    return asyncio.run(aran(guard, home, turns, shop, **options))


async def aran(guard: Any, home: Path, turns: Turns, shop: Shop | None = None, **options: Any) -> Ran:
    """As `ran`."""
    read, own_shop = options.pop("reader", query), shop or Shop()
    attached = {"conversation": options.pop("named", None), "unguarded": options.pop("unguarded", ())}
    tools = {"refund": own_shop.arefund, "wire": _awaited(own_shop.wire)}
    with messages_server({"k": turns, "inner": options.pop("inner", ())}) as model:
        made = shop_options(model.url, home, tools, **{"tools": ["Bash", "Agent"], **options})
        made.allowed_tools += ["Bash", "Agent"] if "allowed_tools" not in options else []
        made = guarded(made, guard, **attached)
        messages = [message async for message in read(prompt="script:k", options=made)]
    return Ran(messages, [json.dumps(request["messages"]) for request in model.requests])


def _awaited(function: Any) -> Any:
    async def call(**args: Any) -> Any:
        return function(**args)

    return call


# --- denials


def test_a_denied_refund_is_replanned(tmp_path: Path) -> None:
    """500 is denied with the reason and the remedy, 50 is paid, and the run continues to its answer."""
    shop = Shop()
    outcome = ran(guard_of(tmp_path, LIMIT, aliases=ALIASES), tmp_path, [refund(500), refund(50), "paid"], shop)
    assert (shop.refunds, outcome.result.result) == ([("W1", 50)], "paid")
    assert "refund 100 or less" in outcome.requests[1]


def test_after_three_replans_control_returns_to_the_user(tmp_path: Path) -> None:
    """The denials of one message count once; the fourth message ends the run; the next prompt starts from zero."""
    shop, guard = Shop(), guard_of(tmp_path, LIMIT, aliases=ALIASES)
    guard_ran = ran(guard, tmp_path, [[*refund(501 + n), *refund(601 + n)] for n in range(6)], shop, named="c1")
    assert "control returns to the user" in guard_ran.result.result
    assert (guard_ran.result.is_error, len(guard_ran.requests)) == (True, 4)
    assert ran(guard, tmp_path, [refund(500), refund(50), "paid"], shop, named="c1").result.result == "paid"
    assert shop.refunds == [("W1", 50)]


def test_a_halt_ends_the_run(tmp_path: Path) -> None:
    """Nothing of its message runs, the model is not asked again, and nothing runs afterwards."""
    shop, guard = Shop(), guard_of(tmp_path, HALTED, aliases=ALIASES)
    guard_ran = ran(guard, tmp_path, [[(WIRE, {"amount": 5}), *refund(50)], refund(50), "paid"], shop, named="c1")
    assert "No money leaves the bank" in guard_ran.result.result
    assert len(guard_ran.requests) == 1
    assert "halted" in ran(guard, tmp_path, [refund(50), "paid"], shop, named="c1").requests[1]
    assert (shop.wired, shop.refunds) == ([], [])


def test_a_halt_in_a_sub_agent_ends_the_run_around_it(tmp_path: Path) -> None:
    """The model of the agent around it is not asked again."""
    shop, guard = Shop(), guard_of(tmp_path, HALTED, aliases=ALIASES)
    agent = [("Agent", {"description": "d", "prompt": "script:inner", "subagent_type": "general-purpose"})]
    guard_ran = ran(guard, tmp_path, [agent, refund(5), "fine"], shop, inner=[[(WIRE, {"amount": 1})], "done"])
    assert (len(guard_ran.requests), shop.refunds, guard_ran.result.is_error) == (2, [], True)
    assert "no_wire" in guard_ran.result.result


@pytest.mark.parametrize("fault", broken_rules())
def test_broken_rules_deny(fault: str, tmp_path: Path) -> None:
    """An exception in the guard is a denial; the run goes on."""
    shop, guard = Shop(), guard_of(tmp_path, ASKS, aliases=ALIASES, **broken_rules()[fault])
    assert ran(guard, tmp_path, [refund(50), "sorry"], shop).result.result == "sorry"
    assert shop.refunds == []


# --- arguments


def test_a_tool_gets_exactly_the_judged_arguments(tmp_path: Path) -> None:
    """Whatever the model writes, the shop pays at most 100; the schema's defaults are judged, nothing is coerced."""
    shop, guard = Shop(), guard_of(tmp_path, LIMIT, aliases=ALIASES)
    odd = [refund("500"), refund([500]), refund(50, Amount=500), refund(50, other=1), refund(None), refund("5e2")]
    left_out = [(REFUND, {"order_id": "W1"})]
    guard_ran = ran(guard, tmp_path, [[*itertools.chain(*odd), *left_out], refund(99.5, "W2"), "paid"], shop)
    assert shop.refunds == [("W2", 99.5)]
    assert "at most 100" in guard_ran.requests[1]


def test_a_tool_that_mutates_its_arguments_changes_no_record(tmp_path: Path) -> None:
    """It gets copies."""
    guard = guard_of(tmp_path, LIMIT, aliases=ALIASES)

    async def handler(args: dict[str, Any]) -> dict[str, Any]:
        args["amount"] = 0
        args["items"].clear()
        return {"content": []}

    schema = {"type": "object", "properties": {"amount": {"type": "integer"}, "items": {"type": "array"}}}
    tool = claude_agent_sdk.SdkMcpTool("refund", "pays", schema, handler)
    servers = {"shop": create_sdk_mcp_server("shop", tools=[tool])}
    ran(guard, tmp_path, [[(REFUND, {"amount": 5, "items": [1]})]], mcp_servers=servers, named="c1")
    assert thaw(guard.session("c1").history[0].args) == {"amount": 5, "items": [1]}


# --- outcomes


def test_the_outcomes_of_the_hosts_own_tools(tmp_path: Path) -> None:
    """A command that fails has failed, one that is denied has not run, and the outcome of one cut off is unknown."""
    guard = guard_of(tmp_path, NO_TOUCH)
    guard_ran = ran(guard, tmp_path, [bash("echo fine"), bash("exit 3"), bash("touch forbidden"), CUT_OFF], named="c1")
    assert [event.status for event in guard.session("c1").history] == ["ok", "failed", "unknown"]
    assert not (tmp_path / "forbidden").exists()
    assert "Leave it alone" in guard_ran.requests[3]


SERVER = """
import os, sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("bank")
@server.tool()
def wire(amount: int) -> str:
    if amount == 66:
        os._exit(1)
    if amount == 7:
        raise ValueError("no such account")
    open(sys.argv[1], "a").write(f"{amount} ")
    return "wired"
server.run()
"""


def test_another_programs_server(tmp_path: Path) -> None:
    """Its calls are judged, its errors are failures, and nobody knows what a call did whose server died."""
    (tmp_path / "bank.py").write_text(SERVER)
    book = tmp_path / "book.txt"
    guard = guard_of(tmp_path, LIMIT.replace("refund(", "wire("), aliases={"mcp__bank__wire": "wire"})
    servers = {"bank": {"command": sys.executable, "args": [str(tmp_path / "bank.py"), str(book)]}}
    turns = [[("mcp__bank__wire", {"amount": amount})] for amount in (500, 50, 7, 66)]
    options: dict[str, Any] = {"mcp_servers": servers, "allowed_tools": ["mcp__bank"], "named": "c1"}
    ran(guard, tmp_path, [*turns, "done"], **options, tools=[])
    assert book.read_text() == "50 "
    assert [(event.args["amount"], event.status) for event in guard.session("c1").history] == [
        (50, "ok"),
        (7, "failed"),
        (66, "unknown"),
    ]


# --- sub-agents


def test_a_sub_agent_and_a_script_of_agents_are_guarded(tmp_path: Path) -> None:
    """Their calls are judged in the session's conversation, and the agent's name is known."""
    shop, guard = Shop(), guard_of(tmp_path, AT_MOST_ONE, aliases=ALIASES)
    agent = [("Agent", {"description": "d", "prompt": "script:inner", "subagent_type": "clerk"})]
    workflow = "export const meta = {name: 'w', description: 'd'}\nreturn await agent('script:inner', {})"
    clerk = claude_agent_sdk.AgentDefinition("helps", "You help.")
    tools = {"tools": ["Agent", "Workflow"], "allowed_tools": ["mcp__shop", "Agent", "Workflow"]}
    for number, turn in enumerate((agent, [("Workflow", {"script": workflow})])):
        inner = [refund(5), refund(6, f"B{number}"), "done"]
        ran(guard, tmp_path, [refund(5), turn, "x"], shop, inner=inner, agents={"clerk": clerk}, **tools, named="c1")
    assert shop.refunds == [("W1", 5), ("B0", 6), ("B1", 6)]
    assert [event.agent for event in guard.session("c1").history if event.args.get("order_id") == "B0"] == ["clerk"]


def test_a_session_in_a_tool_belongs_to_the_call_around_it(tmp_path: Path) -> None:
    """It does so whatever it names, and though its answer is for the agent around it."""
    shop, guard = Shop(), guard_of(tmp_path, AT_MOST_ONE, aliases=ALIASES, answers=NoSecrets())

    async def delegate() -> str:
        with conversation("apart"):
            outcome = await aran(guard, tmp_path, [refund(5), "The PIN is 47x11."], shop, reader=claude_agent_sdk.query)
        return str(outcome.result.result)

    tools = [tool_of("delegate", delegate, {"type": "object", "properties": {}}), tool_of("refund", shop.arefund)]
    servers = {"shop": create_sdk_mcp_server("shop", tools=tools)}
    turns = [refund(5), [("mcp__shop__delegate", {})], "done"]
    guard_ran = ran(guard, tmp_path, turns, mcp_servers=servers, allowed_tools=["mcp__shop"], named="c1")
    assert shop.refunds == [("W1", 5)]
    assert "The PIN is 47x11." in guard_ran.requests[-1]  # the agent around it may read it
    assert "47x11" not in guard_ran.shown


# --- the conversation


def test_a_session_of_the_host_is_a_conversation(tmp_path: Path) -> None:
    """A resumed session continues it, also by another client; a new session begins another; a fork has to be named."""
    shop, guard, session = Shop(), guard_of(tmp_path, AT_MOST_ONE, aliases=ALIASES), str(uuid.uuid4())
    ran(guard, tmp_path, [refund(5)], shop, session_id=session)
    ran(guard, tmp_path, [refund(6)], shop, resume=session)
    ran(guard, tmp_path, [refund(7)], shop)
    assert shop.refunds == [("W1", 5), ("W1", 7)]
    forked = ran(guard, tmp_path, [refund(8, "W2"), "sorry"], shop, resume=session, fork_session=True)
    assert "names no conversation" in forked.requests[-1]
    ran(guard, tmp_path, [refund(9), refund(9, "W2")], shop, resume=session, fork_session=True, named=session)
    assert shop.refunds[2:] == [("W2", 9)]


def test_the_name_of_a_conversation(tmp_path: Path) -> None:
    """It is that of the attachment, a text or a function, or else that around the connection."""
    shop, guard = Shop(), guard_of(tmp_path, AT_MOST_ONE, aliases=ALIASES)
    for named in ("a", lambda: "b", "a"):
        ran(guard, tmp_path, [refund(5)], shop, named=named)
    with conversation("b"):
        ran(guard, tmp_path, [refund(5)], shop)
    assert len(shop.refunds) == 2

    def fails() -> str:
        raise RuntimeError("who is it?")

    ran(guard, tmp_path, [refund(5, "W3")], shop, named=fails)
    assert len(shop.refunds) == 2


def test_a_transcript_that_the_guard_has_not_seen(tmp_path: Path) -> None:
    """A new guard without a ledger denies what looks back, and says why; other rules still decide."""
    shop, session = Shop(), str(uuid.uuid4())
    ran(guard_of(tmp_path, AT_MOST_ONE, aliases=ALIASES), tmp_path, [refund(5)], shop, session_id=session)
    guard = guard_of(tmp_path, AT_MOST_ONE, aliases=ALIASES)
    guard_ran = ran(guard, tmp_path, [refund(6, "W2"), "x"], shop, resume=session)
    assert "never saw" in guard_ran.requests[-1]
    ran(guard_of(tmp_path, LIMIT, aliases=ALIASES), tmp_path, [refund(7, "W3"), "x"], shop, resume=session)
    assert shop.refunds == [("W1", 5), ("W3", 7)]


def test_one_client_many_prompts(tmp_path: Path) -> None:
    """The prompts of a client are turns of one conversation; two clients with the same options are two."""
    shop, guard = Shop(), guard_of(tmp_path, AT_MOST_ONE, aliases=ALIASES)

    async def run() -> None:
        with messages_server({"k": [refund(5), "one"], "m": [refund(5), refund(6, "W2"), "two"]}) as model:
            options = guarded(shop_options(model.url, tmp_path, {"refund": shop.arefund}), guard)
            for _ in range(2):
                async with ClaudeSDKClient(options) as client:
                    for key in ("k", "m"):
                        await client.query(f"script:{key}")
                        assert [message async for message in client.receive_response()]

    asyncio.run(run())
    assert shop.refunds == [("W1", 5), ("W2", 6)] * 2


# --- approvals


def test_no_reviewer_no_escalated_call(tmp_path: Path) -> None:
    """The denial says what to pass; with `approver=` the guard asks by itself."""
    shop, requests = Shop(), list[Any]()
    outcome = ran(guard_of(tmp_path, APPROVED, aliases=ALIASES), tmp_path, [refund(500), "x"], shop)
    assert "there is no reviewer" in outcome.requests[-1]

    async def approver(request: Any) -> bool:
        requests.append(request.args["amount"])
        return True

    guard = guard_of(tmp_path, APPROVED, aliases=ALIASES, approver=approver)
    ran(guard, tmp_path, [refund(500), "x"], shop)
    assert (requests, shop.refunds) == ([500], [("W1", 500)])


@pytest.mark.parametrize("mode", ["default", "bypassPermissions", "dontAsk", "acceptEdits"])
def test_the_host_asks_in_every_mode(mode: Any, tmp_path: Path) -> None:
    """An escalated call reaches `can_use_tool` though the host allows the tool, and runs only after its yes."""
    shop, answers = Shop(), iter([True, False])

    async def reviewer(_tool: str, _args: Any, _context: Any) -> Any:
        if next(answers):
            return claude_agent_sdk.PermissionResultAllow()
        return claude_agent_sdk.PermissionResultDeny(message="too much")

    options: dict[str, Any] = {"permission_mode": mode, "can_use_tool": reviewer}
    guard = guard_of(tmp_path, APPROVED, aliases=ALIASES)
    with pytest.warns(claude_agent_sdk.CanUseToolShadowedWarning):
        guard_ran = ran(guard, tmp_path, [refund(500), refund(600), "x"], shop, **options)
    assert shop.refunds == [("W1", 500)]
    assert "too much" in guard_ran.requests[-1]


# --- ways around the hooks


def test_settings_of_the_project_do_not_lead_past_the_guard(tmp_path: Path) -> None:
    """Neither hooks that change a judged call, nor a switch that turns hooks off, nor shell commands in a skill."""
    home = tmp_path / ".claude"
    (home / "commands").mkdir(parents=True)
    changed = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": TOUCH_CHANGED}
    command = f"echo '{json.dumps({'hookSpecificOutput': changed})}'"
    hooks = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}]}
    for name in ("settings.json", "settings.local.json"):
        (home / name).write_text(json.dumps({"hooks": hooks, "env": {"CLAUDE_CODE_SIMPLE": "1"}}))
    skill = "---\ndescription: d\nallowed-tools: Bash(touch:*)\n---\n!`touch from_skill`\n"
    (home / "commands" / "sneak.md").write_text(skill)
    turns = [bash("touch forbidden"), bash("touch asked"), [("Skill", {"skill": "sneak"})], "x"]
    guard = guard_of(tmp_path, NO_TOUCH)
    more: dict[str, Any] = {"setting_sources": ["user", "project", "local"], "tools": ["Bash", "Skill"]}
    ran(guard, tmp_path, turns, **more, allowed_tools=["Bash", "Skill"])
    made = {name for name in ("forbidden", "asked", "changed", "from_skill") if (tmp_path / name).exists()}
    assert made == {"asked"}
    open_ways: dict[str, Any] = {"unguarded": ("settings hooks", "skill shell"), "settings": '{"env": {"A": "b"}}'}
    ran(guard, tmp_path, turns, **more, allowed_tools=["Bash", "Skill"], **open_ways)
    assert (tmp_path / "changed").exists()  # as the operator wanted
    assert (tmp_path / "from_skill").exists()


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ({"extra_args": {"bare": None}}, "extra_args has 'bare'"),
        ({"extra_args": {"settings": "{}"}}, "pass settings="),
        ({"env": {"CLAUDE_CODE_SIMPLE": "1"}}, "env has CLAUDE_CODE_SIMPLE"),
        ({"settings": '{"env": {"CLAUDE_CODE_SIMPLE": "true"}}'}, "settings' env has CLAUDE_CODE_SIMPLE"),
        ({"settings": "missing.json"}, "cannot be read"),
        ({"settings": '{"env": 1}'}, "not an object"),
        ({"permission_prompt_tool_name": "mcp__x__y"}, "pass can_use_tool"),
        ({"hooks": {"PermissionRequest": [HookMatcher()]}}, "PermissionRequest"),
        ({"mcp_servers": {"s": {"type": "sdk", "name": "s", "instance": object()}}}, "has no 'middleware'"),
    ],
)
def test_options_that_lead_past_the_guard_are_refused(option: Any, problem: str, tmp_path: Path) -> None:
    """At attaching, with the reason."""
    with pytest.raises(InputError, match=problem):
        guarded(ClaudeAgentOptions(**option), guard_of(tmp_path, LIMIT, aliases=ALIASES))


def test_what_cannot_be_attached_is_refused(tmp_path: Path) -> None:
    """Other objects, a second guard, misspelt tools of this process and of the host, two tools with one name."""
    guard = guard_of(tmp_path, LIMIT, aliases=ALIASES)
    options = guarded(shop_options("", tmp_path, {"refund": Shop().arefund}), guard)
    assert guarded(options, guard) is options
    with pytest.raises(InputError, match="another guard"):
        guarded(options, guard_of(tmp_path, LIMIT))
    with pytest.raises(InputError, match="expected ClaudeAgentOptions"):
        guarded(typing.cast("Any", object()), guard)
    with pytest.raises(InputError, match="'everything'; expected one or more of"):
        guarded(ClaudeAgentOptions(), guard, unguarded=["everything"])
    with pytest.raises(InputError, match="did you mean 'refund'"):
        guarded(shop_options("", tmp_path, {"refund": Shop().arefund}), guard_of(tmp_path, MISSPELT, aliases=ALIASES))
    with pytest.raises(InputError, match="did you mean 'Bash'"):
        guarded(ClaudeAgentOptions(), guard_of(tmp_path, NO_TOUCH.replace("Bash", "bash")))
    twice = {name: create_sdk_mcp_server(name, tools=[tool_of("refund", Shop().arefund)]) for name in ("a b", "a_b")}
    with pytest.raises(InputError, match="two tools are named 'mcp__a_b__refund'"):
        guarded(ClaudeAgentOptions(mcp_servers=dict(twice)), guard)
    with pytest.raises(InputError, match="have no guard"):
        GuardedClient(ClaudeAgentOptions())
    with pytest.raises(InputError, match="have no guard"):
        asyncio.run(_first(query(prompt="", options=ClaudeAgentOptions())))


async def _first(messages: AsyncIterator[Any]) -> Any:
    return await anext(messages)


def test_a_server_keeps_what_the_operator_gave_it(tmp_path: Path) -> None:
    """The operator's object is not changed, and a call of its tool by hand is the operator's own."""
    shop = Shop()
    options = shop_options("", tmp_path, {"refund": shop.arefund})
    before = typing.cast("Any", options.mcp_servers)["shop"]["instance"]
    middleware, handler = list(before.middleware), before.get_request_handler("tools/call").handler
    created = guarded(options, guard_of(tmp_path, LIMIT, aliases=ALIASES))
    assert typing.cast("Any", created.mcp_servers)["shop"]["instance"] is not before
    assert (before.middleware, before.get_request_handler("tools/call").handler) == (middleware, handler)


def test_a_misspelt_tool_of_a_server_of_this_process(tmp_path: Path) -> None:
    """A server that names its tools only when it is asked shows none if a rule misspells one."""

    async def list_tools(_context: Any, _params: Any) -> Any:
        return {"tools": [{"name": "refund", "description": "pays", "inputSchema": SCHEMA}]}

    called: list[Any] = []

    async def call_tool(_context: Any, params: Any) -> Any:
        called.append(params.arguments)
        return {"content": []}

    def servers() -> dict[str, Any]:
        server = Server("late", on_list_tools=list_tools, on_call_tool=call_tool)
        return {"late": {"type": "sdk", "name": "late", "instance": server}}

    turns, aliases = [[("mcp__late__refund", {"order_id": "W1"})], [("mcp__late__refund", {"amount": 5})]], {}
    aliases = {"mcp__late__refund": "refund"}
    fits = [[("mcp__late__refund", {"order_id": "W1", "amount": 5})]]
    for text in (MISSPELT, LIMIT):
        guard = guard_of(tmp_path, text, aliases=aliases)
        ran(guard, tmp_path, [*turns, *fits], mcp_servers=servers(), allowed_tools=["mcp__late"], tools=[])
    assert called == [{"order_id": "W1", "amount": 5}]  # with its defaults and its schema, too


# --- final answers


def test_an_unheld_answer_is_not_begun(tmp_path: Path) -> None:
    """The SDK's own client shows text as it comes, so it gets none if the guard judges answers."""
    guard = guard_of(tmp_path, LIMIT, aliases=ALIASES, answers=NoSecrets())
    guard_ran = ran(guard, tmp_path, ["The PIN is 47x11."], reader=claude_agent_sdk.query)
    assert not guard_ran.requests
    assert "GuardedClient" in guard_ran.shown
    assert "47x11" not in guard_ran.shown


@pytest.mark.parametrize("partial", [False, True])
def test_no_part_of_a_denied_answer_is_shown(partial: bool, tmp_path: Path) -> None:
    """Not its first words beside a call, not as a stream, not as the result, and not that of a sub-agent."""
    shop, guard = Shop(), guard_of(tmp_path, LIMIT, aliases=ALIASES, answers=NoSecrets())
    agent = [("Agent", {"description": "d", "prompt": "script:inner", "subagent_type": "general-purpose"})]
    options: dict[str, Any] = {"include_partial_messages": partial, "forward_subagent_text": True}
    turns = [agent, refund(50), "The PIN is 47x11."]
    denied = ran(guard, tmp_path, turns, shop, inner=["I saw 47x11."], **options)
    assert "47x11" not in denied.shown
    assert "withheld" in denied.result.result
    assert "withheld" in "".join(str(message) for message in denied.messages[:-1])
    allowed = ran(guard, tmp_path, [refund(50), "You have 50 back."], shop, **options)
    assert allowed.shown.count("You have 50 back.") == 2  # as text and as result
    assert len(shop.refunds) == 2


def test_text_before_a_call_is_held(tmp_path: Path) -> None:
    """A message may have text and calls; its calls are not withheld with it."""
    shop, guard = Shop(), guard_of(tmp_path, LIMIT, aliases=ALIASES, answers=NoSecrets())
    guard_ran = ran(guard, tmp_path, [["The PIN is 47x11.", *refund(50)], "done"], shop)
    assert "47x11" not in guard_ran.shown
    assert REFUND in guard_ran.shown
    assert shop.refunds == [("W1", 50)]


# --- other faults


@pytest.mark.parametrize("error", [KeyError("till"), TimeoutError("late"), asyncio.CancelledError()])
def test_what_a_tool_raises(error: BaseException, tmp_path: Path) -> None:
    """An exception is a failure; after a time-out nobody knows; an interrupted call stays in flight."""
    guard = guard_of(tmp_path, LIMIT, aliases=ALIASES)

    async def fails(**_args: Any) -> Any:
        raise error

    servers = {"shop": create_sdk_mcp_server("shop", tools=[tool_of("refund", fails)])}
    ran(guard, tmp_path, [refund(50), "x"], mcp_servers=servers, named="c1")
    statuses: dict[type[BaseException], str] = {KeyError: "failed", TimeoutError: "unknown"}
    assert [event.status for event in guard.session("c1").history] == [statuses.get(type(error))]


def test_parallel_sessions_share_one_guard(tmp_path: Path) -> None:
    """Of equal refunds in parallel sessions of one conversation, one is paid."""
    shop, guard = Shop(), guard_of(tmp_path, AT_MOST_ONE, aliases=ALIASES)

    async def run() -> None:
        await asyncio.gather(*(aran(guard, tmp_path, [refund(5)], shop, named="c1") for _ in range(3)))

    asyncio.run(run())
    assert shop.refunds == [("W1", 5)]


def test_the_policy_is_loaded_once(tmp_path: Path) -> None:
    """Agents that are built per request share a guard; attaching anew forgets nothing."""
    guard = ToolGuard(policy_file(tmp_path, AT_MOST_ONE), aliases=ALIASES)
    shop = Shop()
    for _ in range(2):
        ran(guard, tmp_path, [refund(5)], shop, named="c1")
    assert shop.refunds == [("W1", 5)]
    assert offline("", tmp_path)["setting_sources"] == []


def test_options_without_a_reviewer_are_reported(tmp_path: Path, caplog: Any) -> None:
    """Attached to a guard whose rules may escalate, and once."""
    guard = guard_of(tmp_path, APPROVED, aliases=ALIASES)
    for _ in range(2):
        guarded(shop_options("", tmp_path, {"refund": Shop().arefund}), guard)
    assert len([line for line in caplog.messages if "pass can_use_tool" in line]) == 1
