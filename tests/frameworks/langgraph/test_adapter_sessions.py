"""Proofs for every run of a LangGraph, compared with real sessions of random graphs.

Nodes are retried, sent to several times, interrupt after they have called a tool, and get messages with several
calls; a thread is invoked more than once, resumed, and continued at any node.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from guardagent.policy.language import ast
from guardagent.policy.load import compile_rules
from guardagent.workflow.analysis.proofs import rule_results
from guardagent.workflow.extraction import extract
from tests.frameworks.simulated_runs import Called
from tests.workflow.analysis.test_proofs import keeps
from tests.workflow.random_cases import SETS, TOOLS, Maker

pytest.importorskip("langgraph", reason="LangGraph is not installed")

from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy, Send, interrupt

GRAPHS, RULES = 60, 8
Node = Callable[[dict[str, Any]], object]


class NestedAgents:
    """A random graph that records the calls of its tools."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - the same graph every time
        self.calls: list[Called] = []
        self.tools = [self._tool(name) for name in self.chance.sample(TOOLS, self.chance.choice([1, 1, 2]))]
        self.graph = StateGraph(MessagesState)
        self.names = [self._node(f"n{number}") for number in range(self.chance.randrange(1, 4))]
        for source, target in zip([START, *self.names], [*self.names, END], strict=True):
            self._edge(source, target)
        self.compiled = self.graph.compile(checkpointer=InMemorySaver())

    def _tool(self, name: str) -> BaseTool:
        def run() -> str:
            failed = self.chance.random() < 0.3
            self.calls.append((name, failed))
            if failed:
                raise OSError(name)
            return "done"

        return StructuredTool.from_function(run, name=name, description=name)

    def _node(self, name: str) -> str:
        tool = self.chance.choice(self.tools)
        retry = RetryPolicy(max_attempts=3, initial_interval=0, jitter=False, retry_on=OSError)
        kind = self.chance.choice(["plain", "retried", "asks", "message"])
        if kind == "message":
            self.graph.add_node(f"{name}_says", saying(tool.name, self.chance.randrange(1, 3)))
            self.graph.add_node(name, ToolNode([tool], handle_tool_errors=True))
            self.graph.add_edge(f"{name}_says", name)
            return name
        self.graph.add_node(name, (asking if kind == "asks" else calling)(tool), retry_policy=retry)
        return name

    def _edge(self, source: str, target: str) -> None:
        first = f"{target}_says" if f"{target}_says" in self.graph.nodes else target
        if target != END and self.chance.random() < 0.4:
            self.graph.add_conditional_edges(source, sending(first, self.chance.randrange(3)), [first, END])
        else:
            self.graph.add_edge(source, first)

    def session(self) -> tuple[Called, ...]:
        """Plays one thread, with the operations that a host can apply to it."""
        config: Any = {"configurable": {"thread_id": "one"}, "recursion_limit": 12}
        for _ in range(self.chance.randrange(1, 4)):
            self._go(config, {"messages": []})
            while self.compiled.get_state(config).next and self.chance.random() < 0.8:
                self._go(config, self.chance.choice([Command(resume="yes"), None]))
            if self.chance.random() < 0.5:
                self.compiled.update_state(config, {"messages": []}, as_node=self.chance.choice(self.names))
                self._go(config, None)
        return tuple(self.calls)

    def _go(self, config: Any, arguments: object) -> None:
        with suppress(Exception):  # the calls of a failed run count, too
            self.compiled.invoke(arguments, config)


def calling(tool: BaseTool) -> Node:
    def node(_state: dict[str, Any]) -> object:
        tool.invoke({})
        return {}

    return node


def asking(tool: BaseTool) -> Node:
    def node(_state: dict[str, Any]) -> object:
        tool.invoke({})
        interrupt("was that right?")
        return {}

    return node


def saying(name: str, times: int) -> Node:
    def node(_state: dict[str, Any]) -> object:
        calls = [{"name": name, "args": {}, "id": f"{number}"} for number in range(times)]
        return {"messages": [AIMessage("", tool_calls=calls)]}

    return node


def sending(target: str, times: int) -> Callable[[dict[str, Any]], object]:
    def route(_state: dict[str, Any]) -> object:
        return [Send(target, {"messages": []}) for _ in range(times)] or END

    return route


def rules(maker: Maker) -> Iterator[str]:
    yield from ("G(tool:a -> !(Y O tool:a))", "G(tool:b -> O tool:a)", "G(tool:a -> H !tool:b)", "G !tool:c")
    yield from (maker.rule() for _ in range(RULES))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_no_session_breaks_what_is_proved_for_every_run() -> None:
    """Many sessions break rules that are proved only for the drawn graph."""
    proved = broken = 0
    for seed in range(GRAPHS):
        made = NestedAgents(seed)
        graph, calls = extract(made.compiled, "made"), made.session()
        assert {tool for tool, _ in calls} <= {tool for node in graph.nodes for tool in node.tools}
        for rule in rules(Maker(seed)):
            policies = compile_rules([rule], tags=SETS)
            (result,) = rule_results(graph, policies)
            (parsed,) = policies.rules[0].rules
            if not isinstance(parsed, ast.Temporal):
                continue
            kept = keeps(parsed.formula, calls)
            assert kept or result.every_run.status != "proved", (seed, rule, calls)
            proved += result.every_run.status == "proved"
            broken += result.status == "proved" and not kept
    assert (proved > GRAPHS, broken > GRAPHS // 4) == (True, True), (proved, broken)
