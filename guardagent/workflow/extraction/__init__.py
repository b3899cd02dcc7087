"""Extracts the workflow graph of the objects of a framework.

A framework is a folder of `guardagent.frameworks`, or a package that registers itself. Its `package.py` declares its
parts, which are loaded on demand: an extractor if it names the modules of its objects (`OBJECTS`), a source reader if
it names the packages that programs import (`PACKAGES`). An extractor is the module `extractor`, with

    recognises(target: object) -> bool             whether the object has a graph; imports nothing of the framework
    extract(target: object, name: str) -> Graph    the graph

What extractors share lies here, too:

- the inspection of objects without an import of their framework: classes, private attributes, tools and places. The
  place of a named object is the source location where it is constructed, as in `LlmAgent(name="draft", ...)`.
- regions, for frameworks in which agents contain other agents. A region is the part of a graph that one agent or a
  group of agents adds, with its entries and exits. Extractors build regions from the inside and connect them from the
  outside. At last, `cancelled_nodes` finds the nodes that are cancelled when one of several parallel branches ends the
  run for all.
"""

from __future__ import annotations

import ast
import linecache
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from guardagent._support.plugins import Plugins
from guardagent.errors import InputError
from guardagent.workflow.model.graph import (
    END,
    START,
    EdgeKind,
    Graph,
    GraphBuilder,
    MarkKey,
    Node,
    NodeKind,
    Unseen,
    mark,
    merged,
    unknown_parts,
)
from guardagent.workflow.python_source.values import Stub

_FOLDER = _GROUP = "guardagent.frameworks"
FRAMEWORKS = Plugins(
    "framework", _FOLDER, ("DISTRIBUTIONS", "EXTRA", "FRAMEWORK", "OBJECTS", "PACKAGES"), group=_GROUP, module="package"
)
EXTRACTORS = Plugins("extractor of", _FOLDER, ("extract", "recognises"), group=_GROUP, module="extractor")
SOURCES = Plugins("source reader of", _FOLDER, ("called", "extract", "is_workflow"), group=_GROUP, module="source")


def extractors_of(target: object) -> Iterator[Any]:
    """Yields the extractors of the frameworks that define the class of an object; loads no other."""
    modules = _modules_of(target)
    for name, package in FRAMEWORKS.load_all():
        if any(module == known or module.startswith(f"{known}.") for known in package.OBJECTS for module in modules):
            yield EXTRACTORS.load(name)


def _modules_of(target: object) -> set[str]:
    """Returns the modules of the base classes of an object or a class, and of their metaclasses."""
    kinds = [type(target), type(type(target)), *([target] if isinstance(target, type) else [])]
    return {str(base.__module__) for kind in kinds for base in kind.__mro__}


def extract(target: object, name: str = "") -> Graph:
    """Returns the workflow graph of an object of a framework; returns a Graph unchanged.

    Raises:
        InputError: the object is not from a known framework.
    """
    if isinstance(target, Graph):
        return target
    for extractor in extractors_of(target):
        if extractor.recognises(target):
            return extractor.extract(target, name or type(target).__name__)  # type: ignore[no-any-return]
    kind = type(target)
    known = ", ".join(framework.FRAMEWORK for _, framework in FRAMEWORKS.load_all() if framework.OBJECTS)
    raise InputError(
        f"'{kind.__module__}.{kind.__qualname__}' is not a workflow; expected an object of {known}, or a 'Graph'"
    )


def from_module(target: object, *packages: str) -> bool:
    """Whether the class of an object, or one of its base classes, is defined in one of the packages."""
    return any(kind.__module__.partition(".")[0] in packages for kind in type(target).__mro__)


# --- objects

_MISSING: Any = object()


class UnknownValue:
    """A stub for a value that the source of a program does not determine; it is false.

    Attributes:
        name: the name of the value in the program, or of its attribute.
        is_function: the value is probably callable.
        path: the path of the imported class that it is an object of; empty if it is not known.
        is_named: the program imports or declares the name.
    """

    def __init__(self, name: str, *, callable_: bool = False, path: str = "") -> None:
        self.name, self.is_function, self.path = name, callable_, path
        self.is_named = callable_ or bool(path)

    def __bool__(self) -> bool:
        return False


