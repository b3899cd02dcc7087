"""Pydantic AI programs, alone and in graphs. CASES: name -> (what builds the agent or graph, the graph expected)."""
# mypy: ignore-errors

from __future__ import annotations

import itertools
from typing import Any

from expected import cases
from pydantic import BaseModel
from pydantic_ai import Agent, ApprovalRequired, RunContext, Tool, ToolOutput
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset, FunctionToolset
from pydantic_graph.graph_builder import GraphBuilder
from pydantic_graph.step import StepContext

CASES, case = cases()


def fetch(url: str) -> str:
    return url


def mail(to: str) -> str:
    return to


def asks(to: str) -> str:
    return input(to)


def perhaps(to: str) -> str:
    return input(to) if to else ""


def agent(name, *tools, **more):
    return Agent("test", name=name, tools=tools, **more)


@case("a", "__start__>a a>__end__")
def agent_alone():
    return agent("a")


@case("a:tool", "__start__>a a>__end__", tools={"a": "fetch mail asks perhaps"}, gated={"a": "mail asks"})
def agent_with_tools():
    return agent("a", fetch, Tool(mail, requires_approval=True), asks, perhaps)


@case("a:tool", "__start__>a a>__end__", tools={"a": "look write danger"}, gated={"a": "write"})
def tools_that_raise_for_approval():
    one = agent("a")

    @one.tool_plain
    def look() -> str:
        return ""

    @one.tool
    def write(ctx: RunContext[Any], path: str) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return path

    @one.tool
    def danger(ctx: RunContext[Any], path: str) -> str:
        if path == "x" and not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={})
        return path

    return one


def only_mail(ctx, definition, arguments):
    return definition.name == "mail"


@case(
    "a:tool",
    "__start__>a a>__end__",
    tools={"a": "fetch mail x_fetch post asked_fetch remote"},
    gated={"a": "fetch mail asked_fetch"},
)
def toolsets():
    both = FunctionToolset([fetch, mail])
    return agent(
        "a",
        toolsets=[
            both.approval_required(),
            FunctionToolset([fetch]).prefixed("x"),
            FunctionToolset([mail]).renamed({"post": "mail"}),
            FunctionToolset([fetch]).approval_required(only_mail).prefixed("asked"),
            ExternalToolset([ToolDefinition(name="remote", parameters_json_schema={})]),
        ],
    )


@case("a:tool", "__start__>a a>__end__", tools={"a": "own.*"}, widened="a")
def toolset_of_a_function():
    one = agent("a")

    @one.toolset(id="own")
    def own(ctx: RunContext[Any]) -> FunctionToolset:
        return FunctionToolset([fetch])

    return one


class Answer(BaseModel):
    text: str


@case("a:tool", "__start__>a a>__end__", tools={"a": "mail post"})
def output_functions():
    return agent("a", output_type=[Answer, mail, ToolOutput(fetch, name="post")])


HELPER = agent("helper", fetch)
QUIET = agent("quiet")


async def ask_helper(text: str) -> str:
    return (await HELPER.run(text)).output


async def ask_quiet(text: str) -> str:
    return (await QUIET.run(text)).output


@case(
    "a:tool helper:tool",
    "__start__>a a?helper helper>a a?__end__",
    tools={"a": "ask_helper ask_quiet", "helper": "fetch"},
    conditions={("a", "helper"): "calls ask_helper"},
)
def agents_as_tools():
    return agent("a", ask_helper, ask_quiet)


async def ask_someone(ctx: RunContext[Any], text: str) -> str:
    return (await ctx.deps.run(text)).output


@case("a:tool", "__start__>a a>__end__", tools={"a": "ask_someone.* ask_someone"}, widened="a")
def tool_that_runs_who_knows_whom():
    return agent("a", ask_someone)


# In graphs.


def graph_of(*calls):
    g = GraphBuilder()
    steps = [g.start_node, *(g.step(call, node_id=call.__name__) for call in calls), g.end_node]
    for source, target in itertools.pairwise(steps):
        g.add(g.edge_from(source).to(target))
    return g.build()


WRITER = agent("writer", fetch, Tool(mail, requires_approval=True))


async def write(ctx: StepContext[Any, Any, Any]) -> Any:
    return (await WRITER.run("x")).output


async def write_if_told(ctx: StepContext[Any, Any, Any]) -> Any:
    if input("ok?") != "y":
        return None
    return WRITER.run_sync("x").output


async def think(ctx: StepContext[Any, Any, Any]) -> Any:
    async with QUIET.run_stream("x") as run:
        return await run.get_output()


@case(
    "write:tool think write_if_told:tool",
    "__start__>write write>think think>write_if_told write_if_told>__end__",
    tools={"write": "fetch mail", "write_if_told": "fetch mail"},
    gated={"write": "mail", "write_if_told": "fetch mail"},
)
def agents_in_steps():
    return graph_of(write, think, write_if_told)


async def delegate(ctx: StepContext[Any, Any, Any]) -> Any:
    return await agent("x", ask_helper).run("x")


@case(
    "delegate:tool",
    "__start__>delegate delegate>__end__",
    tools={"delegate": "ask_helper agent.* fetch"},
    widened="delegate",
)
def agent_that_a_function_makes():
    return graph_of(delegate)


async def makes(ctx: StepContext[Any, Any, Any]) -> Any:
    return await Agent("test", tools=[mail]).run("x")


@case("makes:tool", "__start__>makes makes>__end__", tools={"makes": "mail"})
def agent_that_is_made_in_place():
    return graph_of(makes)


async def unknown(ctx: StepContext[Any, Any, Any]) -> Any:
    return await ctx.deps.agent.run("x")


@case("unknown:tool", "__start__>unknown unknown>__end__", tools={"unknown": "agent.*"}, widened="unknown")
def agent_that_is_not_known():
    return graph_of(unknown)
