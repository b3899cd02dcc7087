"""Checks a rule on every run of a graph whose nodes run side by side.

A run is in several nodes at once. Its configuration is the state of the automaton and the *tokens*: the nodes that are
under way. A step runs one of them, or one call of it where it makes several, so the calls of branches interleave in any
order. A node that the edges of several tokens lead to waits for all of them if the host says so (`join`, `waits_for`);
else it may run once or once for each.

The product covers at least the runs of the host: a node that can run any number of times has one token that may stay,
and a step that changes nothing for the rule, off every cycle, is taken before all others. So a proof is sound. If there
are too many configurations, nothing is proved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from guardagent.workflow.analysis.paths import components, on_cycles
from guardagent.workflow.analysis.product import GraphProduct, NumberedGraph, PathViolation
from guardagent.workflow.model.graph import CONDITION, Edge, Graph

MAX_CONFIGURATIONS = 2_000
BEGUN, MANY, PERHAPS, RELEASED = 1, 2, 4, 8
"""Marks of a token: a call was made; the node may run any number of times; it may also not run; it waits no longer."""

Token = tuple[int, int]  # (number of the node, marks)
Targets = tuple[Token, ...]
Arrivals = frozenset[tuple[int, int]]  # (number of a barrier, the number of a node that has arrived)
Configuration = tuple[int, tuple[Token, ...], Arrivals]
Calls = tuple[str, ...]
Step = tuple[Configuration, int, Calls, bool]  # what follows, the node that runs, its calls, and whether it has run


class TooManyConfigurationsError(Exception):
    """The branches can run in too many orders to look at all of them."""


@dataclass(frozen=True, slots=True)
class Forks:
    """The nodes that run side by side.

    Attributes:
        options: number of a node -> the tokens that follow it, of which a run chooses one tuple.
        barriers: (the number of a node, the numbers of the nodes all of which have to arrive before it runs).
        joins: number of a node that waits for branches -> the numbers of their last nodes.
        deferred: the nodes that run when no other does, or beside what others have just sent to.
        cancels: whether a run may end while other nodes are under way.
    """

    options: Sequence[Sequence[Targets]]
    barriers: Sequence[tuple[int, frozenset[int]]]
    joins: Mapping[int, frozenset[int]]
    deferred: frozenset[int]
    cancels: bool

    @property
    def are_there(self) -> bool:
        """Whether two nodes can run side by side, one waits for several, or one runs any number of times."""
        options = [option for node in self.options for option in node]
        return bool(self.barriers) or any(len(option) > 1 or any(marks for _, marks in option) for option in options)

    @classmethod
    def of(cls, graph: Graph) -> Forks:
        """Reads the forks of a graph, as its framework takes edges."""
        numbers = {node.id: number for number, node in enumerate(graph.nodes)}
        barriers, joins, barred = [], dict[int, frozenset[int]](), set[tuple[str, str]]()
        for node in graph.nodes:
            waits = node.metadata.get("waits_for") if graph.framework == "langgraph" else None
            for names in waits or ():
                if len(names) > 1 and all(name in numbers for name in names):  # else it may run once for each
                    barriers.append((numbers[node.id], frozenset(numbers[name] for name in names)))
                    barred |= {(name, node.id) for name in names}
            barred -= {(name, node.id) for name in node.metadata.get("also_after") or ()}
            join = node.metadata.get("join")  # true if the branches are not known: then it may run once for each
            if isinstance(join, tuple) and (awaited := {numbers[name] for name in join if name in numbers}):
                joins[numbers[node.id]] = frozenset(awaited)
        leaving: list[list[Edge]] = [[] for _ in numbers]
        for edge in graph.edges:
            if edge.kind != "direct" or (edge.source, edge.target) not in barred:
                leaving[numbers[edge.source]].append(edge)
        together = _TOGETHER.get(graph.framework, _one_or_several)
        return cls(
            [tuple(together(edges, numbers)) for edges in leaving],
            barriers,
            joins,
            frozenset(numbers[node.id] for node in graph.nodes if node.metadata.get("defer")),
            any(CONDITION in edge.condition for edge in graph.edges),
        )


def _one_or_a_fan_out(edges: Sequence[Edge], numbers: Mapping[str, int]) -> Iterator[Targets]:
    """A run takes one edge, or all parallel ones; of those with a condition, such as for each item, any number."""
    yield from (((numbers[edge.target], 0),) for edge in edges if edge.kind != "parallel")
    parallel = [edge for edge in edges if edge.kind == "parallel"]
    if parallel:
        yield tuple((numbers[edge.target], MANY | PERHAPS if edge.condition else 0) for edge in parallel)


def _one_or_several(edges: Sequence[Edge], numbers: Mapping[str, int]) -> Iterator[Targets]:
    """As above, and also one parallel edge alone, where an extractor may mean either."""
    yield from _one_or_a_fan_out(edges, numbers)
    yield from (((numbers[edge.target], 0),) for edge in edges if edge.kind == "parallel")


def _all_that_fit(edges: Sequence[Edge], numbers: Mapping[str, int]) -> Iterator[Targets]:
    """A run takes all direct edges, any number of parallel ones (`Send`), and one of each condition."""
    always = tuple((numbers[edge.target], 0) for edge in edges if edge.kind == "direct")
    always += tuple((numbers[edge.target], MANY | PERHAPS) for edge in edges if edge.kind == "parallel")
    always += tuple((numbers[edge.target], PERHAPS) for edge in edges if edge.kind == "loop")
    choices = [(numbers[edge.target], 0) for edge in edges if edge.kind == "conditional"]
    if always or not choices:
        yield always
    yield from ((*always, choice) for choice in choices)


_TOGETHER = {"langgraph": _all_that_fit, "adk": _one_or_a_fan_out, "json": _one_or_a_fan_out}
"""How a framework takes the edges that leave a node, by its name."""


class InterleavedProduct:
    """The product of a rule with the runs of a graph whose nodes run side by side.

    Args:
        graph: the graph.
        forks: its forks.
        product: the product of the same graph and the rule along single paths, which has the calls of its nodes.
    """

    def __init__(self, graph: NumberedGraph, forks: Forks, product: GraphProduct) -> None:
        self._graph, self._forks, self._product = graph, forks, product
        self._parents: dict[Configuration, tuple[Configuration, int, Calls] | None] = {}
        self._after: dict[Configuration, list[Step]] = {}

    def violation(self) -> PathViolation | None:
        """Returns a shortest run with a bad prefix or a pending obligation at its end; else a postponing cycle.

        Raises:
            TooManyConfigurationsError: not all runs can be looked at.
        """
        automaton = self._product.automaton
        start: Configuration = 0, ((self._graph.entry, 0),), frozenset()
        self._parents[start] = None
        for at, configuration in enumerate(waiting := [start]):  # grows during the loop
            if at >= MAX_CONFIGURATIONS:
                raise TooManyConfigurationsError
            state = configuration[0]
            if automaton.violated[state]:
                return self._violation_at("bad_prefix", configuration)
            steps = list(self._steps(configuration))
            if not steps and not automaton.accepting[state]:
                return self._violation_at("unmet_at_end", configuration)
            self._after[configuration] = steps
            for following, node, calls, _ in steps:
                if following not in self._parents:
                    self._parents[following] = configuration, node, calls
                    waiting.append(following)
        return self._postponing_cycle()

    # --- steps

    def _steps(self, configuration: Configuration) -> Iterator[Step]:
        """Yields the steps from a configuration; none at the end of a run."""
        tokens = configuration[1]
        yield from self._releases(configuration)
        runnable = [token for token in tokens if not self._waits(token, tokens)] or tokens
        first = next((token for token in runnable if token[0] in self._inert and token[0] not in self._cyclic), None)
        for token in runnable if first is None else [first]:
            yield from self._steps_of(token, configuration)

    def _releases(self, configuration: Configuration) -> Iterator[Step]:
        """Yields the steps by which a deferred node begins with what was sent, since it waits only for others."""
        state, tokens, arrivals = configuration
        sent = MANY | PERHAPS
        held = [token for token in tokens if token[0] in self._forks.deferred and not token[1] & RELEASED]
        others = [marks for node, marks in tokens if node not in self._forks.deferred]
        if others and all(marks & sent == sent for marks in others):
            for node, marks in held:
                rest = [token for token in tokens if token[0] != node]
                yield (state, _sorted([*rest, (node, marks | RELEASED)]), arrivals), node, (), False

    def _steps_of(self, token: Token, configuration: Configuration) -> Iterator[Step]:
        state, tokens, arrivals = configuration
        node, marks = token
        others = tuple(other for other in tokens if other != token)
        if marks & PERHAPS:
            yield (state, others, arrivals), node, (), True
        tools, chooses, unknown = self._graph.callable[self._graph.kinds[node]]
        if unknown:
            state = self._product.after_unknown(state)
        if chooses or marks & BEGUN:
            yield from self._left(node, marks, state, others, arrivals, ())
        for tool in tools:
            called = self._product.after(state, self._product.letters[tool])
            called = self._product.after_unknown(called) if unknown else called
            if len(tools) > 1 or chooses:
                stays = (node, marks & ~PERHAPS | BEGUN)
                yield (called, _sorted([*others, stays]), arrivals), node, (tool,), False
            else:
                yield from self._left(node, marks, called, others, arrivals, (tool,))

    def _left(
        self, node: int, marks: int, state: int, others: Targets, arrivals: Arrivals, calls: Calls
    ) -> Iterator[Step]:
        """Yields the configurations after a node has run."""
        many = marks & MANY
        rests = [others, (*others, (node, MANY))] if many else [others]
        if self._graph.ends[node] and self._forks.cancels:
            yield (state, (), frozenset()), node, calls, True
        arrived = arrivals | {
            (number, node) for number, (_, sources) in enumerate(self._forks.barriers) if node in sources
        }
        opened, arrived = self._passed(node, arrived)
        options = self._forks.options[node]
        if self._graph.ends[node]:
            options = (*options, ())
        for option in options:
            for rest in rests:
                tokens = [(target, further | many) for target, further in (*option, *opened)]
                yield (state, _merged(rest, tokens, self._forks.joins), arrived), node, calls, True

    def _passed(self, node: int, arrived: Arrivals) -> tuple[list[Token], Arrivals]:
        """The tokens that barriers let pass after a node, and what has arrived at the others."""
        passed = []
        for number, (target, sources) in enumerate(self._forks.barriers):
            if node in sources and {source for at, source in arrived if at == number} == sources:
                passed.append((target, 0))
                arrived = frozenset(arrival for arrival in arrived if arrival[0] != number)
        return passed, arrived

    def _waits(self, token: Token, tokens: Targets) -> bool:
        """Whether a node waits for other tokens."""
        node = token[0]
        if (
            node in self._forks.deferred
            and not token[1] & RELEASED
            and any(other[0] not in self._forks.deferred for other in tokens)
        ):
            return True
        before = self._before.get(node)
        return (
            before is not None
            and not token[1] & BEGUN
            and any(other[0] in before for other in tokens if other[0] != node)
        )

    @cached_property
    def _before(self) -> dict[int, frozenset[int]]:
        """Node that waits -> the nodes from which a run reaches the branches for which it waits."""
        predecessors: list[set[int]] = [set() for _ in self._graph.ids]
        for node, targets in enumerate(self._graph.successors):
            for target in targets:
                predecessors[target].add(node)
        before = {}
        for join, sources in self._forks.joins.items():
            leading = set(sources) - {join}
            for node in (waiting := list(leading)):  # grows during the loop
                fresh = predecessors[node] - leading - {join}
                leading |= fresh
                waiting += fresh
            before[join] = frozenset(leading)
        return before

    @cached_property
    def _inert(self) -> frozenset[int]:
        """The nodes whose calls change nothing for the rule, in whatever state."""
        inert = [self._product.is_inert(kind) for kind in self._graph.callable]
        joining = {target for target, _ in self._forks.barriers} | self._forks.joins.keys() | self._forks.deferred
        return frozenset(node for node, kind in enumerate(self._graph.kinds) if inert[kind] and node not in joining)

    @cached_property
    def _cyclic(self) -> set[int]:
        return on_cycles(self._graph.successors)

    # --- violations

    def _run_to(self, configuration: Configuration) -> list[tuple[int, Calls]]:
        run = []
        while (step := self._parents[configuration]) is not None:
            configuration, node, calls = step
            run.append((node, calls))
        return run[::-1]

    def _violation_at(self, mechanism: str, configuration: Configuration) -> PathViolation:
        run = self._run_to(configuration)
        names, calls = tuple(self._graph.ids[node] for node, _ in run), tuple(calls for _, calls in run)
        return PathViolation(mechanism, names, calls)  # type: ignore[arg-type]

    def _postponing_cycle(self) -> PathViolation | None:
        """Returns a run into a cycle on which an obligation is always pending, and every node that could run does."""
        accepting = self._product.automaton.accepting
        pending = [configuration for configuration in self._after if not accepting[configuration[0]]]
        places = {configuration: place for place, configuration in enumerate(pending)}
        after = [
            [(places[following], node, has_run) for following, node, _, has_run in self._after[configuration]
             if following in places]
            for configuration in pending
        ]  # fmt: skip
        for component in components([[place for place, *_ in steps] for steps in after]):
            inside = set(component)
            ran = [node for at in component for place, node, has_run in after[at] if place in inside and has_run]
            if ran and self._is_fair([pending[place] for place in component], ran):
                cycle = tuple(dict.fromkeys(self._graph.ids[node] for node in ran))
                violation = self._violation_at("postponed_by_cycle", pending[min(component)])
                return PathViolation(
                    violation.mechanism, (*violation.witness, *cycle), violation.emitted + ((),) * len(cycle), cycle
                )
        return None

    def _is_fair(self, configurations: Collection[Configuration], ran: Collection[int]) -> bool:
        """Whether each node that can run in all of some configurations does."""
        certain = (
            {token[0] for token in tokens if not token[1] & PERHAPS and not self._waits(token, tokens)}
            for _, tokens, _ in configurations
        )
        return set.intersection(*certain) <= set(ran)


def _sorted(tokens: Iterable[Token]) -> Targets:
    return tuple(sorted(tokens))


def _merged(tokens: Iterable[Token], added: Iterable[Token], joins: Collection[int]) -> Targets:
    """Some tokens and others: a node that has one already may run once, or for each of them, unless it joins them."""
    by_node = dict[int, int]()
    for node, marks in (*tokens, *added):
        earlier = by_node.get(node)
        if earlier is None:
            by_node[node] = marks
        elif node in joins:
            by_node[node] = (earlier | marks) & ~PERHAPS if not (earlier & marks & PERHAPS) else earlier | marks
        else:
            certain = not (earlier & marks & PERHAPS)
            by_node[node] = (earlier | marks | MANY) & (~PERHAPS if certain else ~0)
    return _sorted(by_node.items())