class Alternatives:
    """A stub for one of several values or lists of values; with `repeated`, any number of them in any order."""

    def __init__(self, options: Iterable[Any], *, repeated: bool = False) -> None:
        self.options, self.repeated = list(options), repeated
        self.name = " or ".join(str(getattr(option, "name", "?")) for option in self.options[:3])


def flattened(several: Iterable[Any]) -> list[Any]:
    """Returns the possible elements of a list: each option of its alternatives once."""
    flat: list[Any] = []
    for entry in several:
        inner = entry.options if isinstance(entry, Alternatives) else entry if isinstance(entry, list) else None
        flat += [entry] if inner is None else flattened(inner)
    return (
        list({id(element): element for element in flat}.values())
        if any(isinstance(element, Alternatives) for element in several)
        else flat
    )


def is_a(target: object, package: str, *names: str) -> bool:
    """Whether an object is an instance of one of the classes of a package, in any of its modules."""
    return any(kind.__name__ in names and _of(kind, package) for kind in type(target).__mro__)


def _of(kind: type, package: str) -> bool:
    return kind.__module__ == package or kind.__module__.startswith(f"{package}.")


def defined_outside(target: object, package: str, *methods: str) -> Any:
    """Returns the first of the methods that a class outside the package defines for an object; else None."""
    for kind in type(target).__mro__:
        if _of(kind, package):
            return None
        for method in methods:
            if method in vars(kind) and not is_guards(kind):
                return vars(kind)[method]
    return None


def is_guards(part: object) -> bool:
    """Whether a class or function is of this package's adapters, which judge calls and run no tool by themselves."""
    name = (getattr(part, "__module__", None) or "").split(".")
    return name[:2] == ["guardagent", "frameworks"] and name[3:4] == ["adapter"]


def without_guard(value: Any) -> Any:
    """The host's own object, in one by which an adapter replaces it."""
    while is_guards(type(value)) and hasattr(value, "guardagent_inner"):
        value = value.guardagent_inner
    return value


def private_attribute(target: object, attribute: str, distribution: str) -> Any:
    """Returns a private attribute of a framework's object.

    Raises:
        InputError: this version of the framework does not have the attribute.
    """
    value = getattr(target, attribute, _MISSING)
    if value is not _MISSING:
        return value
    kind = type(target)
    raise InputError(
        f"{distribution} {_version(distribution)}: '{kind.__module__}.{kind.__qualname__}' has no attribute "
        f"{attribute!r}, which its graph depends on; install a version that this extractor supports (its documentation "
        f"lists them), or verify the graph as JSON"
    )


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "(unknown version)"


# --- tools


@dataclass
class AgentTools:
    """The tools of one agent.

    Attributes:
        names: the names of the tools for the model.
        gated: the tools that wait for human approval.
        gated_when: for tools that do not always wait, the condition.
        unknown: sets of tools whose members are known only at run time.
        runs: the agent or workflow node that a tool runs, with the name of the tool.
        escalates: one of the tools can end the loop around the agent.
        opaque_calls: their calls that could not be seen.
        notes: remarks for human readers.
    """

    names: list[str] = field(default_factory=list)
    gated: list[str] = field(default_factory=list)
    gated_when: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    runs: list[tuple[str, object]] = field(default_factory=list)
    escalates: bool = False
    opaque_calls: list[Unseen | str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, gate: str | None = None) -> None:
        """Adds a tool; `gate` is None if it is not gated, empty if it is always gated, else the condition.

        If two tools share a name, the name is gated only if both are: either tool may be the one called.
        """
        again, waits = name in self.names, name in self.gated
        if not again:
            self.names.append(name)
        if gate is None or (again and not waits):
            self.gated = [gated_name for gated_name in self.gated if gated_name != name]
            self.gated_when.pop(name, None)
            return
        if not waits:
            self.gated.append(name)
        if gate:
            self.gated_when[name] = gate

    def include(self, other: AgentTools) -> None:
        """Adds the tools of another agent, with its remarks."""
        for name in other.names:
            self.add(name, other.gated_when.get(name, "") if name in other.gated else None)
        self.unknown += [name for name in other.unknown if name not in self.unknown]
        self.notes += [note for note in other.notes if note not in self.notes]

    def add_source(self, source: str, gate: str | None = None) -> str:
        """Adds tools of which only the source is known; returns the name that stands for them."""
        name = f"{source}.*"
        self.add(name, gate)
        if name not in self.unknown:
            self.unknown.append(name)
        return name

    def add_outside(self, tool: UnknownValue) -> None:
        """Adds what is defined elsewhere: a function of that name, or several tools."""
        if tool.is_function:
            self.add(tool.name)
        self.add_source(tool.name)

    def metadata(self) -> dict[str, Any]:
        """Returns the metadata of the tools for a node."""
        named = ", ".join(map(repr, self.unknown))
        members = f"the members of {named} are known only at run time" if named else None
        return {
            "gated_when": self.gated_when,
            "unknown_tools": tuple(self.unknown),
            "tools_unknown": mark(*self.opaque_calls, members),
            "widened": mark(members),
        }


