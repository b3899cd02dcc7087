"""Runs of random programs of the OpenAI Agents SDK follow the graphs of their source and of their objects."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from guardagent.workflow.extraction import extract
from guardagent.workflow.model.graph import END, START
from guardagent.workflow.python_source.source_graphs import graph_of_source

sdk: Any = pytest.importorskip("agents", reason="the OpenAI Agents SDK is not installed")
NAMES = ["n0", "n1", "n2", "n3"]
HEAD = """
from functools import wraps
from agents import Agent, FunctionTool, Runner, function_tool, handoff
from scripted_model import MODEL

def logged(function):
    @wraps(function)
    def wrapper(input: str) -> str:
        return function(input)
    return wrapper

def read(input: str) -> str: return input
@function_tool
def write(input: str) -> str: return input
@function_tool(name_override="post")
def send(input: str) -> str: return input

def made(name, tools=(), **more):
    return Agent(name=name, instructions=name, model=MODEL, tools=[*tools], **more)

class Desk:
    def __init__(self):
        self.pool = {}
    def open(self, name, *tools):
        self.pool[name] = made(name, tools)
        return self.pool[name]

desk = Desk()
"""

RUNS = """@function_tool
async def {ask}(input: str) -> str:
    return str((await Runner.run({other}, input, max_turns=60)).final_output)
{name}.tools.append({ask})"""


class Chooser(sdk.models.interface.Model):
    """A model that hands off, calls a tool or answers at random, and records each call with its agent."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.steps: list[tuple[str, str]] = []

    async def get_response(self, *_args: Any, **options: Any) -> Any:
        types = pytest.importorskip("openai.types.responses")
        tools = [tool.name for tool in options["tools"]]
        call = self.random.choice([*tools, *(handoff.tool_name for handoff in options["handoffs"]), ""])
        call = call if len(self.steps) < 25 else ""
        self.steps.append((options["system_instructions"], call if call in tools else ""))
        text = types.ResponseOutputText(type="output_text", text="done", annotations=[])
        output: Any = types.ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[text]
        )
        if call:
            number = f"c{len(self.steps)}"
            output = types.ResponseFunctionToolCall(
                type="function_call", name=call, call_id=number, arguments='{"input": "x"}'
            )
        return sdk.ModelResponse(output=[output], usage=sdk.Usage(), response_id=None)

    def stream_response(self, *_args: Any, **more: Any) -> Any:
        raise NotImplementedError


def _program(seed: int) -> str:
    """Agents with hand-offs, tools, and agents as tools, built in one of many styles each."""
    choice = random.Random(seed)  # noqa: S311 - no secret
    lines = [_creation(choice, name) for name in NAMES]
    for place, name in enumerate(NAMES):
        lines += [_handoff(choice, name, other) for other in choice.sample(NAMES, choice.randint(0, 2))]
        lines += [_use(choice, name, other) for other in choice.sample(NAMES[place + 1 :], min(1, 3 - place))]
    if choice.random() < 0.3:
        lines.append('n0 = n0.clone(name="n4", instructions="n4", tools=[*n0.tools, write])')
    return HEAD + "\n".join(lines) + "\n"


def _creation(choice: random.Random, name: str) -> str:
    tool = choice.choice(["write", "send", "function_tool(read)", "function_tool(logged(read))"])
    return f"{name} = " + choice.choice([
        f'Agent("{name}", instructions="{name}", model=MODEL, tools=[{tool}])',
        f'Agent[dict](name="{name}", instructions="{name}", model=MODEL, tools=[one for one in [{tool}]])',
        f'made("{name}", [{tool}])',
        f'made(name="{name}", tools=({tool},))',
        f'desk.open("{name}", {tool})',
        f'made("other", [{tool}]).clone(name="{name}", instructions="{name}")',
    ])  # fmt: skip


def _handoff(choice: random.Random, name: str, other: str) -> str:
    return choice.choice([
        f"{name}.handoffs.append({other})",
        f"{name}.handoffs.append(handoff({other}))",
        f"{name}.handoffs = [*{name}.handoffs, {other}]",
        f"for target in [{other}]:\n    {name}.handoffs.append(handoff(agent=target))",
        f"if {name}.tools:\n    {name}.handoffs.append({other})",
    ])  # fmt: skip


def _use(choice: random.Random, name: str, other: str) -> str:
    ask = f"ask_{name}_{other}"
    return choice.choice([
        f'{name}.tools.append({other}.as_tool("use_{other}", "uses"))',
        f"{name}.tools = {name}.tools + [{other}.as_tool(tool_name=None, tool_description='uses')]",
        RUNS.format(ask=ask, other=other, name=name),
    ])  # fmt: skip


def _loaded(source: str, path: Path, model: Chooser) -> ModuleType:
    sys.modules["scripted_model"] = ModuleType("scripted_model")
    sys.modules["scripted_model"].MODEL = model  # type: ignore[attr-defined]
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(25))
def test_runs_follow_the_graphs(seed: int, tmp_path: Path) -> None:
    """Each change of agent is an edge, and each called tool belongs to its agent, in both graphs."""
    model, source = Chooser(seed), _program(seed)
    first = _loaded(source, tmp_path / "openai_agents_run_program.py", model).n0
    graphs = extract(first), graph_of_source(tmp_path / "openai_agents_run_program.py", "n0")
    for _ in range(6):
        model.steps.clear()
        asyncio.run(sdk.Runner.run(first, "x", max_turns=60, run_config=sdk.RunConfig(tracing_disabled=True)))
        order = [START, *(agent for agent, _ in model.steps), END]
        changes = {pair for pair in itertools.pairwise(order) if pair[0] != pair[1]}
        for graph in graphs:
            assert changes <= {(edge.source, edge.target) for edge in graph.edges}, source
            assert all(not tool or tool in graph.by_id[agent].tools for agent, tool in model.steps), source
