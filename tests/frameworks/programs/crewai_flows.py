"""Flows of CrewAI. CASES: name -> (what builds the flow, the graph expected). Nothing is kicked off."""
# mypy: ignore-errors

import asyncio
import os
from enum import Enum
from typing import Literal

os.environ.setdefault("OPENAI_API_KEY", "x")
os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
os.environ.setdefault("OTEL_SDK_DISABLED", "true")

from crewai import LLM, Agent, Crew, Process, Task
from crewai.flow import Flow, and_, human_feedback, listen, or_, persist, router, start
from crewai.project import CrewBase, agent, crew, task
from crewai.tools import tool
from expected import expected
from pydantic import BaseModel

CASES = {}


def case(nodes, edges, **more):
    """The flow is the object of a class, unless the class alone is asked for."""

    def register(kind):
        build = (lambda: kind) if more.pop("alone", False) else kind
        CASES[kind.__name__] = (build, expected(nodes, edges, **more))
        return kind

    return register


@tool("search")
def search(query: str) -> str:
    """Searches."""
    return ""


@tool("mail")
def mail(to: str) -> str:
    """Sends."""
    return ""


def who(role, **more):
    return Agent(role=role, goal="g", backstory="b", llm="gpt-4o-mini", **more)


def job(name, agent, **more):
    return Task(name=name, description=f"do {name}", expected_output="o", agent=agent, **more)


# What triggers what.


@case("a:passthrough b:passthrough c:passthrough", "__start__>a a>b b>c c>__end__")
class InALine(Flow):
    @start()
    def a(self):
        return 1

    @listen(a)
    def b(self, given):
        return given

    @listen("b")
    def c(self):
        return 1


@case("a:passthrough b:passthrough", "__start__>a a>b b>__end__", alone=True)
class TheClassAlone(Flow):
    @start()
    def a(self):
        return 1

    @listen(a)
    def b(self):
        return 1


@case(
    "a:passthrough b:passthrough c:passthrough d:passthrough",
    "__start__>a a*b a*c b>d c>d d>__end__",
    joins={"d": ["b", "c"]},
)
class ForkAndJoin(Flow):
    @start()
    def a(self):
        return 1

    @listen(a)
    def b(self):
        return 1

    @listen(a)
    def c(self):
        return 1

    @listen(and_(b, c))
    def d(self):
        return 1


@case(
    "a:passthrough b:passthrough c:passthrough",
    "__start__*a __start__*b a>c b>c c>__end__",
)
class TwoStartsAndWhoeverIsFirst(Flow):
    @start()
    def a(self):
        return 1

    @start()
    def b(self):
        return 1

    @listen(or_(a, b))
    def c(self):
        return 1


@case("a:passthrough b:passthrough c:passthrough", "__start__>a a>b b>__end__ c>__end__")
class AListenerToNobody(Flow):
    @start()
    def a(self):
        return 1

    @listen(a)
    def b(self):
        return 1

    @listen("never")
    def c(self):
        return 1


@case(
    "a:passthrough b:passthrough c:passthrough d:passthrough e:passthrough",
    "__start__>a a*b a*c b>d c>d d>e c>e e>__end__",
    joins={"d": ["b", "c"], "e": ["d", "c"]},
)
class JoinsOfJoins(Flow):
    @start()
    def a(self):
        return 1

    @listen(a)
    def b(self):
        return 1

    @listen(a)
    def c(self):
        return 1

    @listen(and_(b, c))
    def d(self):
        return 1

    @listen(and_(d, c))
    def e(self):
        return 1


@case(
    "a:passthrough b:passthrough c:passthrough d:passthrough",
    "__start__>a a>b a>d b>c c>d d>__end__",
)
class AnyOfAJoinAndAnother(Flow):
    @start()
    def a(self):
        return 1

    @listen(a)
    def b(self):
        return 1

    @listen(b)
    def c(self):
        return 1

    @listen(or_(and_(a, c), "never"))
    def d(self):
        return 1


# Routers.


@case(
    "a:passthrough r:router b:passthrough c:passthrough",
    "__start__>a a>r r?b r?c b>__end__ c>__end__",
    conditions={("r", "b"): "yes", ("r", "c"): "no"},
)
class ARouterByItsReturns(Flow):
    @start()
    def a(self):
        return 1

    @router(a)
    def r(self):
        if self.state.get("x"):
            return "yes"
        return "no"

    @listen("yes")
    def b(self):
        return 1

    @listen("no")
    def c(self):
        return 1


