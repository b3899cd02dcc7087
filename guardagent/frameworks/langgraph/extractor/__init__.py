"""Extracts the workflow graph of a StateGraph (compiled or not), an agent, or a function with `@entrypoint`.

Subgraphs are flattened: the nodes of the subgraph `child` have ids such as `child/node`. Declared edges, path maps,
destinations, waiting edges and interrupts are used as they are. The rest comes from the code of the node functions;
where the code does not determine the successors, there are edges to all nodes and to the end.

LangGraph ends a run where no edge leads on. A node without any outgoing edge gets no edge to the end: the edge was
probably forgotten, and the checks report a dead end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from guardagent.errors import InputError
from guardagent.frameworks.langgraph.extractor.channels import (
    Fragment,
    LangGraphExtraction,
    ParentCommand,
    Port,
    joined,
)
from guardagent.frameworks.langgraph.extractor.commands import NodeBody, node_body
from guardagent.frameworks.langgraph.extractor.nodes import (
    NodeFacts,
    facts_of,
    hitl_gates,
    is_frameworks,
    is_graph,
    is_hitl,
    open_runnable,
)
from guardagent.frameworks.langgraph.package import FRAMEWORK
from guardagent.workflow.extraction import from_module, is_a, private_attribute
from guardagent.workflow.model.graph import END, START, TOOLS, EdgeKind, Graph, GraphBuilder, NodeKind, mark
from guardagent.workflow.python_source.evaluator import is_applied
from guardagent.workflow.python_source.outcomes import code_of
from guardagent.workflow.python_source.values import Arguments, Class, Instance, PartialFunction, exactly

ALL = "*"


def recognises(target: object) -> bool:
    return from_module(target, "langgraph") or bool(_bound(target))


def extract(target: object, name: str) -> Graph:
    """The graph of an object of LangGraph.

    Raises:
        InputError: the object is not a graph, or is a remote graph.
    """
    graph = _bound(target) or target
    if is_a(graph, "langgraph", "RemoteGraph"):
        raise InputError(
            f"{name}: a remote graph has only a name here; expected the graph itself. Verify it where it is defined"
        )
    if not is_graph(graph):
        kind = type(graph)
        raise InputError(
            f"{name}: a {kind.__module__}.{kind.__qualname__} is not a graph; expected a StateGraph, compiled or not, "
            f"an agent, or a function with '@entrypoint'"
        )
    builder = GraphBuilder(name, FRAMEWORK)
    LangGraphExtraction(builder, lambda *parts: StateGraphReader(*parts).fragment()).add_root(graph)
    return builder.graph()


def _bound(target: object) -> Any:
    """The graph inside a runnable that only binds configuration, retries, or similar; None if there is none."""
    while is_a(target, "langchain_core", "RunnableBindingBase"):
        target = target.bound  # type: ignore[attr-defined]
        if is_graph(target):
            return target
    return None


@dataclass(frozen=True)
class NodeLink:
    """An edge between two nodes of one StateGraph."""

    source: str
    target: str
    kind: EdgeKind = "direct"
    condition: str = ""


@dataclass
class StateGraphReader:
    """One StateGraph: its nodes, and the edges between them."""

    extraction: LangGraphExtraction
    graph: Any
    prefix: str
    fragments: dict[str, Fragment] = field(default_factory=dict)
    links: list[NodeLink] = field(default_factory=list)
    widened: dict[str, str] = field(default_factory=dict)
    boundary_edges: list[tuple[Port, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        compiled = not is_a(self.graph, "langgraph", "StateGraph")
        self.state_graph: Any = private_attribute(self.graph, "builder", "langgraph") if compiled else self.graph
        # nodes added to the StateGraph after compilation are not part of the compiled graph
        present = private_attribute(self.graph, "nodes", "langgraph")
        self.specs: dict[str, Any] = {name: node for name, node in self.state_graph.nodes.items() if name in present}
        self.interrupted_before = self._interrupts("interrupt_before_nodes")
        self.interrupted_after = self._interrupts("interrupt_after_nodes")
        opened = [open_runnable(spec.runnable) for spec in self.specs.values()]
        middleware = [layer for some in opened for layer in some.middleware]
        self.always_gated, self.sometimes_gated = hitl_gates(middleware)

    def _interrupts(self, attribute: str) -> Collection[str]:
        names = getattr(self.graph, attribute, ())
        return frozenset(self.specs) if names == ALL else frozenset(names)

    def fragment(self) -> Fragment:
        """Adds the nodes and edges, and returns their fragment."""
        for note in getattr(self.state_graph, "notes", ()):
            self.extraction.builder.note(note)
        for what in getattr(self.state_graph, "unseen", ()):
            self.extraction.builder.mark(START, TOOLS, what)
        facts: dict[str, NodeFacts] = {}
        for name, spec in self.specs.items():
            self._node(name, spec, facts)
        self.links = list(dict.fromkeys(self._links(facts)))
        for name, known in facts.items():
            self._add(name, self.specs[name], known)
        return self._draw_edges()

    # Nodes.

    def _node(self, name: str, spec: Any, facts: dict[str, NodeFacts]) -> None:
        """Records the facts of a node; a subgraph is added immediately."""
        contents = open_runnable(spec.runnable)
        subgraph = (
            contents.graphs[0] if len(contents.graphs) == 1 and not (contents.functions or contents.tools) else None
        )
        if subgraph is None or id(subgraph) in self.extraction.active:
            known = facts[name] = facts_of(spec.runnable)
            self._gate(name, known)
            self.fragments[name] = Fragment([Port(self.id(name))], [Port(self.id(name))], facts=known)
        else:
            self.fragments[name] = self._subgraph(name, subgraph)

    def id(self, name: str) -> str:
        return name if name in {START, END} else f"{self.prefix}{name}"

    def _gate(self, name: str, facts: NodeFacts) -> None:
        """Marks the tools that need human approval, by middleware or by an interrupt before the node."""
        for tool in facts.tools:
            gated = name in self.interrupted_before or (bool(facts.contents.tool_nodes) and tool in self.always_gated)
            facts.tools[tool] = facts.tools[tool] or gated
            if tool in self.sometimes_gated and not facts.tools[tool]:
                facts.notes.append(f"the tool {tool!r} asks a person only under a condition; it is not gated")

    def _subgraph(self, name: str, graph: Any) -> Fragment:
        inner = self.extraction.add_graph(graph, f"{self.id(name)}/")
        if name in self.interrupted_before or any(way.node in {START, END} for way in (*inner.entries, *inner.exits)):
            inner = self._with_entry_node(name, inner)
        if name in self.interrupted_after:
            inner = self._with_gate_after(name, inner)
        return inner

    def _with_entry_node(self, name: str, part: Fragment) -> Fragment:
        """A subgraph with an entry node of its own: for an interrupt before it, or because it can be skipped."""
        entry, interrupted = self.id(name), name in self.interrupted_before
        self.extraction.builder.node(
            entry, "human" if interrupted else "subgraph", label=name, interrupt="before" if interrupted else None
        )
        for way in part.entries:
            if way.node != END:
                self.extraction.edge(entry, way.node, way.kind, way.condition)
        skipping = [Port(entry, way.kind, way.condition) for way in part.entries if way.node == END]
        return Fragment([Port(entry)], [*part.exits, *skipping], part.parent_commands)

    def _with_gate_after(self, name: str, part: Fragment) -> Fragment:
        """A subgraph with an interrupt after it."""
        gate = f"{self.id(name)}/interrupt_after"
        self.extraction.builder.node(gate, "human", label=f"after {name}", interrupt="after")
        for way in part.exits:
            self.extraction.edge(way.node, gate, way.kind, way.condition)
        return Fragment(part.entries, [Port(gate)], part.parent_commands)

    def _add(self, name: str, spec: Any, facts: NodeFacts) -> None:
        """Adds a node that is not a subgraph."""
        id = self.id(name)  # noqa: A001 - as in the JSON
        hitl = any(is_hitl(layer) for layer in facts.contents.middleware)
        facts.asks = facts.asks or hitl
        self.extraction.add(
            id, self._kind(name, facts), name, facts, widened=mark(self.widened.get(name)),
            interrupt=self._interrupt(name), asks=_asks(facts) if not hitl else None,
            asks_about=sorted(self.always_gated | self.sometimes_gated) if hitl else None,
            waits_for=self._waits_for(name), also_after=self._also_after(name), defer=True if spec.defer else None,
            asked_before=self._gated_targets(name, facts), guarded=True if facts.guarded else None,
        )  # fmt: skip
        self._notes(id, name, facts, hitl=hitl)
        names = [graph for graph in facts.contents.graphs if graph not in facts.graphs.values()]
        facts.graphs |= {name.name or "graph": name for name in names}
        self.extraction.add_called_graphs(id, facts)

    def _kind(self, name: str, facts: NodeFacts) -> NodeKind:
        """The kind of a node; an interrupt before or after it makes it `human`, unless it runs tools."""
        targets = {link.target for link in self.links if link.source == name and link.kind == "conditional"}
        kind = facts.kind(len(targets))
        if kind != "tool" and (name in self.interrupted_before or name in self.interrupted_after):
            return "human"
        runs_graph = bool(facts.graphs or facts.contents.graphs or facts.contents.remote)
        return "subgraph" if runs_graph and kind in {"llm", "router", "passthrough"} else kind

    def _interrupt(self, name: str) -> str | None:
        interrupts = [
            when
            for when, names in (("before", self.interrupted_before), ("after", self.interrupted_after))
            if name in names
        ]
        return " and ".join(interrupts) or None

    def _notes(self, id: str, name: str, facts: NodeFacts, *, hitl: bool) -> None:  # noqa: A002
        note = self.extraction.builder.note
        if when := self._interrupt(name):
            note(f"{id}: a person is asked {when} it runs")
        if hitl:
            note(f"{id}: it asks a person about some tools only, which are gated")
        elif facts.asks and not facts.always_asks:
            note(f"{id}: it asks a person only under a condition")

    def _gated_targets(self, name: str, facts: NodeFacts) -> list[str] | None:
        """The successors that a node reaches only after approval, though it does not always ask."""
        if not facts.asks or facts.always_asks or self._leads_on(name) or len(facts.bodies) != 1:
            return None
        return [self.id(spec) for spec in self.specs if spec in facts.bodies[0].gated_goto] or None

    def _leads_on(self, name: str) -> bool:
        """Whether a node has successors by edges, not only by its commands."""
        graph = self.state_graph
        leads_on = [*graph.edges, *((waited_node, end) for ones, end in graph.waiting_edges for waited_node in ones)]
        return any(source == name for source, _ in leads_on) or bool(graph.branches.get(name))

    def _waits_for(self, name: str) -> list[list[str]] | None:
        waiting = sorted(sources for sources, target in self.state_graph.waiting_edges if target == name)
        return [[self.id(source) for source in sources] for sources in waiting] or None

    def _also_after(self, name: str) -> list[str] | None:
        """The nodes for which a node waits together with others, and which also lead to it by an edge of their own."""
        waited = {source for sources, target in self.state_graph.waiting_edges if target == name for source in sources}
        return (
            sorted(self.id(source) for source, target in self.state_graph.edges if target == name and source in waited)
            or None
        )

    # Edges.

    def _links(self, facts: dict[str, NodeFacts]) -> list[NodeLink]:
        """The edges between the nodes; one that is always taken is not taken under a condition as well."""
        links = list(self._all_links(facts))
        direct = set(self.state_graph.edges)  # without those that wait for others
        return [link for link in links if link.kind != "conditional" or (link.source, link.target) not in direct]

    def _all_links(self, facts: dict[str, NodeFacts]) -> Iterator[NodeLink]:
        """The edges between the nodes: those declared to LangGraph, and those found in the code."""
        order = {name: place for place, name in enumerate([START, *self.specs, END])}
        static = [(source, target) for source, target in self.state_graph.edges if {source, target} <= set(order)]
        for source, target in sorted(static, key=lambda pair: (order[pair[0]], order[pair[1]])):
            yield NodeLink(source, target)
        for sources, target in sorted(self.state_graph.waiting_edges):
            yield from (NodeLink(source, target) for source in sources if source in order and target in order)
        for source, branches in self.state_graph.branches.items():
            for branch in branches.values() if source in order else ():
                yield from self._branch(source, branch)
        for name, spec in self.specs.items():
            yield from self._commands(name, spec, facts.get(name))
            if spec.error_handler_node in self.specs:
                yield NodeLink(name, spec.error_handler_node, "conditional", "error")

    def _branch(self, source: str, branch: Any) -> Iterator[NodeLink]:
        """The edges of a condition: by its path map, else by what its function declares or can return."""
        opened = open_runnable(branch.path)
        bodies = [node_body(PartialFunction(function, self._state)) for function in opened.functions]
        for body in bodies:
            if body.asks:
                yield from self._record_question(source, always=body.always_asks)
        sends = frozenset[str]().union(*(body.sends for body in bodies))
        sends_to_unknown = any(body.sends_to_unknown for body in bodies)
        returned = _union(body.returns for body in bodies) if bodies else None
        together = _union(body.returned_together for body in bodies)
        if branch.ends:
            pairs = [(str(key), target) for key, target in branch.ends.items()]
            ways = self._path_map(source, pairs, returned, sends, sends_to_unknown=sends_to_unknown)
            yield from _side_by_side(ways, together and {branch.ends.get(key) for key in together})
            sends_to_unknown = False  # targets of `Send` are assumed to be in the path map
        elif getattr(branch, "unknown_ends", False):
            yield from self._anywhere(source, _reasons([], "the path map of its condition"))
        else:
            declared = frozenset[str]().union(*(body.declared_strings | body.strings.known for body in bodies))
            determined = bool(bodies) and all(body.declared_strings or body.returns is not None for body in bodies)
            if determined:
                links = (NodeLink(source, target, "conditional") for target in self._known_nodes(source, declared))
                yield from _side_by_side(links, together)
            elif not is_frameworks(getattr(branch.path, "func", None)):
                anywhere = self._anywhere(source, _reasons(bodies, "the result of its condition"))
                yield from _side_by_side(anywhere, together)
        yield from (NodeLink(source, target, "parallel") for target in self._known_nodes(source, sends))
        if sends_to_unknown:
            self._widen(source, _reasons(bodies, "the targets of its sends"))
            yield from (NodeLink(source, target, "parallel") for target in self.specs)

    def _path_map(
        self,
        source: str,
        pairs: list[tuple[str, str]],
        returned: frozenset[str] | None,
        sends: frozenset[str],
        *,
        sends_to_unknown: bool,
    ) -> Iterator[NodeLink]:
        """The edges of a path map: a target reached only by `Send` gets a parallel edge, not a conditional one."""
        for key, target in pairs:
            chosen = returned is None or key in returned or not (target in sends or (sends_to_unknown and not returned))
            if chosen:
                yield NodeLink(source, target, "conditional", key if key != target else "")
            elif target != END:
                yield NodeLink(source, target, "parallel")

    def _record_question(self, source: str, *, always: bool) -> Iterator[NodeLink]:
        """Attributes a question asked by a condition to the node before it."""
        facts = self.fragments[source].facts if source in self.fragments else None
        if facts is not None:
            facts.asks, facts.always_asks = True, facts.always_asks or always
        else:
            self.extraction.builder.note(f"{self.id(source)}: the condition after it asks a person")
        return iter(())

    def _commands(self, name: str, spec: Any, facts: NodeFacts | None) -> Iterator[NodeLink]:
        """The edges of the commands that a node returns."""
        if facts is None:
            yield from self._subgraph_commands(name, spec)
            return
        labels: dict[str, str] = dict(spec.ends) if isinstance(spec.ends, dict) else {}
        bodies = facts.all_bodies
        declared = frozenset(spec.ends or ()).union(*(body.declared_goto for body in bodies))
        known = declared.union(*(body.known_goto for body in bodies))
        nodes = self._known_nodes(name, known)
        links = [NodeLink(name, target, "conditional", str(labels.get(target) or "")) for target in nodes]
        if any(body.goto is None and not (declared or body.declared_goto) for body in bodies):
            links += self._anywhere(name, _reasons(bodies, "the targets of its commands"))
        links = [link for link in links if (name, link.target) not in self.state_graph.edges]  # it runs once
        together = _union(body.goto_together for body in bodies)
        if together is None:
            together = _union(body.goto_together for body in self._with_state(facts))
        if facts.contents.tool_nodes and len(links) > 1:  # the commands of several tools
            together = None
        yield from _side_by_side(links, together)
        sends = frozenset[str]().union(*(body.sends for body in bodies))
        yield from (NodeLink(name, target, "parallel") for target in self._known_nodes(name, sends))
        if any(body.sends_to_unknown for body in bodies) and not declared:
            self._widen(name, _reasons(bodies, "the targets of its sends"))
            yield from (NodeLink(name, target, "parallel") for target in self.specs)
        if known and self._may_end(name, facts):
            yield NodeLink(name, END, "conditional", "no command")
        if spec.is_error_handler and not known and not sends:
            yield NodeLink(name, END)
        self.fragments[name].parent_commands.extend(self._parent_commands(name, bodies))

    def _with_state(self, facts: NodeFacts) -> list[NodeBody]:
        """The functions of a node, called with the state of the graph unless they declare another one."""
        functions, bodies = facts.contents.functions, facts.all_bodies
        known = len(functions) == len(bodies) and all(body.source_known for body in bodies)
        plain = known and not any(map(_declares_state, functions))
        return [node_body(PartialFunction(each, self._state)) for each in functions] if plain else bodies

    @property
    def _state(self) -> Arguments:
        schema = getattr(self.state_graph, "state_schema", None)
        return Arguments((exactly(Instance(schema)),) if isinstance(schema, type | Class) else ())

    def _may_end(self, name: str, facts: NodeFacts) -> bool:
        """Whether a node with successors by commands alone can return no command, which ends the run."""
        if self._leads_on(name) or facts.commands_only:
            return False
        return any(body.goto is None or body.goto or body.declared_goto for body in facts.bodies)

    def _parent_commands(self, name: str, bodies: Iterable[NodeBody]) -> Iterator[ParentCommand]:
        for body in bodies:
            if body.parent_goto is None:
                yield ParentCommand(self.id(name), None)
            elif body.parent_goto:
                yield ParentCommand(self.id(name), body.parent_goto, body.goto_together)

    def _subgraph_commands(self, name: str, spec: Any) -> Iterator[NodeLink]:
        """The edges of a subgraph's commands in this graph; those that cross the boundary are recorded separately."""
        fragment = self.fragments[name]
        for command in fragment.parent_commands:
            targets = (
                self._known_nodes(name, command.targets)
                if command.targets is not None
                else [*(spec.ends or self.specs), END]
            )
            if command.targets is None:
                self.widened[name] = "the target of a command of its subgraph"
            links = [NodeLink(command.node, target, "conditional") for target in targets]
            for link in _side_by_side(links, command.together):
                self.boundary_edges.append((Port(link.source, link.kind), link.target))
        if not fragment.parent_commands:
            yield from (NodeLink(name, target, "conditional") for target in self._known_nodes(name, spec.ends or ()))

    def _anywhere(self, source: str, reason: str) -> Iterator[NodeLink]:
        self._widen(source, reason)
        yield from (NodeLink(source, target, "conditional") for target in (*self.specs, END))

    def _widen(self, source: str, reason: str) -> None:
        self.widened[source] = reason

    def _known_nodes(self, source: str, targets: Iterable[str]) -> list[str]:
        """The targets that are nodes of this graph, in node order; notes the others."""
        wanted = set(targets)
        for name in sorted(wanted - {*self.specs, END}):
            self.extraction.builder.note(f"{self.id(source)}: it leads to {name!r}, which is not a node of its graph")
        return [name for name in (*self.specs, END) if name in wanted]

    # The whole.

    def _draw_edges(self) -> Fragment:
        """Adds the edges, and returns the fragment of the whole graph."""
        fragment = Fragment(
            [], [], [call for part in self.fragments.values() if part.facts for call in part.parent_commands]
        )
        for link in self.links:
            for port in self._exits_of(link.source):
                next_port = Port(port.node, joined(port.kind, link.kind), _and(port.condition, link.condition))
                self._connect(fragment, next_port, link.target)
        for port, target in self.boundary_edges:
            self._connect(fragment, port, target)
        self._implicit_ends(fragment)
        return fragment

    def _exits_of(self, source: str) -> list[Port]:
        return [Port(START)] if source == START else self.fragments[source].exits

    def _connect(self, fragment: Fragment, port: Port, target: str) -> None:
        """Connects an exit of one fragment with the entries of another."""
        entries = [Port(END)] if target == END else self.fragments[target].entries
        for entry in entries:
            kind, condition = joined(port.kind, entry.kind), _and(port.condition, entry.condition)
            if port.node == START:
                fragment.entries.append(Port(entry.node, kind, condition))
            elif entry.node == END:
                fragment.exits.append(Port(port.node, kind, condition))
            else:
                self.extraction.edge(port.node, entry.node, kind, condition)

    def _implicit_ends(self, fragment: Fragment) -> None:
        """Ends the graph where nothing follows; after a subgraph, the graph around it continues."""
        leading = {link.source for link in self.links}
        for name, inner in self.fragments.items():
            by_command = inner.parent_commands and inner.facts is not None and inner.facts.commands_only
            if name in leading or by_command:
                continue
            if self.prefix:
                fragment.exits.extend(inner.exits)
            elif inner.facts is None:
                fragment.exits.extend(way for way in inner.exits if way.kind == "conditional")


def _declares_state(function: object) -> bool:
    tree = code_of(function)
    first = tree.args.args[:1] if tree is not None and not is_applied(function) else []
    return not first or first[0].annotation is not None


def _and(*conditions: str) -> str:
    return " and ".join(condition for condition in conditions if condition)


def _asks(facts: NodeFacts) -> str | None:
    """`always` or `sometimes`, as a node asks a person; None if it never does."""
    if not facts.asks:
        return None
    return "always" if facts.always_asks else "sometimes"


def _union(sets: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    """All names; None if those of one are not all known."""
    every = list(sets)
    return None if None in every else frozenset[str]().union(*filter(None, every))


def _side_by_side(links: Iterable[NodeLink], together: Collection[object] | None) -> Iterator[NodeLink]:
    """Makes edges parallel if a list can name their targets, so that several run; None for any list."""
    for link in links:
        is_one = link.target == END or (together is not None and link.target not in together)
        yield link if is_one else replace(link, kind="parallel")


def _reasons(bodies: Iterable[NodeBody], otherwise: str) -> str:
    reasons = [reason for body in bodies for reason in body.reasons]
    return "; ".join(dict.fromkeys(reasons)) or otherwise
