"""CrewAI programs read from their source alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from guardagent.workflow.python_source.source_graphs import graph_of_source
from tests.frameworks.langgraph.test_source import sections, summary
from tests.frameworks.program_files import PROGRAMS, load, shape

Write = Callable[..., Path]

HEAD = """
from typing import Literal
from crewai import Agent, Crew, LLM, Process, Task
from crewai.flow.flow import Flow, and_, listen, or_, router, start
from crewai.flow.human_feedback import human_feedback
from crewai.project import CrewBase, agent, crew, task
from crewai.tasks.conditional_task import ConditionalTask
from crewai.tools import BaseTool, tool
from crewai_tools import SerperDevTool
from pydantic import BaseModel

@tool("Send Mail")
def mail(to: str) -> str:
    "Sends."
    return to

class Pay(BaseTool):
    name: str = "Pay Bill"
    description: str = "Pays."

    def _run(self, amount: int) -> str:
        return "paid" if input("pay? ") == "y" else "no"
"""

STYLES = """
# at the top of the file: a:tool+send_mail+pay_bill! b:human (>a a>b b>)
writer = Agent(role="writer", goal="g", backstory="b", tools=[mail, Pay()])
a = Task(name="a", description="d", expected_output="o", agent=writer)
b = Task(name="b", description="d", expected_output="o", agent=Agent(role="x", goal="g", backstory="b"), human_input=True)
crew = Crew(agents=[writer], tasks=[a, b], process=Process.sequential)

# by a function with lists: a:llm b:llm c:llm (*a (*b a>c b>c c>)
def build():
    one = Agent(role="one", goal="g", backstory="b")
    tasks = []
    for name in ("a", "b"):
        tasks.append(Task(name=name, description=name, expected_output="o", agent=one, async_execution=True))
    tasks.append(Task(name="c", description="c", expected_output="o", agent=one, context=tasks))
    return Crew(agents=[one], tasks=tasks)

# by a class with files beside it: look:tool+send_mail send:llm (>look look>send send>)
@CrewBase
class Office:
    agents_config = "agents.yaml"
    tasks_config = "tasks.yaml"

    @agent
    def clerk(self) -> Agent:
        return Agent(config=self.agents_config["clerk"], tools=[mail])

    @agent
    def sender(self) -> Agent:
        return Agent(config=self.agents_config["sender"])

    @task
    def look(self) -> Task:
        return Task(config=self.tasks_config["look"])

    @task
    def send(self) -> Task:
        return Task(config=self.tasks_config["send"])

    @crew
    def crew(self) -> Crew:
        return Crew(agents=self.agents, tasks=self.tasks, verbose=True)

def run():
    Office().crew().kickoff(inputs={})

# a flow that is run: a:passthrough r:router b:passthrough c:passthrough (>a a>r r?b r?c b>) c>)
class State(BaseModel):
    grade: Literal["good", "bad"] = "good"

class Essay(Flow[State]):
    @start()
    def a(self):
        self.state.grade = "good"

    @router(a)
    def r(self):
        return self.state.grade

    @listen("good")
    def b(self):
        return 1

    @listen("bad")
    def c(self):
        return 1

def kickoff():
    Essay().kickoff()

if __name__ == "__main__":
    kickoff()

# a flow with a person and a crew: write:subgraph write/w:tool+send_mail ask:human b:passthrough (>write write>write/w write/w>ask ask?b ask?write b>)
class Written(Flow):
    @start("again")
    def write(self):
        who = Agent(role="w", goal="g", backstory="b", tools=[mail])
        work = Task(name="write/w", description="d", expected_output="o", agent=who)
        return Crew(agents=[who], tasks=[work]).kickoff()

    @listen(write)
    @human_feedback(message="fine?", emit=["yes", "again"], llm="gpt-4o-mini")
    def ask(self, text):
        return text

    @listen("yes")
    def b(self):
        return 1

