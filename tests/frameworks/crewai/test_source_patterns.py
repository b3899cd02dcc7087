"""CrewAI programs in the ways in which projects are laid out: each file has one workflow, with the stated graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent.workflow.python_source.source_graphs import graphs_of_source
from tests.frameworks.langgraph.test_source import sections, summary

Write = Callable[..., Path]

HEAD = """
from crewai import Agent, Crew, Process, Task
from crewai.flow.flow import Flow, and_, listen, or_, router, start
from crewai.project import CrewBase, agent, crew, task
from crewai.tools import BaseTool, tool
from crewai_tools import MCPServerAdapter, SerperDevTool
from pydantic import Field
from staff import Staff, Work, look
from elsewhere import foreign_task, make_task
someone = Agent(role="x", goal="g", backstory="b")
WORDS = dict(description="d", expected_output="o")
"""
STAFF = """
from crewai import Agent, Task
from crewai.tools import tool

@tool("Look Up")
def look(word: str) -> str:
    "Looks up."
    return word

class Staff:
    def finder(self):
        return Agent(role="finder", goal="g", backstory="b", tools=[look])

    def writer(self):
        return Agent(role="writer", goal="g", backstory="b")

class Work:
    def find(self, agent):
        return Task(description="d", expected_output="o", agent=agent)

    def write(self, agent, context):
        return Task(description="d", expected_output="o", agent=agent, context=context)
"""

PATTERNS = """
# factories of another file in a method: task_1:tool+look_up task_2:llm (>task_1 task_1>task_2 task_2>)
class Trip:
    def __init__(self, place):
        self.place = place

    def run(self):
        staff, work = Staff(), Work()
        finder, writer = staff.finder(), staff.writer()
        find = work.find(finder)
        team = Crew(agents=[finder, writer], tasks=[find, work.write(writer, [find])])
        return team.kickoff(inputs={"place": self.place})

if __name__ == "__main__":
    print(Trip(input("where? ")).run())

# tasks without a crew, in order: task_1:llm task_2:llm task_3:human (>task_1 task_1>task_2 task_2>task_3 task_3>)
first = Task(**WORDS, agent=someone)
second = Task(**WORDS, agent=someone)
third = Task(**WORDS, agent=someone, human_input=True)

# a task that no crew takes: task_1:llm (>task_1 task_1>)
used = Task(**WORDS, agent=someone)
unused = Task(**WORDS, agent=someone)
team = Crew(agents=[someone], tasks=[used])

def another_agent(role):
    return Agent(role=role, goal="g", backstory="b")

# an unknown number of tasks: task_1:tool+look_up (?task_1 task_1?task_1 task_1?)
def load(config):
    agents = {}
    for name, one in config["agents"].items():
        agents[name] = Agent(role=name, goal="g", backstory="b", tools=[look] if one.get("looks") else [])
    tasks = []
    for one in config["tasks"]:
        who = agents.get(one["agent"])
        if not who:
            raise ValueError(one)
        tasks.append(Task(**WORDS, agent=who))
    return Crew(agents=list(agents.values()), tasks=tasks)

# a table of tasks that a constructor reads: a:llm b:llm c:llm (>a a>b b>c c>)
class Team:
    def __init__(self):
        self.tasks = []
        self._build()

    def _build(self):
        for name in ("a", "b", "c"):
            self.tasks.append(Task(name=name, **WORDS, agent=someone))
        self.crew = Crew(agents=[someone], tasks=self.tasks)

    def run(self):
        return self.crew.kickoff()

# imported tasks: foreign_task:subgraph make_task:subgraph c:tool (>foreign_task foreign_task>make_task make_task>c c>)
last = Task(name="c", **WORDS, agent=someone)
team = Crew(agents=[someone], tasks=[foreign_task, make_task(someone), last])

