"""Programs that are read from their source alone run as their graphs say, with models that choose at random."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from guardagent.workflow.model.graph import END, START, Graph
from guardagent.workflow.python_source.source_graphs import graph_of_source

pytest.importorskip("google.adk.workflow")
models = pytest.importorskip("google.adk.models")
runners = pytest.importorskip("google.adk.runners")
types = pytest.importorskip("google.genai.types")

HEAD = """
from google.adk.agents import LlmAgent, LoopAgent, SequentialAgent
from google.adk.tools import AgentTool, FunctionTool, exit_loop
from scripted import model, used

def tool(name):
    def act(): return used(name)
    act.__name__ = name
    return act

def search(): return used("search")
def mail(): return used("mail")
def worker(name, tools=None, **more):
    return LlmAgent(name=name, model=model(name), tools=[*(tools or [])], **more)
"""
MOST_TURNS = 25


class Recorder:
    """The agents and tools of one run, in order, and the random choices of its models."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.steps: list[tuple[str, str]] = []
        self.turns = 0

    def used(self, name: str) -> str:
        self.steps.append(("tool", name))
        return "done"

    def model(self, name: str) -> Any:
        return RandomModel(model=name, recorder=self)


class RandomModel(models.BaseLlm):  # type: ignore[name-defined]
    """A model that calls any tool it is offered, transfers to any agent it is offered, or answers."""

    recorder: Any

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[Any]:  # noqa: FBT002
        recorder = self.recorder
        recorder.steps.append(("agent", self.model))
        recorder.turns += 1
        calls = list(offered(llm_request)) if recorder.turns < MOST_TURNS else []
        part = types.Part(text="done")
        if calls and recorder.random.random() < 0.6:
            name, arguments = recorder.random.choice(calls)
            part = types.Part(function_call=types.FunctionCall(name=name, args=arguments))
        yield models.LlmResponse(content=types.Content(role="model", parts=[part]))


def offered(request: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """The calls that a model can make."""
    for name, tool in request.tools_dict.items():
        if name == "transfer_to_agent":
            yield from ((name, {"agent_name": target}) for target in tool._agent_names)
        else:
            yield name, {"request": "x"} if type(tool).__name__ == "AgentTool" else {}


class Writer:
    """Writes random programs."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.lines: list[str] = []
        self._count = 0

    def program(self) -> str:
        root = self.agent(3)
        return HEAD + "\n".join([*self.lines, f"root_agent = {root}"]) + "\n"

    def agent(self, depth: int) -> str:
        """The name of a variable with an agent."""
        self._count += 1
        name = f"n{self._count}"
        write: Callable[[str, int], str] = self.random.choice([self._model, self._model, self._row, self._loop])
        self.lines.append(f"{name} = {write(name, depth) if depth else self._model(name, 0)}")
        return name

    def _inside(self, depth: int) -> str:
        return ", ".join(self.agent(depth - 1) for _ in range(self.random.randint(1, 3)))

    def _row(self, name: str, depth: int) -> str:
        return f'SequentialAgent(name="{name}", sub_agents=[{self._inside(depth)}])'

    def _loop(self, name: str, depth: int) -> str:
        return (
            f'LoopAgent(name="{name}", sub_agents=[{self._inside(depth)}], max_iterations={self.random.randint(1, 3)})'
        )

    def _model(self, name: str, depth: int) -> str:
        pool = ["search", "FunctionTool(mail)", f'tool("own_{name}")', "exit_loop"]
        if depth:
            pool.append(f"AgentTool({self.agent(0)})")
        tools = self.random.sample(pool, self.random.randint(0, 3))
        more = [f"sub_agents=[{self._inside(depth)}]"] if depth and self.random.random() < 0.6 else []
        more += [f"{flag}=True" for flag in ("disallow_transfer_to_parent", "disallow_transfer_to_peers")
                 if self.random.random() < 0.3]  # fmt: skip
        options = ", ".join([f'"{name}"', f"tools=[{', '.join(tools)}]", *more])
        return f"worker({options})"


def run(code: str, recorder: Recorder) -> list[tuple[str, str]]:
    """The steps of one run of a program."""
    space: dict[str, Any] = {"model": recorder.model, "used": recorder.used}
    exec(code.replace("from scripted import model, used\n", ""), space)  # noqa: S102 - the test wrote it
    asyncio.run(_run(space["root_agent"]))
    return recorder.steps


async def _run(root: Any) -> None:
    runner = runners.InMemoryRunner(agent=root, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="u")
    message = types.Content(role="user", parts=[types.Part(text="x")])
    async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message):
        pass


def problem(graph: Graph, steps: list[tuple[str, str]]) -> str:
    """The first step that the graph does not allow; empty if it allows all."""
    edges = {(edge.source, edge.target) for edge in graph.edges}
    tools = {name for node in graph.nodes for name in node.tools}
    seen = [name for what, name in steps if what == "agent" and (name in graph.by_id or name not in tools)]
    order = [START, *(agent for at, agent in enumerate(seen) if at == 0 or seen[at - 1] != agent), END]
    here = ""
    for what, name in steps:
        here = name if what == "agent" and name in graph.by_id else here
        if what == "tool" and name not in graph.by_id[here].tools:
            return f"{here} calls {name}"
    return next((f"{earlier} > {then}" for earlier, then in pairwise(order) if (earlier, then) not in edges), "")


def check(seed: int, folder: Path) -> None:
    code = Writer(seed).program()
    path = folder / "program.py"
    path.write_text(code)
    graph = graph_of_source(path, "root_agent")
    for chance in range(3):
        steps = run(code, Recorder(seed * 10 + chance))
        assert not problem(graph, steps), (problem(graph, steps), code)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(10))
def test_a_program_runs_as_its_source_says(seed: int, tmp_path: Path) -> None:
    """Each agent follows the one before it by an edge, and calls only tools of its node."""
    check(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_many_programs_run_as_their_source_says(tmp_path: Path) -> None:
    for seed in range(10, 200):
        check(seed, tmp_path)