@case("a:router b:passthrough", "__start__>a a?b a?__end__ b>__end__")
class ARouterThatStarts(Flow):
    @start()
    @router()
    def a(self) -> Literal["go", "stop"]:
        return "go" if os.environ.get("GO") else "stop"

    @listen("go")
    def b(self):
        return 1


class Grade(Enum):
    GOOD = "good"
    BAD = "bad"


@case(
    "a:passthrough r:router b:passthrough c:passthrough",
    "__start__>a a>r r?b r?c b>__end__ c>__end__",
)
class ARouterWithAnEnum(Flow):
    @start()
    def a(self):
        return 1

    @router(a)
    def r(self) -> Grade:
        return Grade.GOOD if self.state else Grade.BAD

    @listen("good")
    def b(self):
        return 1

    @listen("bad")
    def c(self):
        return 1


@case(
    "a:passthrough r:router b:passthrough c:passthrough",
    "__start__>a a>r r?b r?c r?__end__ b>__end__ c>__end__",
    widened="r",
)
class ARouterThatCannotBeKnown(Flow):
    @start()
    def a(self):
        return self.state["answer"]

    @router(a)
    def r(self, given):
        return str(given)

    @listen("yes")
    def b(self):
        return 1

    @listen("no")
    def c(self):
        return 1


@case(
    "a:passthrough r:router b:passthrough",
    "__start__>a a>r r?a r?b b>__end__",
)
class ALoop(Flow):
    @start("again")
    def a(self):
        return 1

    @router(a)
    def r(self):
        return "again" if os.environ.get("AGAIN") else "done"

    @listen("done")
    def b(self):
        return 1


@case(
    "a:passthrough write:passthrough r:router b:passthrough",
    "__start__>a a>write write>r r?write r?b b>__end__",
)
class ALoopByALabel(Flow):
    @start()
    def a(self):
        return 1

    @listen(or_(a, "again"))
    def write(self):
        return 1

    @router(write)
    def r(self) -> Literal["again", "done"]:
        return "done"

    @listen("done")
    def b(self):
        return 1


@case(
    "a:passthrough r:router b:passthrough c:passthrough",
    "__start__>a a>r a>c r?b r?c b>__end__ c>__end__",
    joins={"c": ["a", "r"]},
)
class BothALabelAndAMethod(Flow):
    @start()
    def a(self):
        return 1

    @router(a)
    def r(self):
        return "yes" if self.state else "no"

    @listen("no")
    def b(self):
        return 1

    @listen(and_(a, "yes"))
    def c(self):
        return 1


# People.


@case("a:human b:passthrough", "__start__>a a>b b>__end__")
class APersonByFeedback(Flow):
    @start()
    @human_feedback(message="well?")
    def a(self):
        return 1

    @listen(a)
    def b(self, given):
        return given


@case(
    "a:passthrough ask:human b:passthrough c:passthrough",
    "__start__>a a>ask ask?b ask?c b>__end__ c>__end__",
)
class APersonWhoRoutes(Flow):
    @start()
    def a(self):
        return 1

    @listen(a)
    @human_feedback(message="fine?", emit=["yes", "no"], llm="gpt-4o-mini", default_outcome="no")
    def ask(self):
        return 1

    @listen("yes")
    def b(self):
        return 1

    @listen("no")
    def c(self):
        return 1


@case("a:human b:human c:passthrough", "__start__>a a>b b>c c>__end__")
class APersonInTheBody(Flow):
    @start()
    def a(self):
        return input("name? ")

    @listen(a)
    def b(self):
        return self.help()

    def help(self):
        return self.ask("how much?")

    @listen(b)
    def c(self):
        return 1


@case(
    "a:tool a/human_feedback:human b:passthrough",
    "__start__>a a>a/human_feedback a/human_feedback>b b>__end__",
    tools={"a": "mail"},
)
class APersonSeesWhatAToolDid(Flow):
    @start()
    @human_feedback(message="fine?")
    def a(self):
        return mail.run(to="x")

    @listen(a)
    def b(self):
        return 1


# What bodies run.


@case("a b:tool c:tool", "__start__>a a>b b>c c>__end__", tools={"b": "search", "c": "mail search"})
class ModelsAndTools(Flow):
    @start()
    def a(self):
        return LLM(model="gpt-4o-mini").call("x")

    @listen(a)
    def b(self):
        return search.run(query="x")

    @listen(b)
    def c(self):
        return who("x", tools=[mail, search]).kickoff("x")


@case(
    "a:passthrough b:subgraph one:tool two c:passthrough",
    "__start__>a a>b b>one one>two two>c c>__end__",
    tools={"one": "search"},
)
class ACrewInside(Flow):
    @start()
    def a(self):
        return 1

    @listen(a)
    def b(self):
        x = who("x", tools=[search])
        team = Crew(agents=[x], tasks=[job("one", x), job("two", who("y"))])
        return team.kickoff(inputs={"a": 1}).raw

    @listen(b)
    def c(self):
        return 1


