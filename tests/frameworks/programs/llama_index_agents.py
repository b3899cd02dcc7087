"""LlamaIndex agents, teams, and steps that run them. CASES: name -> (what builds the workflow, the graph expected)."""
# mypy: ignore-errors

from typing import Annotated

from expected import cases
from llama_index.core.agent.workflow import AgentWorkflow, CodeActAgent, FunctionAgent, ReActAgent
from llama_index.core.llms.mock import MockLLM
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import (
    Context,
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)
from workflows.resource import Resource

CASES, case = cases()


def fetch(url: str) -> str:
    """Fetches."""
    return url


def mail(to: str) -> str:
    """Sends."""
    return to


async def pay(ctx: Context, amount: int) -> str:
    """Pays."""
    asked = InputRequiredEvent(prefix="?")
    answer = await ctx.wait_for_event(HumanResponseEvent, waiter_id="pay", waiter_event=asked)
    return answer.response


async def may_pay(ctx: Context, amount: int) -> str:
    """Pays."""
    if amount > 100:
        await ctx.wait_for_event(HumanResponseEvent)
    return ""


def agent(name, *tools, kind=FunctionAgent, **more):
    return kind(name=name, description=name, tools=list(tools), llm=MockLLM(), **more)


@case("a", "__start__>a a>__end__")
def agent_alone():
    return agent("a")


@case(
    "a:tool",
    "__start__>a a>__end__",
    tools={"a": "fetch mail pay may_pay"},
    gated={"a": "pay"},
)
def agent_with_tools():
    return agent("a", fetch, FunctionTool.from_defaults(mail), pay, may_pay)


@case("a:tool", "__start__>a a>__end__", tools={"a": "fetch execute"})
def agent_that_writes_code():
    return CodeActAgent(name="a", tools=[fetch], llm=MockLLM(), code_execute_fn=lambda code: {"out": code})


@case(
    "a:tool b:tool c",
    "__start__>a a?b a?__end__ b?a b?c b?__end__ c?a c?b c?__end__",
    tools={"a": "fetch", "b": "mail"},
    conditions={("a", "b"): "handoff", ("a", "__end__"): "final output"},
)
def team():
    agents = [agent("a", fetch, can_handoff_to=["b"]), agent("b", mail, kind=ReActAgent), agent("c")]
    return AgentWorkflow(agents=agents, root_agent="a")


@case("a b c", "__start__>a a?b a?__end__ b>__end__")
def team_with_one_that_is_never_come_to():
    agents = [agent("a", can_handoff_to=["b"]), agent("b", can_handoff_to=[]), agent("c", can_handoff_to=["a"])]
    return AgentWorkflow(agents=agents, root_agent="a")


@case("a:tool", "__start__>a a>__end__", tools={"a": "fetch"})
def team_of_one():
    return AgentWorkflow([agent("a", fetch)])


@case(
    "a:tool b",
    "__start__>a a?b a?__end__ b?a b?__end__",
    tools={"a": "fetch mail"},
    conditions={("a", "__end__"): "final output or after mail"},
)
def tool_that_ends_the_run():
    last = FunctionTool.from_defaults(mail, return_direct=True)
    return AgentWorkflow(agents=[agent("a", fetch, last), agent("b")], root_agent="a")


HELPER = agent("helper", fetch)
QUIET = agent("quiet")


async def ask_helper(text: str) -> str:
    """Asks."""
    return str(await HELPER.run(user_msg=text))


async def ask_quiet(text: str) -> str:
    """Asks."""
    return str(await QUIET.run(user_msg=text))


@case(
    "a:tool helper:tool",
    "__start__>a a?helper helper@a a?__end__",
    tools={"a": "ask_helper ask_quiet", "helper": "fetch"},
    conditions={("a", "helper"): "calls ask_helper"},
)
def agents_as_tools():
    return agent("a", ask_helper, ask_quiet)


async def ask_someone(ctx: Context, text: str) -> str:
    """Asks."""
    return str(await (await ctx.store.get("agent")).run(user_msg=text))


@case("a:tool", "__start__>a a>__end__", tools={"a": "ask_someone ask_someone.*"}, widened="a")
def tool_that_runs_who_knows_whom():
    return agent("a", ask_someone)


# In steps.


class Next(Event):
    pass


class RunsHelper(Workflow):
    @step
    async def one(self, ev: StartEvent) -> Next:
        await HELPER.run(user_msg="x")
        return Next()

    @step
    async def two(self, ev: Next) -> StopEvent:
        await QUIET.run(user_msg="x")
        return StopEvent()


@case(
    "one:subgraph helper:tool two",
    "__start__>one one?helper helper@one one?two two>__end__",
    tools={"helper": "fetch"},
)
def steps_that_run_agents():
    return RunsHelper()


TOOL = FunctionTool.from_defaults(mail)


class CallsTools(Workflow):
    llm = MockLLM()

    @step
    async def one(self, ev: StartEvent) -> Next:
        TOOL.call(to="x")
        await self.llm.acomplete("x")
        return Next()

    @step
    async def two(self, ev: Next) -> StopEvent:
        if input("ok?") == "y":
            await TOOL.acall(to="x")
        return StopEvent()


@case(
    "one:tool two:tool",
    "__start__>one one>two two>__end__",
    tools={"one": "mail", "two": "mail"},
    gated={"two": "mail"},
)
def steps_that_call_tools():
    return CallsTools()


class LetsModelCall(Workflow):
    def __init__(self, llm, **more):
        super().__init__(**more)
        self.llm = llm

    @step
    async def one(self, ev: StartEvent) -> Next:
        return Next(text=await self.llm.apredict_and_call([TOOL, FunctionTool.from_defaults(fetch)], "x"))

    @step
    async def two(self, ev: Next) -> StopEvent:
        return StopEvent(result=await self.llm.acomplete("x"))


@case("one:tool two", "__start__>one one>two two>__end__", tools={"one": "mail fetch"})
def model_that_calls_tools():
    return LetsModelCall(MockLLM())


def make_team() -> AgentWorkflow:
    return TEAM


TEAM = AgentWorkflow(agents=[agent("x", fetch, can_handoff_to=["y"]), agent("y", can_handoff_to=[])], root_agent="x")


class RunsTeam(Workflow):
    @step
    async def one(self, ev: StartEvent, team: Annotated[AgentWorkflow, Resource(make_team)]) -> StopEvent:
        return StopEvent(result=await team.run(user_msg="x"))


@case(
    "one:subgraph x:tool y",
    "__start__>one one?x x?y x@one y@one one?__end__",
    tools={"x": "fetch"},
)
def team_of_a_resource():
    return RunsTeam()


class MakesAgent(Workflow):
    @step
    async def one(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result=await FunctionAgent(name="x", tools=[fetch, pay], llm=MockLLM()).run(user_msg="x"))


@case("one:tool", "__start__>one one>__end__", tools={"one": "fetch pay"}, gated={"one": "pay"})
def agent_that_is_made_in_place():
    return MakesAgent()


class RunsUnknown(Workflow):
    @step
    async def one(self, ctx: Context, ev: StartEvent) -> StopEvent:
        agent = await ctx.store.get("agent")
        return StopEvent(result=await agent.run(user_msg="x"))


@case("one:tool", "__start__>one one>__end__", tools={"one": "agent.*"}, widened="one")
def agent_that_is_not_known():
    return RunsUnknown()