# --- source locations

_LIBRARIES = tuple(
    {path for name in ("stdlib", "platstdlib", "purelib", "platlib") if (path := sysconfig.get_path(name))}
)


def source_location(target: object, name: str, *classes: str) -> dict[str, Any]:
    """Returns the file and line where an object is constructed: from its stub, or by its name."""
    if isinstance(target, Stub):
        return {"file": getattr(target, "file", None), "line": getattr(target, "line", None)}
    return construction_site(name, *classes)


def construction_site(name: str, *classes: str) -> dict[str, Any]:
    """Returns the file and line where an object of that name is constructed; empty unless there is exactly one."""
    sites = [(file, line) for kind, file, line in _index(tuple(_files())).get(name, ()) if kind in classes]
    return {"file": sites[0][0], "line": sites[0][1]} if len(sites) == 1 else {}


@lru_cache(maxsize=4)
def _index(files: tuple[str, ...]) -> dict[str, list[tuple[str, str, int]]]:
    """Maps each name in a call to the callees, with file and line."""
    index: dict[str, list[tuple[str, str, int]]] = {}
    for file in dict.fromkeys(files):
        for name, kind, line in _calls(file):
            index.setdefault(name, []).append((kind, file, line))
    return index


def _files() -> Iterator[str]:
    """Yields the files of the modules of the program."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        own = isinstance(file, str) and file.endswith(".py") and not file.startswith(_LIBRARIES)
        if own and name.partition(".")[0] != "guardagent" and "site-packages" not in str(file):
            yield str(file)


@lru_cache(maxsize=256)
def _calls(file: str) -> tuple[tuple[str, str, int], ...]:
    """Returns the calls in a file that pass a name: the name, the callee and the line."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return tuple((name, _callee_name(call.func), call.lineno) for call in calls if (name := _name_argument(call)))


def _name_argument(call: ast.Call) -> str:
    """Returns the name that a call passes as a literal; empty if there is none."""
    argument = next(
        (keyword.value for keyword in call.keywords if keyword.arg == "name"), call.args[0] if call.args else None
    )
    return argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else ""


def _callee_name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


# --- regions


@dataclass(frozen=True)
class RegionEntry:
    """An entry of a region; `parallel` if a run takes it together with others."""

    node: str
    kind: EdgeKind = "direct"
    condition: str = ""


@dataclass(frozen=True)
class RegionExit:
    """An exit of a region.

    Attributes:
        node: the last node.
        condition: when a run leaves there.
        conditional: the run can also continue elsewhere.
        escalated: the run leaves the enclosing loop, too.
        joins: the next node waits for all exits that join.
        back: the next node begins another round of a loop.
    """

    node: str
    condition: str = ""
    conditional: bool = False
    escalated: bool = False
    joins: bool = False
    back: bool = False


@dataclass(frozen=True)
class Region:
    """A part of a graph, with its entries and exits.

    Attributes:
        nodes: all of its nodes.
        empty: a run can pass the region without a node.
    """

    entries: tuple[RegionEntry, ...] = ()
    exits: tuple[RegionExit, ...] = ()
    nodes: frozenset[str] = frozenset()
    empty: bool = False