SHARED = Crew(agents=[who("w")], tasks=[job("w", who("w"), human_input=True)])


@case(
    "a:subgraph w:human b:subgraph b/w:human",
    "__start__>a a>w w>b b>b/w b/w>__end__",
)
class OneCrewTwice(Flow):
    @start()
    def a(self):
        return SHARED.kickoff()

    @listen(a)
    async def b(self):
        return await SHARED.kickoff_async()


@CrewBase
class Writers:
    agents_config = {}
    tasks_config = {}

    @agent
    def poet(self):
        return who("poet", tools=[search])

    @task
    def write(self):
        return Task(description="w", expected_output="o", agent=self.poet())

    @crew
    def crew(self):
        return Crew(agents=self.agents, tasks=self.tasks, process=Process.sequential)


@case("a:subgraph write:tool", "__start__>a a>write write>__end__", tools={"write": "search"})
class AClassOfACrewInside(Flow):
    @start()
    def a(self):
        return Writers().crew().kickoff()


@case(
    "a:passthrough r:router one two",
    "__start__>a a>one one?two one?r two>r r?a r?__end__",
)
class ARouterThatRunsACrew(Flow):
    """The crew runs before the router decides."""

    @start("again")
    def a(self):
        return 1

    @router(a)
    def r(self):
        first = Crew(agents=[who("x")], tasks=[job("one", who("x"))]).kickoff()
        if "bad" in first.raw:
            Crew(agents=[who("x")], tasks=[job("two", who("x"))]).kickoff()
        return "again" if self.state else "done"


@case(
    "a:subgraph one two",
    "__start__>a a*one a*two one>__end__ two>__end__",
)
class CrewsSideBySide(Flow):
    """They are started together."""

    @start()
    async def a(self):
        first = Crew(agents=[who("x")], tasks=[job("one", who("x"))])
        second = Crew(agents=[who("x")], tasks=[job("two", who("x"))])
        return await asyncio.gather(first.kickoff_async(), second.kickoff_async())


@case(
    "a:subgraph one",
    "__start__>a a?one a?__end__ one?one one?__end__",
)
class ACrewInALoop(Flow):
    @start()
    def a(self):
        team = Crew(agents=[who("x")], tasks=[job("one", who("x"))])
        for item in self.state["items"]:
            team.kickoff(inputs=item)


class Inner(Flow):
    @start()
    def x(self):
        return 1

    @listen(x)
    def y(self):
        return search.run(query="x")


@case(
    "a:subgraph x:passthrough y:tool b:passthrough",
    "__start__>a a>x x>y y>b b>__end__",
    tools={"y": "search"},
)
class AFlowInside(Flow):
    @start()
    def a(self):
        return Inner().kickoff()

    @listen(a)
    def b(self):
        return 1


@case("a:subgraph b:passthrough", "__start__>a a>b b>__end__", widened="a")
class ACrewThatCannotBeKnown(Flow):
    @start()
    def a(self):
        return self.state["team"].kickoff()

    @listen(a)
    def b(self):
        return 1


class State(BaseModel):
    word: Literal["yes", "no"] = "yes"
    count: int = 0


@case(
    "a:passthrough r:router b:passthrough c:passthrough",
    "__start__>a a>r r?b r?c b>__end__ c>__end__",
)
class ARouterByItsState(Flow[State]):
    @start()
    def a(self):
        self.state.count += 1

    @router(a)
    def r(self):
        return self.state.word

    @listen("yes")
    def b(self):
        return 1

    @listen("no")
    def c(self):
        return 1


@persist()
class Base(Flow[State]):
    @start()
    def a(self):
        return 1


@case("b:passthrough", "__start__>__end__ b>__end__")
class WithABaseClass(Base):
    """CrewAI 1.15 does not run the methods of a base class."""

    @listen("a")
    def b(self):
        return 1


@case(
    "a:subgraph one:tool two:tool",
    "__start__>a a>one one>two two>__end__",
    tools={"one": "search mail", "two": "search mail"},
)
class AManagerInside(Flow):
    """The tasks have no agents: the manager leaves them to any."""

    @start()
    def a(self):
        agents = [who("x", tools=[search]), who("y", tools=[mail])]
        tasks = [Task(name=name, description="d", expected_output="o") for name in ["one", "two"]]
        return Crew(agents=agents, tasks=tasks, process=Process.hierarchical, manager_llm="gpt-4o-mini").kickoff()
