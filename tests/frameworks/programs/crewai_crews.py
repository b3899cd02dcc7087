"""Crews of CrewAI. CASES: name -> (what builds the crew, the graph expected). Nothing is kicked off."""
# mypy: ignore-errors

import os

os.environ.setdefault("OPENAI_API_KEY", "x")
os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
os.environ.setdefault("OTEL_SDK_DISABLED", "true")

from crewai import Agent, Crew, Process, Task
from crewai.project import CrewBase, agent, crew, task
from crewai.project import tool as tool_of_crew
from crewai.tasks.conditional_task import ConditionalTask
from crewai.tools import BaseTool, tool
from expected import cases

CASES, case = cases()


@tool("search")
def search(query: str) -> str:
    """Searches."""
    return ""


@tool("mail")
def mail(to: str) -> str:
    """Sends."""
    return ""


class Pay(BaseTool):
    name: str = "Pay Bill"
    description: str = "Pays, if a person agrees."

    def _run(self, amount: int) -> str:
        if input(f"pay {amount}? ") != "y":
            return "no"
        return "paid"


def who(role, **more):
    return Agent(role=role, goal="g", backstory="b", llm="gpt-4o-mini", **more)


def job(name, agent=None, **more):
    return Task(name=name, description=f"do {name}", expected_output="o", agent=agent, **more)


def team(*tasks, **more):
    agents = list({id(one.agent): one.agent for one in tasks if one.agent}.values())
    return Crew(**{"agents": agents, **more}, tasks=list(tasks))


@case("a:tool b", "__start__>a a>b b>__end__", tools={"a": "search"})
def in_a_line():
    return team(job("a", who("x", tools=[search])), job("b", who("y")))


@case("a:tool b:tool", "__start__>a a>b b>__end__", tools={"a": "mail", "b": "search"})
def a_tasks_own_tools_replace_its_agents():
    x = who("x", tools=[search])
    return team(job("a", x, tools=[mail]), job("b", x))


@case("a b c", "__start__>a a>b b>c c>__end__")
def context_changes_no_order():
    a, b = job("a", who("x")), job("b", who("y"))
    return team(a, b, job("c", who("z"), context=[a]))


@case("a a#2 task_3", "__start__>a a>a#2 a#2>task_3 task_3>__end__")
def names_that_are_not_unique_or_missing():
    return team(job("a", who("x")), job("a", who("y")), job(None, who("z")))


@case("a b c", "__start__*a __start__*b a>c b>c c>__end__", joins={"c": ["a", "b"]})
def side_by_side():
    x = who("x")
    return team(job("a", x, async_execution=True), job("b", x, async_execution=True), job("c", x))


@case("a b c d", "__start__>a a*b a*c b>d c>d d>__end__", joins={"d": ["b", "c"]})
def side_by_side_in_the_middle():
    x = who("x")
    return team(job("a", x), job("b", x, async_execution=True), job("c", x, async_execution=True), job("d", x))


@case("a b c", "__start__>a a>b b>c c>__end__")
def alone_beside_nothing():
    x = who("x")
    return team(job("a", x), job("b", x, async_execution=True), job("c", x))


@case("a b", "__start__>a a>b b>__end__")
def the_last_one_by_itself():
    x = who("x")
    return team(job("a", x), job("b", x, async_execution=True))


def is_long(output):
    return len(output.raw) > 9


@case("a b c", "__start__>a a?b a?c b>c c>__end__")
def a_condition():
    x = who("x")
    maybe = ConditionalTask(name="b", description="b", expected_output="o", agent=x, condition=is_long)
    return team(job("a", x), maybe, job("c", x))


@case("a b c", "__start__>a a?b a?c a?__end__ b?c b?__end__ c>__end__")
def conditions_to_the_end():
    x = who("x")
    some = [
        ConditionalTask(
            name=name, description=name, expected_output="o", agent=x, condition=lambda output: bool(output.raw)
        )
        for name in "bc"
    ]
    return team(job("a", x), *some)


@case("a b c d", "__start__*a __start__*b a?c b?c a?d b?d c>d d>__end__", joins={"c": ["a", "b"], "d": ["a", "b"]})
def a_condition_after_two_side_by_side():
    x = who("x")
    maybe = ConditionalTask(name="c", description="c", expected_output="o", agent=x, condition=is_long)
    return team(job("a", x, async_execution=True), job("b", x, async_execution=True), maybe, job("d", x))


@case("a:human b", "__start__>a a>b b>__end__")
def a_person_reviews():
    return team(job("a", who("x"), human_input=True), job("b", who("x")))