# joins, and names that are those of decorators: start:passthrough a:passthrough b:passthrough c:passthrough (>start start*a start*b a>c b>c c>)
class Joined(Flow):
    @start()
    def start(self):
        return 1

    @listen("start")
    def a(self):
        return 1

    @listen("start")
    def b(self):
        return 1

    @listen(and_(a, b))
    def c(self):
        return 1

# a manager: a:tool+send_mail (>a a>)
boss = Agent(role="boss", goal="g", backstory="b", allow_delegation=True)
work = Task(name="a", description="d", expected_output="o")
crew = Crew(agents=[Agent(role="x", goal="g", backstory="b", tools=[mail])], tasks=[work],
            process=Process.hierarchical, manager_agent=boss)

# a task under a condition: a:llm b:llm (>a a?b a?) b>)
x = Agent(role="x", goal="g", backstory="b")
a = Task(name="a", description="d", expected_output="o", agent=x)
b = ConditionalTask(name="b", description="d", expected_output="o", agent=x, condition=lambda out: len(out.raw) > 9)
crew = Crew(agents=[x], tasks=[a, b])

# a task that may be left out: a:llm b:llm c:llm (>a a?b a>c b?c c>)
import os
x = Agent(role="x", goal="g", backstory="b")
tasks = [Task(name="a", description="d", expected_output="o", agent=x)]
if os.getenv("CHECK"):
    tasks.append(Task(name="b", description="d", expected_output="o", agent=x))
tasks.append(Task(name="c", description="d", expected_output="o", agent=x))
crew = Crew(agents=[x], tasks=tasks)

# one of two tasks: a:llm b:llm c:llm (?a (?b a?c b?c c>)
def first(who, model):
    if model:
        return Task(name="a", description="d", expected_output="o", agent=who, output_pydantic=model)
    return Task(name="b", description="d", expected_output="o", agent=who)
def build(model=None):
    x = Agent(role="x", goal="g", backstory="b")
    return Crew(agents=[x], tasks=[first(x, model), Task(name="c", description="d", expected_output="o", agent=x)])

# tools in a class, and a crew of the flow's own: begin:subgraph w:tool+look_it_up+other (>begin begin?w w?w begin?) w?)
class Tools:
    @tool("Look it up")
    def look(query):
        "Looks."

    @staticmethod
    @tool
    def other(query: str) -> str:
        "Others."

class Own(Flow):
    def __init__(self, **more):
        super().__init__(**more)
        x = Agent(role="x", goal="g", backstory="b", tools=[Tools.look, Tools.other])
        self.team = Crew(agents=[x], tasks=[Task(name="w", description="d", expected_output="o", agent=x)])

    @start()
    def begin(self):
        for item in self.state["items"]:
            self.team.kickoff(inputs=item)

# a crew that is a property: one:subgraph t:llm (>one one>t t>)
from crewai.flow.flow import Flow, start

class Research:
    def __init__(self, topic):
        self.agent = Agent(role=topic, goal="g", backstory="b")

    @property
    def crew(self):
        task = Task(name="t", description="d", expected_output="e", agent=self.agent)
        return Crew(agents=[self.agent], tasks=[task])

class Run(Flow):
    @start()
    def one(self):
        return Research(self.state["topic"]).crew.kickoff()

Run().kickoff()

