"""The graph of a LangGraph: of a StateGraph, compiled or not, of an agent, and of a workflow by @entrypoint.

Subgraphs are flattened: the nodes of the subgraph `child` have ids such as `child/node`. What a StateGraph says is
taken as it is: edges, path maps, declared destinations, waiting edges, interrupts. What it does not say comes from the
code of its functions, and where that does not determine it, there are edges to all nodes and the end.

LangGraph ends a run where nothing follows. A node from which nothing leads on at all gets no edge to the end: mostly
it was forgotten, and the checks report it as a dead end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from guardagent.errors import InputError
from guardagent.frameworks.langgraph.extractor.channels import Channels
from guardagent.frameworks.langgraph.extractor.commands import NodeBody, node_body
from guardagent.frameworks.langgraph.extractor.nodes import Facts, facts_of, hitl_gates, is_hitl, only_hinted
from guardagent.frameworks.langgraph.extractor.open import GraphOfCode, is_frameworks, is_graph, open_runnable
from guardagent.frameworks.langgraph.extractor.parts import Call, Part, Way, joined
from guardagent.frameworks.langgraph.package import FRAMEWORK
from guardagent.workflow.extraction import from_module
from guardagent.workflow.extraction.framework_objects import is_a, private_attribute
from guardagent.workflow.model.graph import END, START, EdgeKind, Graph, GraphBuilder, NodeKind

ALL = "*"


def recognises(target: object) -> bool:
    return from_module(target, "langgraph") or bool(_bound(target))


def extract(target: object, name: str) -> Graph:
    """The graph of a LangGraph's object.

    Raises:
        InputError: it is of LangGraph, and no graph.
    """
    graph = _bound(target) or target
    if is_a(graph, "langgraph", "RemoteGraph"):
        raise InputError(
            f"{name}: a graph of another service has only a name here; expected the graph itself. "
            f"Verify it where it is defined"
        )
    if not is_graph(graph):
        kind = type(graph)
        raise InputError(
            f"{name}: a {kind.__module__}.{kind.__qualname__} is no graph; expected a StateGraph, compiled or not, "
            f"an agent, or a function with @entrypoint"
        )
    builder = GraphBuilder(name, FRAMEWORK)
    Extraction(builder).whole(graph)
    return builder.graph()


def _bound(target: object) -> Any:
    """The graph in a runnable that only binds its configuration, retries it, or the like."""
    while is_a(target, "langchain_core", "RunnableBindingBase"):
        target = target.bound  # type: ignore[attr-defined]
        if is_graph(target):
            return target
    return None


@dataclass(frozen=True)
class Link:
    """An edge between two nodes of one StateGraph."""

    source: str
    target: str
    kind: EdgeKind = "direct"
    condition: str = ""


@dataclass
class Extraction:
    """Adds graphs to a builder.

    Attributes:
        open: the graphs that are being added, from the outermost: one that runs itself is not added again.
        edges: what is drawn between the nodes.
    """

    builder: GraphBuilder
    open: list[int] = field(default_factory=list)
    edges: list[tuple[str, str, EdgeKind, str]] = field(default_factory=list)

    def whole(self, graph: Any) -> None:
        """Adds the graph that everything is in."""
        part = self.inside(graph, "")
        for way in part.enters:
            self.builder.edge(START, way.node, way.kind, way.condition)
        for source, target, kind, condition in self.edges:
            self.builder.edge(source, target, kind, condition)
        for way in part.leaves:
            self.builder.edge(way.node, END, way.kind, way.condition)
        for call in part.calls:
            self.builder.note(f"{call.node}: its commands are for a graph around this one, and there is none")

    def edge(self, source: str, target: str, kind: EdgeKind = "direct", condition: str = "") -> None:
        self.edges.append((source, target, kind, condition))

    def inside(self, graph: Any, prefix: str) -> Part:
        """Adds a graph's nodes, with a prefix to their ids, and the edges between them."""
        self.open.append(id(graph))
        try:
            if _has_builder(graph):
                return Level(self, graph, prefix).part()
            return Channels(self, graph, prefix).part()
        finally:
            self.open.pop()

    def add(self, id: str, kind: NodeKind, name: str, facts: Facts, **metadata: Any) -> None:  # noqa: A002
        """Adds a node of which facts are known."""
        file, line = facts.place
        hinted = only_hinted(name, facts)
        self.builder.node(
            id, kind, label=name, tools=facts.tools,
            gated_tools=[tool for tool, gated in facts.tools.items() if gated],
            file=file, line=line, guess=True if hinted else None,
            model_chooses=True if facts.model_chooses and facts.tools else None,
            tools_unknown=True if facts.unseen else None,
            **metadata,
        )  # fmt: skip
        if hinted:
            self.builder.note(f"{id}: its name suggests that a person is asked, but nothing in it asks one")
        for note in facts.notes:
            self.builder.note(f"{id}: {note}")
        for what in dict.fromkeys(facts.unseen):
            self.builder.note(f"{id}: may call tools that cannot be seen: {what}")

    def run_inside(self, node: str, facts: Facts) -> None:
        """Adds the graphs that a node's functions run: the node can come to each of them, and comes back."""
        several = len(facts.graphs) > 1
        for name, graph in facts.graphs.items():
            if id(graph) in self.open:
                self.builder.note(f"{node}: it runs a graph that it is itself a part of")
                continue
            part = self.inside(graph, f"{node}/{name}/" if several else f"{node}/")
            for way in part.enters:
                self.edge(node, way.node, joined(way.kind, "conditional"), way.condition)
            for way in part.leaves:
                self.edge(way.node, node, "loop", way.condition)
            for call in part.calls:
                self.edge(call.node, node, "loop")