EMPTY_REGION = Region(empty=True)


def single(node: str, *, conditional: bool = False, condition: str = "") -> Region:
    """Returns the region of one node."""
    return Region((RegionEntry(node),), (RegionExit(node, condition, conditional),), frozenset({node}))


class Assembly:
    """Collects the nodes of objects, and connects regions."""

    def __init__(self) -> None:
        self._drafts: dict[str, Node] = {}
        self._edges: dict[tuple[str, str, EdgeKind], dict[str, None]] = {}
        self._ids: dict[int, tuple[object, str]] = {}  # with the objects, so that Python does not reuse their ids
        self._used_ids = {START, END}
        self._joins: dict[str, dict[str, None]] = {}
        self._notes: list[str] = []

    def id(self, owner: object, name: str, within: tuple[str, ...] = ()) -> str:
        """Returns the node of an object: its name, or a path if the name is in use."""
        if id(owner) not in self._ids:
            self._ids[id(owner)] = (owner, self._unused_id(name, within))
            self._used_ids.add(self._ids[id(owner)][1])
        return self._ids[id(owner)][1]

    def _unused_id(self, name: str, within: tuple[str, ...]) -> str:
        places = ["/".join((*within[depth:], name)) for depth in range(len(within), -1, -1)]
        numbered = (f"{places[-1]}#{number}" for number in range(2, len(self._used_ids) + 3))
        return next(place for place in (*places, *numbered) if place not in self._used_ids)

    def has(self, node: str) -> bool:
        """Whether a node has a description."""
        return node in self._drafts

    def kind(self, node: str) -> NodeKind | None:
        """Returns the kind of a node; None if it has no description."""
        return self._drafts[node].kind if node in self._drafts else None

    def set_kind(self, node: str, kind: NodeKind) -> None:
        """Changes the kind of a node."""
        self._drafts[node] = replace(self._drafts[node], kind=kind)

    def metadata_of(self, node: str, key: str) -> Any:
        """Returns the metadata of a node under a key; None if there is none."""
        return self._drafts[node].metadata.get(key)

    def describe(
        self,
        node: str,
        kind: NodeKind,
        label: str,
        *,
        tools: Iterable[str] = (),
        gated_tools: Iterable[str] = (),
        **metadata: Any,
    ) -> str:
        """Describes a node, and returns its id; leaves out empty values of `metadata`."""
        known = {key: value for key, value in metadata.items() if value not in (None, (), [], {}, False, "")}
        self._drafts[node] = Node(node, kind, label, tuple(tools), tuple(gated_tools), known)
        return node

    def describe_tools(self, node: str, kind: NodeKind, label: str, box: AgentTools, **metadata: Any) -> None:
        """Describes a node that can call some tools, with the remarks on them."""
        about = {**box.metadata(), **metadata}
        self.describe(node, kind, label, tools=box.names, gated_tools=box.gated, **about)
        for note in box.notes:
            self.note(f"{node}: {note}")

    def describe_agent(self, node: str, name: str, box: AgentTools, **metadata: Any) -> None:
        """Describes an agent, whose model chooses among its tools."""
        kind: NodeKind = "tool" if box.names else "llm"
        self.describe_tools(node, kind, name, box, model_chooses=bool(box.names), **metadata)

    def mark(self, node: str, **metadata: Any) -> None:
        """Adds metadata to a node."""
        draft = self._drafts[node]
        self._drafts[node] = replace(draft, metadata={**draft.metadata, **metadata})

    def mark_unknown(self, node: str, key: MarkKey, *unknown: Unseen | str) -> None:
        """Marks a node with what is unknown about its tools or its edges; the notes of the graph follow."""
        self.mark(node, **{key: merged(self.metadata_of(node, key), *unknown)})

    def note(self, text: str) -> None:
        """Adds a remark for human readers."""
        self._notes.append(text)

    def connect(self, exits: Iterable[RegionExit], entries: Iterable[RegionEntry]) -> None:
        """Connects every exit with every entry."""
        exits, entries = tuple(exits), tuple(entries)
        joining = {region_exit.node for region_exit in exits if region_exit.joins}
        for entry in entries:
            for region_exit in exits:
                kind: EdgeKind = (
                    "loop" if region_exit.back else "conditional" if region_exit.conditional else entry.kind
                )
                self._edges.setdefault((region_exit.node, entry.node, kind), {})[
                    entry.condition or region_exit.condition
                ] = None
            if len(joining) > 1 and entry.node != END:
                self._joins.setdefault(entry.node, {}).update(dict.fromkeys(sorted(joining)))

    def insert(self, graph: Graph, name: str) -> Region:
        """Adds the nodes of another graph under a name, and returns its region."""
        ids = {node.id: self.id(node, node.id, (name,)) for node in graph.nodes if node.id not in (START, END)}
        for node in graph.nodes:
            if node.id in ids:
                shown = {"tools": node.tools, "gated_tools": node.gated_tools, **node.metadata}
                self.describe(ids[node.id], node.kind, node.label, **shown)
        for edge in graph.edges:
            if edge.source in ids and edge.target in ids:
                self._edges.setdefault((ids[edge.source], ids[edge.target], edge.kind), {})[edge.condition] = None
        marked = set(map(str, unknown_parts(graph.nodes)))
        self._notes += [note for note in graph.notes if note not in marked]
        entries = [
            RegionEntry(ids[edge.target], edge.kind, edge.condition) for edge in graph.edges if edge.source == START
        ]
        exits = [
            RegionExit(ids[edge.source], edge.condition, edge.kind == "conditional")
            for edge in graph.edges
            if edge.target == END and edge.source in ids
        ]
        return Region(tuple(entries), tuple(exits), frozenset(ids.values()))

    def join(self, node: str, before: Iterable[str]) -> None:
        """Makes a node wait for all nodes of `before`."""
        self._joins.setdefault(node, {}).update(dict.fromkeys(before))

    def graph(self, name: str, framework: str, whole: Region) -> Graph:
        """Returns the graph of a run through one region."""
        self.connect([RegionExit(START)], whole.entries)
        self.connect(whole.exits, [RegionEntry(END)])
        if whole.empty:
            self.connect([RegionExit(START)], [RegionEntry(END)])
        builder = GraphBuilder(name, framework)
        for node, draft in self._drafts.items():
            metadata = {**draft.metadata, **({"join": tuple(self._joins[node])} if node in self._joins else {})}
            builder.node(
                node, draft.kind, label=draft.label, tools=draft.tools, gated_tools=draft.gated_tools, **metadata
            )
        self._emit(builder)
        for note in self._notes:
            builder.note(note)
        return builder.graph()

    def _emit(self, builder: GraphBuilder) -> None:
        """Adds one edge for each pair of nodes and kind, with all conditions; edges of a router are conditional."""
        merged: dict[tuple[str, str, EdgeKind], dict[str, None]] = {}
        for (source, target, kind), conditions in self._edges.items():
            draft = self._drafts.get(source)
            final: EdgeKind = "conditional" if draft is not None and draft.kind == "router" else kind
            merged.setdefault((source, target, final), {}).update(conditions)
        for (source, target, kind), conditions in sorted(merged.items(), key=lambda item: item[0][0] != START):
            builder.edge(source, target, kind, " or ".join(filter(None, conditions)))


