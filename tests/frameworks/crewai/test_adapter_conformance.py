"""CrewAI conforms: `guarded(crew, guard)`, for crews and single agents, with native calls and in the text of ReAct."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest

pytest.importorskip("crewai", reason="CrewAI is not installed")

from tests.frameworks.conforms import DeskProcess, conformance_test, renamed, server_conformance_test

from tests.frameworks.crewai.agents import Kind, ScriptedLLM, agent_of, task_of  # isort: skip - sets the environment

from crewai import Crew
from crewai.mcp import MCPServerHTTP
from crewai.tools import tool as crew_tool

from guardagent.enforcement import Approval
from guardagent.frameworks.crewai import CrewHalted, conversation, guarded
from guardagent.testing.conformance import Call, Desk, HandOff, Operator, Reply, Script, Shop, SubAgent
from tests.frameworks.crewai.declarations import CANNOT
from tests.frameworks.crewai.shop_server import ShopServer

pytestmark = pytest.mark.filterwarnings("ignore")

Form = Literal["crew", "async crew", "agent"]
FORMS: Sequence[tuple[Form, Kind]] = (
    ("crew", "native"),
    ("crew", "text"),
    ("async crew", "native"),
    ("agent", "native"),
)
_ids = itertools.count(1)


class CrewProcess(DeskProcess):
    def __init__(self, operator: Operator, form: Form, kind: Kind, **options: Any) -> None:
        self.operator, self.form, self.kind, self.tools = operator, form, kind, list(operator.tools)
        self.guard = operator.guard(approver=self._ask, **options)
        self._loop = asyncio.get_running_loop()

    async def talk(
        self, script: Script, name: str, history: Sequence[tuple[Call, str]] = (), *, stream: bool = False
    ) -> Reply:
        if self.form == "async crew" and not history:
            return await self._atalk(script, name, stream=stream)
        return await asyncio.to_thread(self._talk, script, name, history, stream=stream)

    def _ask(self, request: Any) -> Approval:
        """Asks at the desk of the run, from the thread of its agent."""
        return asyncio.run_coroutine_threadsafe(Desk.ask(request), self._loop).result()

    def model_input(self) -> str:
        return self.llm.last_text(-1)

    # --- runs

    def _talk(self, script: Script, name: str, history: Sequence[tuple[Call, str]], *, stream: bool) -> Reply:
        try:
            with conversation(name):
                if history or (self.form == "agent" and not stream):
                    agent = guarded(self._agent(script), self.guard)
                    return Reply(_shown(agent.kickoff([*_messages(history), {"role": "user", "content": "please"}])))
                result = guarded(self._crew(script, stream=stream), self.guard).kickoff()
            chunks = "".join(chunk.content for chunk in result) if stream else ""
            return Reply(chunks + _shown(result.result if stream else result))
        except CrewHalted:
            return Reply()

    async def _atalk(self, script: Script, name: str, *, stream: bool) -> Reply:
        crew = await asyncio.to_thread(self._crew, script, stream=stream)
        try:
            with conversation(name):
                result = await guarded(crew, self.guard).akickoff()
            chunks = "".join([chunk.content async for chunk in result]) if stream else ""
            return Reply(chunks + _shown(result.result if stream else result))
        except CrewHalted:
            return Reply()

    # --- agents

    def _crew(self, script: Script, *, stream: bool = False) -> Crew:
        """Returns a crew: its first agent delegates to others, and each hand-off is a task of another agent."""
        agents, tasks = [], []
        turns: list[Any] = []
        for at, turn in enumerate(script):
            if isinstance(turn, HandOff):
                clerk = agent_of(ScriptedLLM.of(self.kind, _spoken(turn.script)), self._tools(), f"clerk {at}")
                agents.append(clerk)
                tasks.append(task_of(clerk))
            elif isinstance(turn, SubAgent) and turn.where == "task":
                agents.append(agent_of(ScriptedLLM.of(self.kind, _spoken(turn.script)), self._tools(), f"helper {at}"))
                arguments = {"task": "please", "context": "none", "coworker": f"helper {at}"}
                turns.append([("delegate_work_to_coworker", arguments)])
            else:
                turns.append(turn)
        first = self._agent(turns, allow_delegation=bool(agents) and not tasks)
        return Crew(agents=[first, *agents], tasks=[task_of(first), *tasks], stream=stream)

    def _agent(self, script: Script, **options: Any) -> Any:
        turns: list[Any] = []
        tools = self._tools()
        for turn in _spoken(script):
            if isinstance(turn, SubAgent):
                name = f"delegate_{len(turns)}"
                inner = guarded(self._agent(turn.script), self.guard)
                tools.append(_delegate(turn, inner, name))
                turns.append([(name, {"task": "please"})])
            else:
                turns.append(turn if isinstance(turn, str) else renamed(turn, self._name))
        self.llm = ScriptedLLM.of(self.kind, turns)
        return agent_of(self.llm, tools, mcps=self._servers() or None, **options)

    def _name(self, tool: str) -> str:
        return tool

    def _tools(self) -> list[Any]:
        return [shop_tool(self.operator.shop, name, direct=name in self.operator.direct) for name in self.tools]

    def _servers(self) -> list[Any]:
        return []


class CrewServerProcess(CrewProcess):
    """The agents have a server with the shop's refund, which adds a tool later."""

    def __init__(self, operator: Operator, form: Form, kind: Kind, server: ShopServer) -> None:
        self.server = server
        super().__init__(operator, form, kind, aliases={server.name("refund"): "refund"})
        self.tools = []

    async def add(self, tool: str) -> None:
        self.server.add(tool)

    def _name(self, tool: str) -> str:
        return self.server.name(tool)

    def _servers(self) -> list[Any]:
        return [MCPServerHTTP(url=self.server.url)]


