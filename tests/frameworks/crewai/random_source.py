"""Random CrewAI crews and flows as source text, in the ways in which people write them."""

from __future__ import annotations

import random

TOOLS = ("search", "mail", "pay", "log")
HEAD = '''
import json
import random
import re

from crewai import Agent, BaseLLM, Crew, Process, Task
from crewai.flow.flow import Flow, and_, listen, or_, router, start
from crewai.project import CrewBase, agent, crew, task
from crewai.tasks.conditional_task import ConditionalTask
from crewai.tools import BaseTool, tool

RAN = []


class TooLong(Exception):
    pass


def ran(kind, name):
    RAN.append((kind, name))
    if len(RAN) > 60:
        raise TooLong


class Model(BaseLLM):
    """A model that calls any tool that it is offered, or answers."""

    def call(self, messages, tools=None, callbacks=None, available_functions=None, **more):
        text = messages if isinstance(messages, str) else str(messages[0]["content"])
        offered = re.findall(r"^Tool Name: (\\w+)", text.replace("\\\\n", "\\n"), re.MULTILINE)
        if offered and random.random() < 0.5:
            return f"Thought: x\\nAction: {random.choice(offered)}\\nAction Input: {json.dumps({'n': random.random()})}"
        return "Thought: I now know the final answer\\nFinal Answer: done"

    def supports_function_calling(self):
        return False


llm = Model(model="random")
'''
TOOL = '''

@tool("{name}")
def {name}(n: float) -> str:
    """Does it."""
    ran("tool", "{name}")
    return "done"
'''
CLASS_TOOL = """

class Tool{name}(BaseTool):
    name: str = "{name}"
    description: str = "Does it."

    def _run(self, n: float) -> str:
        ran("tool", "{name}")
        return "done"

{name} = Tool{name}()
"""
HELPERS = """

BY_NAME = {"search": search, "mail": mail, "pay": pay, "log": log}


def done(name):
    def note(output):
        ran("step", name)
    return note


def who(role, tools=(), **more):
    return Agent(role=role, goal="g", backstory="b", llm=llm, tools=[*tools], **more)


def maybe(output):
    return random.random() < 0.5


def use(one):
    one.run(n=random.random())

"""


