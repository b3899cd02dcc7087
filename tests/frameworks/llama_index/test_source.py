"""Programs of LlamaIndex read from their source alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent.workflow.python_source.source_graphs import graph_of_source, graphs_of_source
from tests.frameworks.langgraph.test_source import sections, summary
from tests.frameworks.program_files import PROGRAMS, conditions, load, shape

Write = Callable[..., Path]

HEAD = """
from typing import Optional, Union
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.tools import FunctionTool, QueryEngineTool, ToolMetadata
from llama_index.core.workflow import Context, Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent
from llama_index.core.workflow import Workflow, step
from elsewhere import far, helper

class A(Event): pass
class B(Event): pass

def fetch(url: str) -> str: return url
def mail(to: str) -> str: return to
"""

STYLES = """
# a class that is only defined: one:router two:passthrough (>one one?two one?) two>one
class Flow(Workflow):
    @step
    async def one(self, ev: StartEvent | B) -> A | StopEvent: return A() if ev else StopEvent()
    @step(num_workers=3)
    async def two(self, ev: A) -> B: return B()

# run in a function: one:passthrough two:passthrough (>one one>two two>)
class Flow(Workflow):
    @step()
    async def one(self, ctx: Context, ev: StartEvent) -> "A": return A()
    @step
    async def two(self, ctx: Context[dict], ev: A) -> Optional[StopEvent]: return StopEvent()

async def main():
    await Flow(timeout=60).run(topic="x")

# steps of a base class: one:passthrough two:human (>one one>two two>)
class Base(Workflow):
    @step
    async def one(self, ev: StartEvent) -> A: return A()
    @step
    async def two(self, ev: A) -> StopEvent: return StopEvent()

class Flow(Base):
    @step
    async def two(self, ev: A) -> StopEvent: return StopEvent(result=input("ok?"))

flow = Flow()

# many sent and collected: one:passthrough two:passthrough all:passthrough (>one one*two two>all all>)
class Flow(Workflow):
    @step
    async def one(self, ctx: Context, ev: StartEvent) -> A | None:
        for topic in ev.topics:
            ctx.send_event(A(topic=topic))
    @step(num_workers=4)
    async def two(self, ev: A) -> B: return B()
    @step
    async def all(self, ctx: Context, ev: B) -> Union[StopEvent, None]:
        return StopEvent() if ctx.collect_events(ev, [B] * 3) else None

# a person between steps: one:passthrough InputRequiredEvent:human two:passthrough (>one one>InputRequiredEvent InputRequiredEvent>two two>)
class Flow(Workflow):
    @step
    async def one(self, ev: StartEvent) -> InputRequiredEvent: return InputRequiredEvent(prefix="?")
    @step
    async def two(self, ev: HumanResponseEvent) -> StopEvent: return StopEvent()

# an agent of an attribute: one:subgraph a:tool+fetch (>one one?a a@one one?)
class Flow(Workflow):
    def __init__(self, **more):
        super().__init__(**more)
        self.agent = FunctionAgent(name="a", tools=[fetch])
    @step
    async def one(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result=await self.agent.run(user_msg="x"))

# an agent of an argument: one:subgraph a:tool+mail (>one one?a a@one one?)
class Flow(Workflow):
    def __init__(self, agent, **more):
        super().__init__(**more)
        self.agent = agent
    @step
    async def one(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result=await self.agent.run(user_msg="x"))

flow = Flow(FunctionAgent(name="a", tools=[mail]), timeout=5)

# an unknown agent: one:tool+agent.* (>one one>)
class Flow(Workflow):
    def __init__(self, agent, **more):
        super().__init__(**more)
        self.agent = agent
    @step
    async def one(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result=await self.agent.run(user_msg="x"))

# a team: plan:tool+fetch write:tool+post (>plan plan?write plan?) write>)
write = ReActAgent(name="write", tools=[FunctionTool.from_defaults(fn=mail, name="post")], can_handoff_to=[])
plan = FunctionAgent(name="plan", tools=[fetch], can_handoff_to=["write"])
team = AgentWorkflow(agents=[plan, write], root_agent=plan.name)

# a team with an agent of another file: a:llm helper:tool+helper.* (>a a?helper a?) helper?a helper?)
team = AgentWorkflow([FunctionAgent(name="a"), helper], root_agent="a")

# of functions alone: Agent:tool+fetch+mail (>Agent Agent>)
team = AgentWorkflow.from_tools_or_functions([fetch, mail], llm=None)

# tools of other kinds: a:tool+docs+query_engine_tool+far+far.* (>a a>)
docs = QueryEngineTool(query_engine=far, metadata=ToolMetadata(name="docs", description="x"))
agent = ReActAgent(name="a", tools=[docs, QueryEngineTool.from_defaults(far), far])

# an unannotated step: one:router two:passthrough (>one one?one one?two one?) two>)
class Flow(Workflow):
    @step
    async def one(self, ev: StartEvent): return ev.following
    @step
    async def two(self, ev: A) -> StopEvent: return StopEvent()
"""

CASES = sections(STYLES)


@pytest.mark.parametrize("name", CASES)
def test_a_program_in_some_style_gives_its_graph(write: Write, name: str) -> None:
    """The source alone determines the graph, in any style of building workflows and teams."""
    expected, code = CASES[name]
    assert sorted(summary(graph_of_source(write("program.py", HEAD + code))).split()) == sorted(expected.split())


def test_a_workflow_in_two_files_is_read(write: Write) -> None:
    """Events of another file of the program are followed."""
    write("events.py", "from workflows.events import Event\nclass Found(Event): pass\n")
    code = """
from workflows import Workflow, step
from workflows.events import StartEvent, StopEvent
from events import Found
class Flow(Workflow):
    @step
    async def one(self, ev: StartEvent) -> Found: return Found()
    @step
    async def two(self, ev: Found) -> StopEvent: return StopEvent()
"""
    assert summary(graph_of_source(write("program.py", code))).endswith("(>one one>two two>)")


def test_each_class_is_a_workflow_of_its_own(write: Write) -> None:
    """A file with two classes has two workflows, by their names."""
    code = "".join(
        f"class {name}(Workflow):\n    @step\n    async def one(self, ev: StartEvent) -> StopEvent: return StopEvent()\n"
        for name in ("First", "Second")
    )
    assert [workflow.name for workflow in graphs_of_source(write("program.py", HEAD + code)).workflows] == [
        "First",
        "Second",
    ]


def test_source_and_object_give_the_same_graph() -> None:
    """Both agree on every program of the tests, including edge conditions."""
    pytest.importorskip("llama_index.core.agent.workflow", reason="llama-index-core is not installed")
    from guardagent.workflow.extraction import extract

    for path in sorted(PROGRAMS.glob("llama_index_*.py")):
        for name, (build, _) in load(path).CASES.items():
            of_object = extract(build(), name)
            of_source = graph_of_source(path, name if build.__name__ == "<lambda>" else build.__name__)
            assert shape(of_source) == shape(of_object), name
            assert conditions(of_source) == conditions(of_object), name