# an agent that is changed afterwards: a:tool+send_mail (>a a>)
x = Agent(role="x", goal="g", backstory="b")
x.tools = [mail]
crew = Crew(agents=[x], tasks=[])
crew.tasks.append(Task(name="a", description="d", expected_output="o", agent=x))
"""

CASES = sections(STYLES)
YAML = {
    "agents.yaml": "clerk: {role: clerk, goal: g, backstory: b}\nsender: {role: sender, goal: g, backstory: b}\n",
    "tasks.yaml": "look: {description: d, expected_output: o, agent: clerk}\n"
    "send: {description: d, expected_output: o, agent: sender, context: [look]}\n",
}


@pytest.mark.parametrize("name", CASES)
def test_a_program_in_some_style_gives_its_graph(write: Write, name: str) -> None:
    """The source alone determines the graph, in any style of building crews and flows."""
    expected, code = CASES[name]
    for file, content in YAML.items():
        write(file, content)
    graph = graph_of_source(write("program.py", HEAD + code))
    assert sorted(summary(graph).split()) == sorted(expected.split())


def test_nothing_is_imported_or_run(write: Write, capfd: pytest.CaptureFixture[str]) -> None:
    """A program that prints, or has a failing import, is read without loading any module."""
    path = write("program.py", "import no_such_module\nprint('ran')\n" + HEAD + CASES["a flow that is run"][1])
    before = set(sys.modules)
    graph_of_source(path)
    assert capfd.readouterr().out == ""
    assert not {name for name in set(sys.modules) - before if not name.startswith("guardagent")}


def test_unknown_tools_widen_the_node(write: Write) -> None:
    """A task with tools from another module is noted to have others."""
    code = """
    from elsewhere import make_tools
    x = Agent(role="x", goal="g", backstory="b", tools=[mail, *make_tools()])
    crew = Crew(agents=[x], tasks=[Task(name="a", description="d", expected_output="o", agent=x)])
    """
    node = graph_of_source(write("program.py", HEAD + code.replace("\n    ", "\n"))).by_id["a"]
    assert (node.tools, bool(node.metadata["widened"])) == (("send_mail",), True)


def test_unknown_tasks_widen_the_crew(write: Write) -> None:
    """If tasks are unknown, one node represents the others, in any order."""
    code = """
    from elsewhere import more
    x = Agent(role="x", goal="g", backstory="b")
    crew = Crew(agents=[x], tasks=[Task(name="a", description="d", expected_output="o", agent=x), *more()])
    """
    graph = graph_of_source(write("program.py", HEAD + code.replace("\n    ", "\n")))
    edges = {(edge.source, edge.target) for edge in graph.edges}
    assert {("a", "tasks"), ("tasks", "a"), ("__start__", "a"), ("tasks", "__end__")} <= edges
    assert graph.by_id["tasks"].metadata["widened"]["reason"].startswith("the tasks of the crew")


def test_an_unknown_condition_of_a_listener_is_noted(write: Write) -> None:
    """A listener to an imported name is noted, with its line."""
    code = "from elsewhere import LABEL\n" + CASES["a flow that is run"][1].replace('@listen("bad")', "@listen(LABEL)")
    graph = graph_of_source(write("program.py", HEAD + code))
    assert any("the source does not determine what the method waits for" in note for note in graph.notes)


def test_missing_configuration_is_noted(write: Write) -> None:
    """A note names the missing YAML files of a class."""
    code = CASES["by a class with files beside it"][1].replace(".yaml", "_of_nobody.yaml")
    graph = graph_of_source(write("program.py", HEAD + code))
    assert any("agents_of_nobody.yaml" in note for note in graph.notes)


def test_a_method_has_the_location_of_its_definition(write: Write) -> None:
    """File and line are those of the method."""
    path = write("program.py", HEAD + CASES["a flow that is run"][1])
    node = graph_of_source(path).by_id["r"]
    assert node.metadata["file"] == str(path)
    assert "def r(self):" in "".join(path.read_text().splitlines(keepends=True)[node.metadata["line"] - 1 :][:2])


def test_source_and_object_give_the_same_graph() -> None:
    """Both agree on every program of the tests."""
    agree(*sorted(PROGRAMS.glob("crewai_*.py")))


def test_source_and_object_agree_on_the_reference_programs(shared: Path) -> None:
    """Both agree on the reference programs."""
    agree(shared / "workflows" / "programs" / "crewai_programs.py")


def agree(*paths: Path) -> None:
    pytest.importorskip("crewai", reason="CrewAI is not installed")
    from guardagent.workflow.extraction import extract

    for path in paths:
        module: ModuleType = load(path)
        for name, (build, _) in module.CASES.items():
            of_object = extract(build(), name)
            of_source = graph_of_source(path, name if hasattr(module, name) else build.__name__)
            assert shape(of_source) == shape(of_object), name
            assert {edge.condition for edge in of_source.edges} == {edge.condition for edge in of_object.edges}, name