# a router that returns what it is passed: a:passthrough r:router b:passthrough c:passthrough (>a a>r r?b r?c b>) c>)
class Review(Flow):
    @start()
    def a(self):
        return "good" if self.state["grade"] > 3 else "bad"

    @router(a)
    def r(self, grade):
        return grade

    @listen("good")
    def b(self):
        return 1

    @listen("bad")
    def c(self):
        return 1

# a crew of a function that a flow runs: a:subgraph a/b:llm b:passthrough (>a a>a/b a/b>b b>)
def team_for(name):
    return Crew(agents=[someone], tasks=[Task(name=name, **WORDS, agent=someone)])

class Nested(Flow):
    @start()
    def a(self):
        return team_for("b").kickoff()

    @listen(a)
    def b(self):
        return 1

# names of tools: task_1:tool+alpha+beta+crewai_tools.SerperDevTool (>task_1 task_1>)
class Alpha(BaseTool):
    name: str = Field(default="Alpha", description="n")
    description: str = "d"

    def _run(self) -> str:
        return ""

class Beta(BaseTool):
    def __init__(self, name="Beta", **more):
        super().__init__(name=name, description="d", **more)

    def _run(self) -> str:
        return ""

user = Agent(role="u", goal="g", backstory="b", tools=[Alpha(), Beta(), SerperDevTool(n_results=3)])
team = Crew(agents=[user], tasks=[Task(**WORDS, agent=user)])

# tools of a server: task_1:tool (>task_1 task_1>)
with MCPServerAdapter({"url": "u"}) as tools:
    user = Agent(role="u", goal="g", backstory="b", tools=tools)
    team = Crew(agents=[user], tasks=[Task(**WORDS, agent=user)])
    team.kickoff()

# one of two agents: task_1:tool+look_up (>task_1 task_1>)
def build(fast):
    who = Staff().finder() if fast else Staff().writer()
    return Crew(agents=[who], tasks=[Task(**WORDS, agent=who)])
"""

CASES = sections(PATTERNS)


@pytest.mark.parametrize("name", CASES)
def test_a_pattern_gives_one_workflow_with_its_graph(write: Write, name: str) -> None:
    """Parts of a workflow, such as unused tasks and helper functions, are no workflows of their own."""
    expected, code = CASES[name]
    write("staff.py", STAFF)
    workflows = graphs_of_source(write("program.py", HEAD + code)).workflows
    assert [sorted(summary(workflow.graph).split()) for workflow in workflows] == [sorted(expected.split())]


@pytest.mark.parametrize(
    ("name", "node", "reason"),
    [
        ("tasks without a crew, in order", "task_2", "the order of their definitions is assumed"),
        ("imported tasks", "foreign_task", "is defined elsewhere"),
        ("names of tools", "task_1", "its declared name is defined elsewhere"),
        ("tools of a server", "task_1", "its tools come from code that does not determine them"),
    ],
)
def test_what_is_not_seen_is_marked(write: Write, name: str, node: str, reason: str) -> None:
    """A mark says what is assumed."""
    write("staff.py", STAFF)
    graph = graphs_of_source(write("program.py", HEAD + CASES[name][1])).workflows[0].graph
    assert reason in graph.by_id[node].metadata["widened"]["reason"]


def test_a_file_that_only_runs_an_imported_crew_has_its_graph(write: Write) -> None:
    """The crew is found once, also if a function runs it, and the file of its class is another one."""
    write("office.py", HEAD + OFFICE)
    code = (
        "from office import Office\ndef run():\n    Office().crew().kickoff()\nif __name__ == '__main__':\n    run()\n"
    )
    workflows = graphs_of_source(write("main.py", code)).workflows
    assert [(workflow.name, sorted(workflow.graph.by_id)) for workflow in workflows] == [
        ("Office", ["__end__", "__start__", "look"])
    ]


OFFICE = """
@CrewBase
class Office:
    @agent
    def clerk(self):
        return Agent(role="clerk", goal="g", backstory="b")

    @task
    def look(self):
        return Task(description="d", expected_output="o", agent=self.clerk())

    @crew
    def crew(self):
        return Crew(agents=self.agents, tasks=self.tasks)
"""