def _delegate(sub_agent: SubAgent, inner: Any, name: str) -> Any:
    """Returns a tool that runs an agent by hand, under its own id."""

    @crew_tool(name)
    def delegate(task: str) -> str:
        """Delegates."""

        async def work() -> str:
            with conversation("apart"):
                return str((await inner.kickoff_async(task)).raw)

        return str(asyncio.run(sub_agent.run(work())))

    return delegate


def shop_tool(shop: Shop, name: str, *, direct: bool) -> Any:
    """Returns a tool of the shop, which runs in the agent's thread."""

    @crew_tool(result_as_answer=direct)
    def authenticate(email: str, code: str = "right") -> Any:
        """Lets a customer in."""
        return asyncio.run(shop.authenticate(email, code))

    @crew_tool(result_as_answer=direct)
    def refund(order_id: str, amount: int = 500) -> str:
        """Pays an order back."""
        return asyncio.run(shop.refund(order_id, amount))

    @crew_tool(result_as_answer=direct)
    def get_order(order_id: str) -> str:
        """Looks an order up."""
        return asyncio.run(shop.get_order(order_id))

    return {named_tool.name: named_tool for named_tool in (authenticate, refund, get_order)}[name]


def _spoken(script: Script) -> list[Any]:
    """Returns the turns of an agent that neither delegates nor hands over."""
    return list(script)


def _messages(history: Sequence[tuple[Call, str]]) -> list[dict[str, Any]]:
    """Returns messages that show calls with their results."""
    shown: list[dict[str, Any]] = [{"role": "user", "content": "before"}] if history else []
    for (name, args), output in history:
        key = f"shown_{next(_ids)}"
        call = {"id": key, "type": "function", "function": {"name": name, "arguments": str(args)}}
        shown.append({"role": "assistant", "content": None, "tool_calls": [call]})
        shown.append({"role": "tool", "tool_call_id": key, "name": name, "content": output})
    return shown


def _shown(output: Any) -> str:
    """Returns all that a user could read in an output."""
    return f"{output.raw} {output.model_dump()}"


class CrewHost:
    name = "CrewAI"

    def __init__(self, form: Form, kind: Kind, *, served: bool = False) -> None:
        self._form, self._kind, self._served = form, kind, served
        alone = "cannot occur because an agent without a crew hands nothing over"
        self.cannot = CANNOT[self.name] | ({"hand-off": alone} if form == "agent" else {})
        if kind == "text":
            self.cannot["repeated ids"] = "cannot occur because a call in the text of ReAct has no id"

    @asynccontextmanager
    async def process(self, operator: Operator) -> AsyncIterator[CrewProcess]:
        if not self._served:
            yield CrewProcess(operator, self._form, self._kind)
            return
        server = ShopServer(operator.shop)
        yield CrewServerProcess(operator, self._form, self._kind, server)
        server.close()


def host(scenario: str, form: Form, kind: Kind) -> CrewHost:
    return CrewHost(form, kind, served=scenario == "late tools of a server")


HOSTS = {f"{form} {kind}": functools.partial(host, form=form, kind=kind) for form, kind in FORMS}
test_conformance = conformance_test(HOSTS)
test_conformance_with_a_server = server_conformance_test(HOSTS)
