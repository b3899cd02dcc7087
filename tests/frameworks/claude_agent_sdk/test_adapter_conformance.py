"""The Claude Agent SDK conforms, with its own program: `guarded(options, guard)`, by `query` and by a client."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk")

import claude_agent_sdk
from claude_agent_sdk import ClaudeAgentOptions, PermissionResultAllow, PermissionResultDeny, UserMessage
from mcp.server import Server
from mcp_types import CallToolResult, ListToolsResult, Tool

from guardagent.frameworks.claude_agent_sdk import GuardedClient, conversation, guarded, query
from guardagent.testing.conformance import Call, Desk, HandOff, Operator, Reply, Script, Shop, SubAgent
from guardagent.types import thaw
from tests.frameworks.claude_agent_sdk.declarations import CANNOT
from tests.frameworks.claude_agent_sdk.messages_server import MessagesServer, messages_server
from tests.frameworks.claude_agent_sdk.sessions import SCHEMAS, blocks, shop_options, tool_of
from tests.frameworks.conforms import DeskProcess, conformance_test, renamed, server_conformance_test

pytestmark = [
    pytest.mark.slow,  # each run starts the program
    pytest.mark.filterwarnings("ignore::claude_agent_sdk.CanUseToolShadowedWarning"),
]
NAMES = ("authenticate", "refund", "get_order")
ALIASES = {f"mcp__shop__{name}": name for name in NAMES} | {f"mcp__late__{name}": name for name in ("payout", "refund")}
_keys = itertools.count(1)

Form = Callable[[ClaudeAgentOptions, str], AsyncIterator[Any]]


async def by_query(options: ClaudeAgentOptions, prompt: str) -> AsyncIterator[Any]:
    async with aclosing(query(prompt=prompt, options=options)) as messages:
        async for message in messages:
            yield message


async def by_client(options: ClaudeAgentOptions, prompt: str) -> AsyncIterator[Any]:
    async with GuardedClient(options) as client:
        await client.query(prompt)
        async for message in client.receive_response():
            yield message


class ClaudeProcess(DeskProcess):
    """A process. The host's sessions outlive it, but its guard does not."""

    def __init__(self, operator: Operator, form: Form, model: MessagesServer) -> None:
        self.operator, self._form, self._model = operator, form, model
        self.guard = operator.guard(aliases=ALIASES)
        self.tools, self._busy = list[str](), set[str]()

    def model_input(self) -> str:
        return json.dumps(self._model.requests[-1], ensure_ascii=False)

    async def talk(
        self, script: Script, name: str, history: Sequence[tuple[Call, str]] = (), *, stream: bool = False
    ) -> Reply:
        if history:
            await self._forge(name, history)
        delegates: list[Any] = []
        key = self._script(script, delegates)
        options = self._options(delegates, include_partial_messages=stream, **self._session(name))
        shown = ""
        try:
            async for message in self._form(guarded(options, self.guard, conversation=name), f"script:{key}"):
                shown += "" if isinstance(message, UserMessage) else str(message)
        finally:
            self._busy.discard(name)
        return Reply(shown)

    def _session(self, name: str) -> dict[str, str]:
        """Continues the session of a conversation, unless a run of it has not ended."""
        sessions = self.operator.kept.setdefault("sessions", {})
        if name in self._busy:
            return {}
        self._busy.add(name)
        if name in sessions:
            return {"resume": sessions[name]}
        sessions[name] = str(uuid.uuid4())
        return {"session_id": sessions[name]}

    def _script(self, script: Script, delegates: list[Any]) -> str:
        """Gives the model a script. Returns its key."""
        key, turns = f"k{next(_keys)}", list[Any]()
        for turn in script:
            assert not isinstance(turn, HandOff)
            if not isinstance(turn, SubAgent):
                turns.append(turn if isinstance(turn, str) else renamed(turn, self._name))
            elif turn.where == "task":
                inner = f"script:{self._script(turn.script, delegates)}"
                turns.append([("Agent", {"description": "d", "prompt": inner, "subagent_type": "general-purpose"})])
            else:
                delegates.append(self._delegate(turn, len(delegates) + 1))
                turns.append([(f"mcp__shop__delegate_{len(delegates)}", {})])
        self._model.scripts[key] = turns
        return key

    def _name(self, tool: str) -> str:
        return f"mcp__{'late' if tool in self.tools else 'shop'}__{tool}"

    def _delegate(self, sub_agent: SubAgent, number: int) -> Any:
        async def work() -> Reply:
            with conversation("apart"):
                return await self.talk(sub_agent.script, "apart")

        async def delegate() -> str:
            return str((await sub_agent.run(work())).shown)

        return tool_of(f"delegate_{number}", delegate, {"type": "object", "properties": {}})

    def _options(self, delegates: list[Any], **more: Any) -> ClaudeAgentOptions:
        shop, url = self.operator.shop, self._model.url
        tools = {name: shop.tool(name) for name in self.operator.tools}
        options = shop_options(url, shop.folder / "home", tools, **{"tools": ["Agent"], "can_use_tool": ask, **more})
        own = [tool_of(name, tool) for name, tool in tools.items()]
        options.mcp_servers = {
            "shop": claude_agent_sdk.create_sdk_mcp_server("shop", tools=[*own, *delegates]),
            "late": {"type": "sdk", "name": "late", "instance": late_server(shop, self.tools)},
        }
        options.allowed_tools = ["mcp__shop", "mcp__late", "Agent"]
        return options

    async def _forge(self, name: str, history: Sequence[tuple[Call, str]]) -> None:
        """Makes a session whose transcript shows calls that the guard never saw."""
        tools = {call[0]: _saying(output) for call, output in history}
        key = self._script([[call for call, _ in history]], [])
        options = shop_options(self._model.url, self.operator.shop.folder / "home", tools, **self._session(name))
        async for _ in claude_agent_sdk.query(prompt=f"script:{key}", options=options):
            pass
        self._busy.discard(name)


def _saying(output: str) -> Any:
    async def say(**_args: Any) -> str:
        return output

    return say


async def ask(tool: str, args: dict[str, Any], context: Any) -> Any:
    """Asks at the desk."""
    approval = await Desk.ask((tool, args, context))
    if approval.choice == "reject":
        return PermissionResultDeny(message=approval.reason)
    return PermissionResultAllow(updated_input=thaw(approval.args) if approval.choice == "edit" else None)


def late_server(shop: Shop, names: list[str]) -> Any:
    """Returns a server of this process that lists other tools later."""

    async def list_tools(_context: Any, _params: Any) -> Any:
        return ListToolsResult(tools=[Tool(name=name, input_schema=SCHEMAS[name]) for name in names])

    async def call_tool(_context: Any, params: Any) -> Any:
        return CallToolResult.model_validate(blocks(await shop.tool(params.name)(**params.arguments)))

    return Server("late", on_list_tools=list_tools, on_call_tool=call_tool)


class ClaudeHost:
    name = "Claude Agent SDK"
    cannot = CANNOT[name]

    def __init__(self, form: Form) -> None:
        self._form = form

    @asynccontextmanager
    async def process(self, operator: Operator) -> AsyncIterator[ClaudeProcess]:
        with messages_server({}) as model:
            yield ClaudeProcess(operator, self._form, model)


HOSTS = {form.__name__: ClaudeHost(form) for form in (by_query, by_client)}
test_conformance = conformance_test(HOSTS)
test_conformance_with_a_server = server_conformance_test({"query": HOSTS["by_query"]})