def sequence(assembly: Assembly, regions: Iterable[Region]) -> Region:
    """Returns regions in sequence; after an escalation, the following exits leave the enclosing loop."""
    whole = Region(empty=True)
    for region in regions:
        assembly.connect(whole.exits, region.entries)
        whole = Region(
            (*whole.entries, *(region.entries if whole.empty else ())),
            (*_propagated(whole.exits, region), *(whole.exits if region.empty else ())),
            whole.nodes | region.nodes,
            whole.empty and region.empty,
        )
    return whole


def _propagated(before: Iterable[RegionExit], region: Region) -> Iterable[RegionExit]:
    """Yields the exits of a region, escalated if a run can enter the region escalated."""
    states = {region_exit.escalated for region_exit in before} or {False}
    for region_exit in region.exits:
        for escalated in sorted(states):
            yield replace(region_exit, escalated=region_exit.escalated or escalated)


def parallel(assembly: Assembly, regions: Iterable[Region], cancelling: Iterable[bool] = ()) -> Region:
    """Returns regions in parallel; the next node waits for all of them.

    Args:
        assembly: the assembly that connects them.
        regions: the branches.
        cancelling: for each branch, whether an escalation in it cancels the others.
    """
    several = tuple(regions)
    running = [region for region in several if region.entries]
    if len(running) < 2:
        return sequence(assembly, several)
    entries = [replace(entry, kind="parallel") for region in running for entry in region.entries]
    exits = [replace(leave, joins=True) for region in running for leave in region.exits]
    if any(leave.escalated for leave in exits):
        exits += [replace(leave, escalated=True) for leave in exits if not leave.escalated]
    nodes = frozenset(node for region in running for node in region.nodes)
    cut = nodes - {leave.node for leave in exits} if any(cancelling) else frozenset()
    exits += [RegionExit(node, "escalate", conditional=True, escalated=True) for node in sorted(cut)]
    return Region(tuple(entries), tuple(exits), nodes, all(region.empty for region in several))