class Writer:
    """Writes one program; the workflow is the variable `work`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.is_flow = self._flip()
        self.functions: list[str] = []

    def program(self) -> str:
        self.functions = [name for name in TOOLS if self._flip(0.7)]
        tools = "".join((TOOL if name in self.functions else CLASS_TOOL).format(name=name) for name in TOOLS)
        return HEAD + tools + HELPERS + "\n".join(self._flow() if self.is_flow else self._crew("work")) + "\n"

    def _flip(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    def _tools(self, least: int = 0) -> str:
        some = self.random.sample(TOOLS, self.random.randint(least, 2))
        written = [tool if self._flip(0.7) else f"BY_NAME[{tool!r}]" for tool in some]
        return f"[{', '.join(written)}]"

    def _crew(self, variable: str, prefix: str = "") -> list[str]:
        write = self.random.choice([self._plain, self._plain, self._function, self._decorated, self._loop])
        return write(variable, prefix)

    def _tasks(self, prefix: str) -> list[tuple[str, str, str]]:
        """Names, classes and options of some tasks, each of which knows of those before it."""
        tasks = list[tuple[str, str, str]]()
        for at in range(self.random.randint(1, 4)):
            name, more = f"{prefix}t{at}", ""
            kind = "ConditionalTask" if at and self._flip(0.15) else "Task"
            if kind == "Task" and self._flip(0.25):
                more += ", async_execution=True"
            elif at and self._flip(0.3):
                more += f", context=[CONTEXT_{self.random.choice(tasks)[0]}]"
            if self._flip(0.3):
                more += f", tools={self._tools(1)}"
            tasks.append((name, kind, more + (", condition=maybe" if kind == "ConditionalTask" else "")))
        # A crew ends with one asynchronous task at most.
        return [
            (name, kind, more.replace(", async_execution=True", "") if later_async(tasks, at) else more)
            for at, (name, kind, more) in enumerate(tasks)
        ]

    def _task(self, name: str, kind: str, more: str, agent: str, context: str = "{}") -> str:
        before, word, after = more.partition("CONTEXT_")
        if word:
            known, bracket, rest = after.partition("]")
            more = before + context.format(known) + bracket + rest
        words = f"name={name!r}, description='do {name}', expected_output='o', callback=done({name!r})"
        return f"{kind}({words}, agent={agent}{more})"

    def _plain(self, variable: str, prefix: str) -> list[str]:
        agents = [f"{prefix}a{at}" for at in range(self.random.randint(1, 3))]
        lines = [f"{name} = {self._agent(name)}" for name in agents]
        tasks = self._tasks(prefix)
        lines += [f"{task[0]} = {self._task(*task, self.random.choice(agents))}" for task in tasks]
        names = ", ".join(task[0] for task in tasks)
        process = self.random.choice(["", "", ", process=Process.sequential"])
        if self._flip(0.15):
            process = ", process=Process.hierarchical, manager_llm=llm"
        return [*lines, f"{variable} = Crew(agents=[{', '.join(agents)}], tasks=[{names}]{process})"]

    def _agent(self, name: str) -> str:
        more = ", allow_delegation=True" if self._flip(0.15) else ""
        if self._flip():
            return f"who({name!r}, {self._tools()}{more})"
        return f"Agent(role={name!r}, goal='g', backstory='b', llm=llm, tools={self._tools()}{more})"

    def _function(self, variable: str, prefix: str) -> list[str]:
        inner = self._plain("made", prefix)
        return [f"def make_{variable}():", *(f"    {line}" for line in inner), "    return made",
                f"{variable} = make_{variable}()"]  # fmt: skip

    def _loop(self, variable: str, prefix: str) -> list[str]:
        names = [f"{prefix}t{at}" for at in range(self.random.randint(1, 4))]
        pairs = ", ".join(f"({name!r}, {self._tools()})" for name in names)
        task = self._task("NAME", "Task", "", "who(name, tools)").replace("'NAME'", "name").replace("'do NAME'", "name")
        made = [f"[{task} for name, tools in [{pairs}]]"]
        if self._flip():
            return [
                f"tasks_{variable} = {made[0]}",
                f"{variable} = Crew(agents=[one.agent for one in tasks_{variable}], tasks=tasks_{variable})",
            ]
        return [f"tasks_{variable} = []", f"for name, tools in [{pairs}]:", f"    tasks_{variable}.append({task})",
                f"{variable} = Crew(tasks=tasks_{variable}, agents=[one.agent for one in tasks_{variable}])"]  # fmt: skip  # noqa: E501

    def _decorated(self, variable: str, prefix: str) -> list[str]:
        name = f"Of{variable}"
        lines = ["@CrewBase", f"class {name}:", "    agents_config = {}", "    tasks_config = {}", ""]
        agents = [f"{prefix}a{at}" for at in range(self.random.randint(1, 2))]
        for agent in agents:
            lines += ["    @agent", f"    def {agent}(self):", f"        return {self._agent(agent)}", ""]
        for job in self._tasks(prefix):
            made = self._task(*job, f"self.{self.random.choice(agents)}()", "self.{}()")
            lines += ["    @task", f"    def {job[0]}(self):", f"        return {made}", ""]
        lines += ["    @crew", "    def crew(self):", "        return Crew(agents=self.agents, tasks=self.tasks)", ""]
        return [*lines, f"{variable} = {name}().crew()"]

    def _flow(self) -> list[str]:
        names = [f"m{at}" for at in range(self.random.randint(2, 6))]
        labels = ["x", "y", "z"][: self.random.randint(1, 3)]
        routers = {name for name in names[1:] if self._flip(0.35)}
        before, lines = list[str](), list[str]()
        crews = [self._crew("inner", "c_")] if self._flip(0.4) else []
        for name in names:
            lines += self._method(name, before, labels, name in routers, has_crew=bool(crews))
            before.append(name)
        return [
            *(line for crew in crews for line in crew),
            "class Work(Flow):",
            *lines,
            "work = Work(suppress_flow_events=True)",
        ]

    def _method(self, name: str, before: list[str], labels: list[str], routes: bool, *, has_crew: bool) -> list[str]:
        is_start = not before or self._flip(0.1)
        mark = "start()" if is_start else f"{'router' if routes else 'listen'}({self._condition(before, labels)})"
        results = self.random.sample(labels, self.random.randint(1, len(labels)))
        ends = [f"return {self._result(results)}"] if routes and not is_start else []
        note, calls = [f"ran('step', {name!r})"], self._calls(has_crew=has_crew)
        # The node of a router is after the crew that it runs, as it chooses then.
        body = [*calls, *note, *ends] if ends and "inner.kickoff()" in calls else [*note, *calls, *ends]
        return [f"    @{mark}", f"    def {name}(self):", *(f"        {line}" for line in body), ""]

    def _result(self, labels: list[str]) -> str:
        listed = ", ".join(map(repr, labels))
        return self.random.choice([
            f"random.choice([{listed}])", f"{labels[0]!r} if random.random() < 0.5 else {labels[-1]!r}",
            f"dict(enumerate([{listed}]))[random.randrange({len(labels)})]",
        ])  # fmt: skip

    def _condition(self, before: list[str], labels: list[str]) -> str:
        if len(before) < 2 or self._flip():
            choice = self.random.choice([*before, *before, *labels])
            return repr(choice) if choice in labels or self._flip() else choice
        some = ", ".join(map(repr, self.random.sample([*before, *labels[:1]], 2)))
        return f"{self.random.choice(['and_', 'or_'])}({some})"

    def _calls(self, *, has_crew: bool) -> list[str]:
        tool, other = self.random.sample(TOOLS, 2)
        return self.random.choice([
            [], [], [f"{tool}.run(n=1.0)"], [f"use({tool})"], [f"if maybe(0): use({other})"], [f"BY_NAME[{tool!r}].run(n=2.0)"],  # noqa: E501
            [f"for one in [{tool}, {other}]:", "    use(one)"], [f"{self.functions[0]}.func(1.0)" if self.functions else f"{tool}.run(n=3.0)"],  # noqa: E501
            [f"who('inline', [{tool}]).kickoff('do')"],
            *([["inner.kickoff()"]] * 4 if has_crew else []),
        ])  # fmt: skip


def later_async(tasks: list[tuple[str, str, str]], at: int) -> bool:
    """Whether a task at the end runs at the same time as the last one, which a crew refuses."""
    rest = [("async_execution" in more) for _, _, more in tasks[at:]]
    return len(rest) > 1 and all(rest)