def _has_builder(graph: Any) -> bool:
    """Whether a graph is a StateGraph, compiled or not."""
    return is_a(graph, "langgraph", "StateGraph", "CompiledStateGraph") or (
        isinstance(graph, GraphOfCode) and hasattr(graph, "builder")
    )


@dataclass
class Level:
    """One StateGraph: its nodes, and the edges between them."""

    extraction: Extraction
    graph: Any
    prefix: str
    parts: dict[str, Part] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    widened: dict[str, str] = field(default_factory=dict)
    crossing: list[tuple[Way, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        compiled = not is_a(self.graph, "langgraph", "StateGraph")
        self.state_graph: Any = private_attribute(self.graph, "builder", "langgraph") if compiled else self.graph
        # what was added to the StateGraph after it was compiled is no part of the compiled graph
        present = private_attribute(self.graph, "nodes", "langgraph")
        self.specs: dict[str, Any] = {name: one for name, one in self.state_graph.nodes.items() if name in present}
        self.before = self._interrupts("interrupt_before_nodes")
        self.after = self._interrupts("interrupt_after_nodes")
        opened = [open_runnable(spec.runnable) for spec in self.specs.values()]
        middleware = [one for some in opened for one in some.middleware]
        self.always_gated, self.sometimes_gated = hitl_gates(middleware)

    def _interrupts(self, attribute: str) -> Collection[str]:
        names = getattr(self.graph, attribute, ())
        return frozenset(self.specs) if names == ALL else frozenset(names)

    def part(self) -> Part:
        """Adds the nodes and edges, and gives where the whole is entered and left."""
        for note in getattr(self.state_graph, "notes", ()):
            self.extraction.builder.note(note)
        for what in getattr(self.state_graph, "unseen", ()):
            self.extraction.builder.note_hidden_tools(what)
        facts: dict[str, Facts] = {}
        for name, spec in self.specs.items():
            self._node(name, spec, facts)
        self.links = list(dict.fromkeys(self._links(facts)))
        for name, known in facts.items():
            self._add(name, self.specs[name], known)
        return self._drawn()

    # Nodes.

    def _node(self, name: str, spec: Any, facts: dict[str, Facts]) -> None:
        """Takes down a node; a subgraph is added at once."""
        opened = open_runnable(spec.runnable)
        whole = opened.graphs[0] if len(opened.graphs) == 1 and not (opened.functions or opened.tools) else None
        if whole is None or id(whole) in self.extraction.open:
            known = facts[name] = facts_of(spec.runnable)
            self._gate(name, known)
            self.parts[name] = Part([Way(self.id(name))], [Way(self.id(name))], facts=known)
        else:
            self.parts[name] = self._subgraph(name, whole)

    def id(self, name: str) -> str:
        return name if name in {START, END} else f"{self.prefix}{name}"

    def _gate(self, name: str, facts: Facts) -> None:
        """Marks the tools of a node that a person is asked about, by middleware or before the node."""
        for tool in facts.tools:
            gated = name in self.before or (bool(facts.opened.tool_nodes) and tool in self.always_gated)
            facts.tools[tool] = facts.tools[tool] or gated
            if tool in self.sometimes_gated and not facts.tools[tool]:
                facts.notes.append(f"a person is asked about {tool} under a condition only, and so it is not gated")

    def _subgraph(self, name: str, graph: Any) -> Part:
        part = self.extraction.inside(graph, f"{self.id(name)}/")
        if name in self.before or any(way.node in {START, END} for way in (*part.enters, *part.leaves)):
            part = self._with_door(name, part)
        if name in self.after:
            part = self._with_gate_behind(name, part)
        return part

    def _with_door(self, name: str, part: Part) -> Part:
        """A subgraph that is entered by a node of its own: a person stands before it, or it can be passed by."""
        door, asked = self.id(name), name in self.before
        self.extraction.builder.node(
            door, "human" if asked else "subgraph", label=name, interrupt="before" if asked else None
        )
        for way in part.enters:
            if way.node != END:
                self.extraction.edge(door, way.node, way.kind, way.condition)
        passing = [Way(door, way.kind, way.condition) for way in part.enters if way.node == END]
        return Part([Way(door)], [*part.leaves, *passing], part.calls)

    def _with_gate_behind(self, name: str, part: Part) -> Part:
        """A subgraph behind which a person stands."""
        gate = f"{self.id(name)}/interrupt_after"
        self.extraction.builder.node(gate, "human", label=f"after {name}", interrupt="after")
        for way in part.leaves:
            self.extraction.edge(way.node, gate, way.kind, way.condition)
        return Part(part.enters, [Way(gate)], part.calls)

    def _add(self, name: str, spec: Any, facts: Facts) -> None:
        """Adds a node that is no subgraph."""
        id = self.id(name)  # noqa: A001 - as in the JSON
        hitl = any(is_hitl(one) for one in facts.opened.middleware)
        facts.asks = facts.asks or hitl
        self.extraction.add(
            id, self._kind(name, facts), name, facts, widened=True if name in self.widened else None,
            interrupt=self._interrupt(name), asks=_asks(facts) if not hitl else None,
            asks_about=sorted(self.always_gated | self.sometimes_gated) if hitl else None,
            waits_for=self._waits_for(name), defer=True if spec.defer else None,
            asked_before=self._asked_before(name, facts),
        )  # fmt: skip
        self._notes(id, name, facts, hitl=hitl)
        names = [one for one in facts.opened.graphs if one not in facts.graphs.values()]
        facts.graphs |= {one.name or "graph": one for one in names}
        self.extraction.run_inside(id, facts)

    def _kind(self, name: str, facts: Facts) -> NodeKind:
        """The kind of a node; where a person stands before or after it, that is where a person is asked."""
        targets = {link.target for link in self.links if link.source == name and link.kind == "conditional"}
        kind = facts.kind(len(targets))
        if kind != "tool" and (name in self.before or name in self.after):
            return "human"
        runs_graph = bool(facts.graphs or facts.opened.graphs or facts.opened.remote)
        return "subgraph" if runs_graph and kind in {"llm", "router"} else kind

    def _interrupt(self, name: str) -> str | None:
        found = [when for when, names in (("before", self.before), ("after", self.after)) if name in names]
        return " and ".join(found) or None

    def _notes(self, id: str, name: str, facts: Facts, *, hitl: bool) -> None:  # noqa: A002
        note = self.extraction.builder.note
        if when := self._interrupt(name):
            note(f"{id}: a person is asked {when} it runs")
        if hitl:
            note(f"{id}: a person is asked there about some tools only, which are gated")
        elif facts.asks and not facts.always_asks:
            note(f"{id}: a person is asked there under a condition only")
        if name in self.widened:
            why = self.widened[name]
            note(f"{id}: where it leads to cannot be known ({why}); edges to all that it could be are assumed")

    def _asked_before(self, name: str, facts: Facts) -> list[str] | None:
        """Where a node leads to only after it has asked a person, though it does not always ask."""
        if not facts.asks or facts.always_asks or self._leads_on(name) or len(facts.bodies) != 1:
            return None
        return [self.id(one) for one in self.specs if one in facts.bodies[0].asked_goto] or None

    def _leads_on(self, name: str) -> bool:
        """Whether a node leads on by edges, and not by its commands alone."""
        graph = self.state_graph
        leads_on = [*graph.edges, *((one, end) for ones, end in graph.waiting_edges for one in ones)]
        return any(source == name for source, _ in leads_on) or bool(graph.branches.get(name))

    def _waits_for(self, name: str) -> list[list[str]] | None:
        waiting = sorted(sources for sources, target in self.state_graph.waiting_edges if target == name)
        return [[self.id(one) for one in sources] for sources in waiting] or None

    # Edges.

    def _links(self, facts: dict[str, Facts]) -> Iterator[Link]:
        """The edges between the nodes, as LangGraph knows them, and as the code says."""
        order = {name: place for place, name in enumerate([START, *self.specs, END])}
        static = [(source, target) for source, target in self.state_graph.edges if {source, target} <= set(order)]
        for source, target in sorted(static, key=lambda pair: (order[pair[0]], order[pair[1]])):
            yield Link(source, target)
        for sources, target in sorted(self.state_graph.waiting_edges):
            yield from (Link(source, target) for source in sources if source in order and target in order)
        for source, branches in self.state_graph.branches.items():
            for branch in branches.values() if source in order else ():
                yield from self._branch(source, branch)
        for name, spec in self.specs.items():
            yield from self._commands(name, spec, facts.get(name))
            if spec.error_handler_node in self.specs:
                yield Link(name, spec.error_handler_node, "conditional", "error")

    def _branch(self, source: str, branch: Any) -> Iterator[Link]:
        """The edges of a condition: its path map, else what its function is declared to return, or can return."""
        opened = open_runnable(branch.path)
        bodies = [node_body(function) for function in opened.functions]
        for body in bodies:
            if body.asks:
                yield from self._asked_on_leaving(source, always=body.always_asks)
        sends = frozenset[str]().union(*(body.sends for body in bodies))
        elsewhere = any(body.sends_elsewhere for body in bodies)
        known = [body.returns for body in bodies]
        returned = None if None in known or not known else frozenset[str]().union(*filter(None, known))
        if branch.ends:
            pairs = [(str(key), target) for key, target in branch.ends.items()]
            yield from self._mapped(source, pairs, returned, sends, elsewhere=elsewhere)
            elsewhere = False  # what it sends to is taken to be in its path map
        else:
            declared = frozenset[str]().union(*(body.declared | body.strings.known for body in bodies))
            is_told = bool(bodies) and all(body.declared or body.returns is not None for body in bodies)
            if is_told:
                yield from (Link(source, target, "conditional") for target in self._known(source, declared))
            elif not is_frameworks(getattr(branch.path, "func", None)):
                yield from self._anywhere(source, _reasons(bodies, "what its condition returns"))
        yield from (Link(source, target, "parallel") for target in self._known(source, sends))
        if elsewhere:
            self._widen(source, _reasons(bodies, "where it sends to"))
            yield from (Link(source, target, "parallel") for target in self.specs)

    def _mapped(
        self,
        source: str,
        pairs: list[tuple[str, str]],
        returned: frozenset[str] | None,
        sends: frozenset[str],
        *,
        elsewhere: bool,
    ) -> Iterator[Link]:
        """The edges of a path map: one to which the condition only sends is no choice, but one of many at once."""
        for key, target in pairs:
            chosen = returned is None or key in returned or not (target in sends or (elsewhere and not returned))
            if chosen:
                yield Link(source, target, "conditional", key if key != target else "")
            elif target != END:
                yield Link(source, target, "parallel")

    def _asked_on_leaving(self, source: str, *, always: bool) -> Iterator[Link]:
        """A condition that asks a person does so as a part of the node before it."""
        facts = self.parts[source].facts if source in self.parts else None
        if facts is not None:
            facts.asks, facts.always_asks = True, facts.always_asks or always
        else:
            self.extraction.builder.note(f"{self.id(source)}: a person is asked by the condition behind it")
        return iter(())

    def _commands(self, name: str, spec: Any, facts: Facts | None) -> Iterator[Link]:
        """The edges of the commands that a node returns."""
        if facts is None:
            yield from self._calls(name, spec)
            return
        labels: dict[str, str] = dict(spec.ends) if isinstance(spec.ends, dict) else {}
        bodies = facts.all_bodies
        declared = frozenset(spec.ends or ()).union(*(body.declared_goto for body in bodies))
        known = declared.union(*(body.known_goto for body in bodies))
        for target in self._known(name, known):
            yield Link(name, target, "conditional", str(labels.get(target) or ""))
        if any(body.goto is None and not (declared or body.declared_goto) for body in bodies):
            yield from self._anywhere(name, _reasons(bodies, "where its commands lead to"))
        sends = frozenset[str]().union(*(body.sends for body in bodies))
        yield from (Link(name, target, "parallel") for target in self._known(name, sends))
        if any(body.sends_elsewhere for body in bodies) and not declared:
            self._widen(name, _reasons(bodies, "where it sends to"))
            yield from (Link(name, target, "parallel") for target in self.specs)
        if known and self._may_end(name, facts):
            yield Link(name, END, "conditional", "no command")
        if spec.is_error_handler and not known and not sends:
            yield Link(name, END)
        self.parts[name].calls.extend(self._for_parent(name, bodies))

    def _may_end(self, name: str, facts: Facts) -> bool:
        """Whether a node that leads on by its commands alone can return none, which ends the run."""
        if self._leads_on(name) or facts.commands_only:
            return False
        return any(body.goto is None or body.goto or body.declared_goto for body in facts.bodies)

    def _for_parent(self, name: str, bodies: Iterable[NodeBody]) -> Iterator[Call]:
        for body in bodies:
            if body.parent_goto is None:
                yield Call(self.id(name), None)
            elif body.parent_goto:
                yield Call(self.id(name), body.parent_goto)

    def _calls(self, name: str, spec: Any) -> Iterator[Link]:
        """The edges that a subgraph's own commands make in this graph, which are added at once."""
        part = self.parts[name]
        for call in part.calls:
            targets = self._known(name, call.targets) if call.targets is not None else [*(spec.ends or self.specs), END]
            if call.targets is None:
                self.widened[name] = "where a command of its subgraph leads to"
            self.crossing.extend((Way(call.node, "conditional"), target) for target in targets)
        if not part.calls:
            yield from (Link(name, target, "conditional") for target in self._known(name, spec.ends or ()))

    def _anywhere(self, source: str, reason: str) -> Iterator[Link]:
        self._widen(source, reason)
        yield from (Link(source, target, "conditional") for target in (*self.specs, END))

    def _widen(self, source: str, reason: str) -> None:
        self.widened[source] = reason

    def _known(self, source: str, targets: Iterable[str]) -> list[str]:
        """Those of some names that are nodes here, in their order."""
        wanted = set(targets)
        for name in sorted(wanted - {*self.specs, END}):
            self.extraction.builder.note(f"{self.id(source)}: leads to {name!r}, which is no node of its graph")
        return [name for name in (*self.specs, END) if name in wanted]

    # The whole.

    def _drawn(self) -> Part:
        """Draws the edges, and gives where the whole is entered and left."""
        whole = Part([], [], [call for part in self.parts.values() if part.facts for call in part.calls])
        for link in self.links:
            for way in self._ways_out(link.source):
                way_on = Way(way.node, joined(way.kind, link.kind), _and(way.condition, link.condition))
                self._enter(whole, way_on, link.target)
        for way, target in self.crossing:
            self._enter(whole, way, target)
        self._implicit_ends(whole)
        return whole

    def _ways_out(self, source: str) -> list[Way]:
        return [Way(START)] if source == START else self.parts[source].leaves

    def _enter(self, whole: Part, way: Way, target: str) -> None:
        """Draws what leads from a way out of one part into another."""
        entries = [Way(END)] if target == END else self.parts[target].enters
        for entry in entries:
            kind, condition = joined(way.kind, entry.kind), _and(way.condition, entry.condition)
            if way.node == START:
                whole.enters.append(Way(entry.node, kind, condition))
            elif entry.node == END:
                whole.leaves.append(Way(way.node, kind, condition))
            else:
                self.extraction.edge(way.node, entry.node, kind, condition)

    def _implicit_ends(self, whole: Part) -> None:
        """Where nothing follows, the run of this graph ends: in a subgraph, that of the graph around it goes on."""
        leading = {link.source for link in self.links}
        for name, part in self.parts.items():
            by_command = part.calls and part.facts is not None and part.facts.commands_only
            if name in leading or by_command:
                continue
            if self.prefix:
                whole.leaves.extend(part.leaves)
            elif part.facts is None:
                whole.leaves.extend(way for way in part.leaves if way.kind == "conditional")


def _and(*conditions: str) -> str:
    return " and ".join(one for one in conditions if one)


def _asks(facts: Facts) -> str | None:
    """Whether a node asks a person whatever happens, or sometimes."""
    if not facts.asks:
        return None
    return "always" if facts.always_asks else "sometimes"


def _reasons(bodies: Iterable[NodeBody], otherwise: str) -> str:
    found = [reason for body in bodies for reason in body.reasons]
    return "; ".join(dict.fromkeys(found)) or otherwise