def alternatives(assembly: Assembly, regions: Iterable[Region], repeated: bool) -> Region:  # noqa: FBT001
    """Returns a choice between regions; with `repeated`, any number of them in any order."""
    several = tuple(regions)
    entries = tuple(replace(entry, kind="conditional") for region in several for entry in region.entries)
    exits = tuple(replace(leave, conditional=True) for region in several for leave in region.exits)
    if repeated:
        assembly.connect(exits, entries)
        escalated = any(leave.escalated for leave in exits)
        exits += tuple(replace(leave, escalated=True) for leave in exits if escalated and not leave.escalated)
    nodes = frozenset(node for region in several for node in region.nodes)
    return Region(entries, exits, nodes, repeated or any(region.empty for region in several))


# --- nodes that are cancelled or abandoned


def cancelled_nodes(following: Mapping[str, Iterable[str]], branches: Iterable[str], joins: Iterable[str]) -> list[str]:
    """Returns the nodes of parallel branches after which the run can end because another branch ends it.

    Args:
        following: the successors of each node.
        branches: the first nodes of the branches.
        joins: the nodes that wait for all branches that lead to them.
    """
    first = list(branches)
    under_way = reachable_nodes(following, first)
    is_closed = any(not _leads(following, first, END, past=join) for join in joins if join in under_way)
    if is_closed or not _leads(following, first, END):
        return []
    return [node for node in under_way if END not in following.get(node, ())]


def abandoned_nodes(
    following: Mapping[str, Iterable[str]], begins: Iterable[str], branches: Iterable[str], join: str,
    joins: Iterable[str],
) -> list[str]:  # fmt: skip
    """Returns the nodes of branches that are abandoned when another branch reaches a join first.

    Args:
        following: the successors of each node.
        begins: the first nodes of the run.
        branches: the first nodes of the branches.
        join: the node that waits only for the first branch.
        joins: all nodes that wait; the branches that such a node awaits on every path to `join` are complete by then.
    """
    start = list(begins)
    over: set[str] = set()
    for other in joins:
        if other != join and not _leads(following, start, join, past=other):
            over |= {other, *reachable_nodes(following, start, other)}
    left = [node for node in reachable_nodes(following, branches, join) if node not in over]
    return [node for node in left if join not in following.get(node, ())]


def reachable_nodes(following: Mapping[str, Iterable[str]], begins: Iterable[str], past: str = END) -> list[str]:
    """Returns the reachable nodes, except the end, without passing the node `past`."""
    reachable_nodes: dict[str, None] = {}
    pending = list(begins)
    while pending:
        node = pending.pop(0)
        if node not in reachable_nodes and node not in {END, past}:
            reachable_nodes[node] = None
            pending.extend(following.get(node, ()))
    return list(reachable_nodes)


def _leads(following: Mapping[str, Iterable[str]], begins: list[str], target: str, past: str = END) -> bool:
    """Whether a node can be reached without passing the node `past`."""
    return target in begins or any(
        target in following.get(node, ()) for node in reachable_nodes(following, begins, past)
    )
