"""Random runs of a graph as hosts carry them out: an independent reference for proofs about parallel branches."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.load import compile_rules
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.workflow.model.graph import Edge, Graph
from tests.workflow.random_cases import SETS

LONGEST, WIDEST = 60, 20  # steps, and nodes at once; of a run that has more, only the beginning counts
_KINDS = ("direct", "conditional", "parallel")


def monitor_of(formula: str) -> PropositionalMonitor:
    (monitor,) = compile_rules([formula], tags=SETS).monitors
    assert isinstance(monitor, PropositionalMonitor)
    return monitor


def is_kept(rule: PropositionalMonitor, calls: list[str], *, has_ended: bool) -> bool:
    """Whether a rule is not violated by these calls, all of them successful."""
    state, automaton = 0, rule.automaton
    for tool in calls:
        state = automaton.table[state][rule.alphabet.index(SessionCall(tool, {}), ok=True)]
        if automaton.violated[state]:
            return False
    return automaton.accepting[state] or not has_ended


def super_steps(graph: Graph, chance: random.Random) -> tuple[list[str], bool]:
    """A run in super-steps, as Pregel and LangGraph take them: (its calls, whether it has ended).

    All nodes of a step run, in any order; each edge and each barrier then starts nodes of the next step, each once.
    A parallel edge starts any number of them.
    """
    leaving = _leaving(graph)
    calls: list[str] = []
    arrived: dict[tuple[str, tuple[str, ...]], set[str]] = {
        (node.id, tuple(names)): set() for node in graph.nodes for names in node.metadata.get("waits_for") or ()
    }
    step = Counter({graph.entry_id: 1})
    for _ in range(LONGEST):
        running = list(step.elements())
        deferred = [name for name in running if graph.by_id[name].metadata.get("defer")]
        running = [name for name in running if name not in deferred] or deferred
        following: Counter[str] = Counter(deferred if running is not deferred else [])
        calls += _interleaved([_calls_in(graph, name, chance) for name in running], chance)
        triggered: set[str] = set()
        for name in running:
            kinds = {kind: [edge for edge in leaving[name] if edge.kind == kind] for kind in _KINDS}
            barred = {target for target, names in arrived if name in names}
            triggered |= {edge.target for edge in kinds["direct"] if edge.target not in barred}
            if kinds["conditional"]:
                triggered.add(chance.choice(kinds["conditional"]).target)
            for edge in kinds["parallel"]:
                following[edge.target] += chance.randrange(3)
            for (target, names), here in arrived.items():
                if name in names:
                    here.add(name)
                    if here == set(names):
                        triggered.add(target)
                        here.clear()
        following.update(triggered)
        step = Counter({name: count for name, count in following.items() if count and name not in graph.exit_ids})
        if not step or step.total() > WIDEST:
            return calls, not step
    return calls, False


def tokens(graph: Graph, chance: random.Random) -> tuple[list[str], bool]:
    """A run of tokens: at a node, one edge is taken or all parallel ones. A fan-in without `join` runs for each token.

    With `join`, the node waits until no other token can reach the branches, and runs once.
    """
    leaving = _leaving(graph)
    calls: list[str] = []
    under_way = [graph.entry_id]
    pending: dict[int, Iterator[str]] = {}
    for _ in range(LONGEST):
        ready = [at for at, name in enumerate(under_way) if at in pending or not _waits(graph, name, under_way)]
        if not ready:
            return calls, True
        at = chance.choice(ready)
        name = under_way[at]
        pending.setdefault(at, iter(_calls_in(graph, name, chance)))
        if (tool := next(pending[at], None)) is not None:
            calls.append(tool)
            continue
        joined = [name for name in under_way if graph.by_id[name].metadata.get("join")]
        rest = [other for place, other in enumerate(under_way) if place != at]
        begun = [pending.get(place) for place in range(len(under_way)) if place != at]
        options = [[edge] for edge in leaving[name] if edge.kind != "parallel"]
        options += [parallel] if (parallel := [edge for edge in leaving[name] if edge.kind == "parallel"]) else []
        taken = chance.choice(options) if options and not (name in graph.exit_ids and chance.random() < 0.5) else []
        fresh = [edge.target for edge in taken if edge.target not in joined or edge.target == name]
        under_way = rest + fresh
        pending = {place: calls_left for place, calls_left in enumerate(begun) if calls_left is not None}
        if not under_way or len(under_way) > WIDEST:
            return calls, not under_way
    return calls, False


def _waits(graph: Graph, name: str, under_way: list[str]) -> bool:
    sources = graph.by_id[name].metadata.get("join")
    if not sources:
        return False
    others = [other for other in under_way if other != name]
    return any(_reaches(graph, other, set(sources), past=name) for other in others)


def _reaches(graph: Graph, start: str, targets: set[str], *, past: str) -> bool:
    seen = [start]
    for name in seen:  # grows during the loop
        if name in targets:
            return True
        seen += [edge.target for edge in graph.edges if edge.source == name and edge.target not in (*seen, past)]
    return False


def _leaving(graph: Graph) -> dict[str, list[Edge]]:
    return {node.id: [edge for edge in graph.edges if edge.source == node.id] for node in graph.nodes}


def _calls_in(graph: Graph, name: str, chance: random.Random) -> list[str]:
    node = graph.by_id[name]
    if not node.tools or node.kind in ("entry", "exit"):
        return []
    if len(node.tools) == 1 and not node.metadata.get("model_chooses"):
        return list(node.tools)
    least = 0 if node.metadata.get("model_chooses") else 1
    return chance.choices(node.tools, k=chance.randrange(least, 4))


def _interleaved(several: list[list[str]], chance: random.Random) -> list[str]:
    order = [at for at, calls in enumerate(several) for _ in calls]
    chance.shuffle(order)
    left = [iter(calls) for calls in several]
    return [next(left[at]) for at in order]