@case(
    "a:tool a/human_input:human b",
    "__start__>a a>a/human_input a/human_input@a a/human_input>b b>__end__",
    tools={"a": "mail"},
)
def a_person_reviews_what_tools_did():
    """The tools were called before the person sees anything: the person is a node after them."""
    return team(job("a", who("x", tools=[mail]), human_input=True), job("b", who("y")))


@case("a b", "__start__>a a@a a>b b>__end__")
def a_guardrail():
    return team(
        job("a", who("x"), guardrail=lambda output: (True, output), guardrail_max_retries=2), job("b", who("x"))
    )


@case("a", "__start__>a a@a a>__end__")
def guardrails_in_words():
    return team(job("a", who("x"), guardrails=["It is short.", "It is true."]))


@case("a:tool b", "__start__>a a>b b>__end__", tools={"a": "search"})
def a_manager_that_is_made():
    return team(
        job("a", who("x", tools=[search])), job("b", who("y")), process=Process.hierarchical, manager_llm="gpt-4o-mini"
    )


@case("a:tool", "__start__>a a>__end__", tools={"a": "search mail"})
def a_manager_who_chooses_the_agent():
    agents = [who("x", tools=[search]), who("y", tools=[mail])]
    return Crew(agents=agents, tasks=[job("a")], process=Process.hierarchical, manager_agent=who("boss"))


@case("a:tool b:tool", "__start__>a a>b b>__end__", tools={"a": "search", "b": "mail search"})
def work_that_can_be_delegated():
    """The tools of the delegates are called within the task of the delegating agent."""
    x, y = who("x", tools=[search]), who("y", tools=[mail], allow_delegation=True)
    return team(job("a", x), job("b", y))


@case("a", "__start__>a a>__end__")
def nobody_to_delegate_to():
    return team(job("a", who("x", allow_delegation=True)))


@case("a:tool", "__start__>a a>__end__", tools={"a": "pay_bill"}, gated={"a": "pay_bill"})
def a_tool_that_asks_a_person():
    return team(job("a", who("x", tools=[Pay()])))


@case("a:tool", "__start__>a a>__end__", tools={"a": "search"}, widened="a")
def tools_of_a_server():
    return team(job("a", who("x", tools=[search], mcps=["https://example.com/mcp"])))


@case("a:tool", "__start__>a a>__end__", widened="a")
def only_tools_of_a_server():
    return team(job("a", who("x", mcps=["https://example.com/mcp"])))


@case("a:tool", "__start__>a a>__end__", tools={"a": "search"})
def an_agent_alone():
    return who("a", tools=[search])


@case("a:tool", "__start__>a a>__end__", tools={"a": "search"})
def a_task_alone():
    return job("a", who("x", tools=[search]))


@CrewBase
class Poems:
    """Without YAML files."""

    agents_config = {}
    tasks_config = {}

    def __init__(self, style="free"):
        self.style = style
        self.shared = [search]

    @agent
    def poet(self):
        return Agent(role="poet", goal="g", backstory="b", llm="gpt-4o-mini", tools=self.shared)

    @agent
    def editor(self):
        return Agent(role="editor", goal="g", backstory="b", llm="gpt-4o-mini")

    @task
    def write(self):
        return Task(description="write", expected_output="o", agent=self.poet())

    @task
    def edit(self):
        return Task(
            description="edit", expected_output="o", agent=self.editor(), context=[self.write()], human_input=True
        )

    @crew
    def crew(self):
        return Crew(agents=self.agents, tasks=self.tasks, process=Process.sequential)


@case("write:tool edit:human", "__start__>write write>edit edit>__end__", tools={"write": "search"})
def a_class_of_a_crew():
    return Poems


@case("write:tool edit:human", "__start__>write write>edit edit>__end__", tools={"write": "search"})
def an_object_of_a_class_of_a_crew():
    return Poems()


@case("write:tool edit:human", "__start__>write write>edit edit>__end__", tools={"write": "search"})
def the_crew_that_it_makes():
    return Poems().crew()


@CrewBase
class Configured:
    """With YAML files."""

    agents_config = "crewai_agents.yaml"
    tasks_config = "crewai_tasks.yaml"

    @agent
    def clerk(self):
        return Agent(config=self.agents_config["clerk"], tools=[search])

    @tool_of_crew
    def mail(self):
        return mail

    @task
    def look(self):
        return Task(config=self.tasks_config["look"])

    @task
    def send(self):
        return Task(config=self.tasks_config["send"])

    @crew
    def crew(self):
        return Crew(agents=self.agents, tasks=self.tasks)


@case(
    "look:tool send:tool send/human_input:human",
    "__start__>look look>send send>send/human_input send/human_input@send send/human_input>__end__",
    tools={"look": "search", "send": "mail"},
)
def a_class_with_files():
    return Configured
