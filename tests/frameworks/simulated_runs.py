"""Simulated sessions that drive a graph in every way a host can, independently of the prover."""

from __future__ import annotations

import random
from collections.abc import Iterator

from guardagent.workflow.model.graph import Graph

Called = tuple[str, bool]  # a tool, and whether the call failed

MOST = 6  # calls


def session(graph: Graph, seed: int) -> tuple[Called, ...]:
    """The calls of one session: several invocations, each from some node on, with retries and calls at once."""
    chance = random.Random(seed)  # noqa: S311 - the same session every time
    calls = [call for _ in range(chance.randrange(4)) for call in _invocation(graph, chance)]
    return tuple(calls[:MOST])


def _invocation(graph: Graph, chance: random.Random) -> Iterator[Called]:
    node = chance.choice(graph.nodes)
    for _ in range(chance.randrange(1, 6)):
        for _ in range(chance.choice([1, 1, 2])):  # it is run again after an error, or after an interrupt
            tools = chance.choices(node.tools, k=chance.randrange(4)) if node.tools else []
            yield from ((tool, chance.random() < 0.3) for tool in tools)
        following = [edge.target for edge in graph.edges if edge.source == node.id]
        if not following:
            return
        node = graph.by_id[chance.choice(following)]
