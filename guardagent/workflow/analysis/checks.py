"""The structural checks of a graph (Agentproof, Definition 3 and Section 6.1), and the findings that authors accept.

A check yields findings with shortest witnesses. To add one, write a function with `structural_check`; another package
registers a module as the entry point `guardagent.structural_checks`, with

    ORDER: int                                                 the position of its findings in reports
    ABOUT: CheckDescription                                    its description in reports
    check(context: CheckContext) -> Iterator[GraphFinding]

Checks of other packages come after the checks of this one.

A suppression accepts a finding, with a reason:

    graph.add_node("sink", sink)  # guardagent: ignore dead-end -- the run may end here

A comment is in the line of the node's definition or above it. A policy file lists suppressions under `ignore:`. A
suppression without a reason or without a matching finding is itself a finding.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from guardagent._support.execution import without_garbage_collection
from guardagent._support.plugins import Plugins
from guardagent.errors import UnknownNameError, name_hint
from guardagent.policy.policies import Policies
from guardagent.types import Decision
from guardagent.workflow.analysis.paths import BreadthFirstSearch, GraphIndex
from guardagent.workflow.analysis.report import GraphFinding
from guardagent.workflow.model.graph import Graph, Node, NodeKind, unknown_tools

# --- the interface of checks


@dataclass(frozen=True, slots=True)
class CheckDescription:
    """The description of a check in reports.

    Attributes:
        title: the property that has to hold.
        why: the problem if it does not hold.
        remedy: how to fix the problem.
    """

    title: str
    why: str
    remedy: str


@dataclass(frozen=True)
class CheckContext:
    """The input of checks: a graph, with the data that they share."""

    graph: Graph
    require_human: bool = False
    sensitive_tools: tuple[str, ...] = ()
    policies: Policies | None = None

    @cached_property
    def numbered(self) -> GraphIndex:
        return GraphIndex.of(self.graph)

    @cached_property
    def successors(self) -> list[list[int]]:
        return self.numbered.successors()

    @cached_property
    def kinds(self) -> list[NodeKind]:
        return [node.kind for node in self.graph.nodes]

    @cached_property
    def exits(self) -> frozenset[int]:
        return frozenset(self.numbered.numbers[exit_id] for exit_id in self.graph.exit_ids)

    def unattended(self, human_nodes: Collection[int]) -> BreadthFirstSearch:
        """The nodes that are reachable without human approval; excludes the branches that ask for approval."""
        numbers = self.numbered.numbers
        branches = {
            number: {numbers.get(target) for target in node.metadata["asked_before"]}
            for number, node in enumerate(self.graph.nodes)
            if isinstance(node.metadata.get("asked_before"), list | tuple)
        }
        asks_after = {number for number in human_nodes if self.graph.nodes[number].metadata.get("interrupt") == "after"}
        if not human_nodes and not branches:
            return self.reached
        after = [[] if number in asks_after else targets for number, targets in enumerate(self.successors)]
        for number, targets in branches.items():
            after[number] = [successor for successor in after[number] if successor not in targets]
        asks_first = set(human_nodes) - asks_after
        return BreadthFirstSearch(self.numbered.ids, after, [numbers[self.graph.entry_id]], asks_first)

    @cached_property
    def reached(self) -> BreadthFirstSearch:
        """The nodes that are reachable from the entry."""
        numbered = self.numbered
        return BreadthFirstSearch(numbered.ids, self.successors, [numbered.numbers[self.graph.entry_id]])

    @cached_property
    def can_end(self) -> BreadthFirstSearch:
        """The nodes that can reach an exit."""
        return BreadthFirstSearch(self.numbered.ids, self.numbered.predecessors(), self.exits)


_COMMENT = re.compile(r"#\s*guardagent:\s*ignore\b\s*(?P<checks>[\w\s,-]*?)\s*(?:--\s*(?P<reason>.*))?$")
_ALIASES = {"dead-end": "dead_ends", "livelock": "reverse_reachability", "tool-declaration": "tool_declarations"}


def structural_findings(
    graph: Graph, *, require_human: bool = False, sensitive_tools: Iterable[str] = (), policies: Policies | None = None
) -> list[GraphFinding]:
    """Returns all structural findings of a graph.

    Args:
        graph: the graph.
        require_human: a human has to take part somewhere.
        sensitive_tools: tools, or nodes by their ids, that no path may reach without human approval.
        policies: the rules, for the messages.

    Raises:
        UnknownNameError: a sensitive tool or node is not in the graph.
    """
    tools = tuple(sensitive_tools)
    known = can_be_sensitive(graph) if tools else set()
    for tool in tools:
        if tool not in known:
            raise UnknownNameError("sensitive tool or node", tool, known, f"graph {graph.name!r}")
    with without_garbage_collection():
        # The call frees the shared data before garbage collection resumes.
        return _findings(CheckContext(graph, require_human, tools, policies))


def can_be_sensitive(graph: Graph) -> set[str]:
    """The tools of a graph, and the ids of its nodes that run something."""
    return {tool for node in graph.nodes for tool in node.tools} | {
        node.id for node in graph.nodes if node.kind not in ("entry", "exit")
    }


def _findings(context: CheckContext) -> list[GraphFinding]:
    findings = [(name, finding) for name, check in _in_order() for finding in check.check(context)]
    return [finding if finding.check == name else replace(finding, check=name) for name, finding in findings]


def descriptions() -> dict[str, CheckDescription]:
    """Returns the description of each check."""
    return {name: check.about for name, check in _in_order()}


@cache
def _in_order() -> tuple[tuple[str, StructuralCheck], ...]:
    return tuple(sorted(CHECKS.load_all(), key=lambda pair: (pair[0] not in CHECKS.shipped(), pair[1].order, pair[0])))


_Check = Callable[[CheckContext], Iterator[GraphFinding]]


@dataclass(frozen=True, slots=True)
class StructuralCheck:
    """A check, with the position of its findings in reports and its description there."""

    order: int
    about: CheckDescription
    check: _Check


_SHIPPED: dict[str, StructuralCheck] = {}
CHECKS = Plugins(
    "structural check",
    "",
    ("ABOUT", "ORDER", "check"),
    group="guardagent.structural_checks",
    members=_SHIPPED,
    adapt=lambda module: StructuralCheck(module.ORDER, module.ABOUT, module.check),
)


def structural_check(name: str, *, order: int, about: CheckDescription) -> Callable[[_Check], _Check]:
    """Registers a function as the check with this name."""

    def register(check: _Check) -> _Check:
        _SHIPPED[name] = StructuralCheck(order, about, check)
        return check

    return register


@structural_check(
    "exit_reachability",
    order=1,
    about=CheckDescription(
        "Every exit can be reached",
        "No path leads from the entry to this exit, so the workflow can never end there.",
        "Add the missing edge, or remove the exit.",
    ),
)
def _exit_reachability(context: CheckContext) -> Iterator[GraphFinding]:
    for exit_id in context.graph.exit_ids:
        if context.numbered.numbers[exit_id] not in context.reached:
            message = f"the exit {exit_id!r} cannot be reached from the entry {context.graph.entry_id!r}"
            yield GraphFinding("exit_reachability", exit_id, "error", message, (exit_id,))


@structural_check(
    "reverse_reachability",
    order=2,
    about=CheckDescription(
        "Every reachable node can reach an exit",
        "Once the workflow is at this node, it can never end.",
        "Add an edge out of the cycle or the dead end that the path leads into.",
    ),
)
def _reverse_reachability(context: CheckContext) -> Iterator[GraphFinding]:
    """Finds livelocks."""
    ids, to_end = context.numbered.ids, context.can_end.parents
    for node in context.reached.order:
        if to_end[node] is None:
            message = f"{ids[node]!r} cannot reach any exit"
            yield GraphFinding("reverse_reachability", ids[node], "error", message, context.reached.path(node))


@structural_check(
    "dead_ends",
    order=3,
    about=CheckDescription(
        "Every node except an exit has an outgoing edge",
        "The workflow stops at this node, which is not an exit.",
        "Add an edge to the next node or to the exit.",
    ),
)
def _dead_ends(context: CheckContext) -> Iterator[GraphFinding]:
    ids, kinds = context.numbered.ids, context.kinds
    for node, targets in enumerate(context.successors):
        if not targets and kinds[node] != "exit":
            message = f"{ids[node]!r} has no outgoing edge and is not an exit"
            yield GraphFinding("dead_ends", ids[node], "error", message, context.reached.path(node))


@structural_check(
    "router_shape",
    order=4,
    about=CheckDescription(
        "Every edge that leaves a router is conditional",
        "An unconditional edge is taken whatever the router decides.",
        "Make the edge conditional, or change the kind of the node.",
    ),
)
def _router_shape(context: CheckContext) -> Iterator[GraphFinding]:
    kinds, numbered = context.kinds, context.numbered
    for edge, source, target in zip(context.graph.edges, numbered.sources, numbered.targets, strict=True):
        if kinds[source] == "router" and edge.kind != "conditional":
            fault = f"the router {edge.source!r} has a {edge.kind} edge to {edge.target!r}"
            message = f"{fault}; expected a conditional edge"
            yield GraphFinding("router_shape", edge.source, "error", message, context.reached.path(source, target))


@structural_check(
    "human_presence",
    order=5,
    about=CheckDescription(
        "A human takes part",
        "The workflow runs from its entry to its exit without human approval.",
        "Add a human node, or require approval before a tool runs.",
    ),
)
def _human_presence(context: CheckContext) -> Iterator[GraphFinding]:
    """A human takes part as a node, or by approving a tool."""
    graph = context.graph
    if not context.require_human or "human" in context.kinds or any(node.gated_tools for node in graph.nodes):
        return
    numbers = context.numbered.numbers
    end = next((exit_id for exit_id in graph.exit_ids if numbers[exit_id] in context.reached), graph.entry_id)
    message = "no human takes part: the graph has no human node and no tool that needs approval"
    yield GraphFinding("human_presence", None, "error", message, context.reached.path(numbers[end]))


@structural_check(
    "human_coverage",
    order=6,
    about=CheckDescription(
        "No path leads to a sensitive tool or node without human approval",
        "The sensitive tool or node can run without human approval.",
        "Require approval on every path to it, or for itself.",
    ),
)
def _human_coverage(context: CheckContext) -> Iterator[GraphFinding]:
    sensitive = set(context.sensitive_tools)
    if not sensitive:
        return
    nodes = context.graph.nodes
    people = [
        number for number, kind in enumerate(context.kinds) if kind == "human" and not _can_be_bypassed(nodes[number])
    ]
    unattended = context.unattended(people)
    for number, node in enumerate(nodes):
        if number not in unattended:
            continue
        asks_itself = bool(node.tools) and set(node.tools) <= set(node.gated_tools)
        if node.id in sensitive and not asks_itself:
            message = f"{node.id!r} can run on a path without human approval"
            yield GraphFinding("human_coverage", node.id, "error", message, unattended.path(number))
        if not sensitive.isdisjoint(node.tools):
            for tool in node.tools:
                if tool in sensitive and tool not in node.gated_tools:
                    message = f"{node.id!r} can call {tool!r} on a path without human approval"
                    message += _escalations(context.policies, tool)
                    yield GraphFinding("human_coverage", node.id, "error", message, unattended.path(number))


def _escalations(policies: Policies | None, tool: str) -> str:
    """Names the rules by which a guard escalates calls of a tool, if it has them and a call violates them."""
    rules = [rule for rule in policies.rules if tool in rule.tools] if policies is not None else []
    asking = [repr(rule.id) for rule in rules if rule.source.on_violation == Decision.ESCALATE]
    if not asking:
        return ""
    return (
        f"; a guard asks a person about calls that violate {', '.join(asking)}, which the graph cannot prove of every "
        "call: if that is enough, suppress this with a reason under 'ignore:' in the policy"
    )


def _can_be_bypassed(node: Node) -> bool:
    """Whether a run can pass a node without approval: the node asks only on a branch, or about some tools."""
    metadata = node.metadata
    return bool(metadata.get("asks_about")) or (metadata.get("asks") == "sometimes" and not metadata.get("interrupt"))


@structural_check(
    "tool_declarations",
    order=7,
    about=CheckDescription(
        "Every tool node declares its tools",
        "Without its tools, nothing can be proved about this node.",
        "Declare the node's tools.",
    ),
)
def _tool_declarations(context: CheckContext) -> Iterator[GraphFinding]:
    """A node whose tools are unknown is reported as such, not by this check."""
    for number, node in enumerate(context.graph.nodes):
        if node.kind == "tool" and not node.tools and not unknown_tools(node):
            message = f"the tool node {node.id!r} declares no tools"
            yield GraphFinding("tool_declarations", node.id, "error", message, context.reached.path(number))


@dataclass(frozen=True, slots=True)
class Suppression:
    """An accepted finding.

    Attributes:
        check: the name of the check, as the author wrote it.
        node: the id of the node; None for the whole graph.
        reason: the reason of the author.
        place: the location of the suppression, `file:line`.
    """

    check: str
    node: str | None
    reason: str
    place: str

    def matches(self, finding: GraphFinding) -> bool:
        return check_of(self.check) == finding.check and self.node == finding.node


def check_of(name: str) -> str | None:
    """Returns the check with a name such as `dead-end` or `dead_ends`; None if there is none."""
    return _names().get(name.replace("_", "-"))


@cache
def _names() -> dict[str, str]:
    return {name.replace("_", "-"): name for name in (*CHECKS, "suppressions")} | _ALIASES


def apply_suppressions(
    graph: Graph, findings: Sequence[GraphFinding], suppressions: Sequence[Suppression] = ()
) -> list[GraphFinding]:
    """Marks the suppressed findings, and adds a finding for each wrong suppression.

    Args:
        graph: the graph, whose nodes may have comments in their sources.
        findings: the findings of the structural checks.
        suppressions: those of the policy file.
    """
    known = [*suppressions, *_comments(graph)]
    marked = [_marked(finding, known) for finding in findings]
    return [*marked, *(wrong for suppression in known for wrong in _problems(suppression, findings))]


def _marked(finding: GraphFinding, known: Sequence[Suppression]) -> GraphFinding:
    reason = next(
        (suppression.reason for suppression in known if suppression.reason and suppression.matches(finding)), None
    )
    return finding if reason is None else replace(finding, suppressed=reason)


def _problems(suppression: Suppression, findings: Sequence[GraphFinding]) -> Iterator[GraphFinding]:
    where = f" at {suppression.node!r}" if suppression.node else ""
    what = f"{suppression.place}: the suppression of {suppression.check!r}{where}"
    if check_of(suppression.check) is None:
        problem = f"{what} names an unknown check{name_hint(suppression.check, _names())}"
    elif not suppression.reason:
        problem = f"{what} has no reason; expected '-- REASON'"
    elif not any(suppression.matches(finding) for finding in findings):
        problem = f"{what} matches no finding; remove it"
    else:
        return
    yield GraphFinding("suppressions", suppression.node, "error", problem)


def _comments(graph: Graph) -> Iterator[Suppression]:
    """Yields the suppressions in the source files of the nodes."""
    places: dict[str, dict[int, Node]] = {}
    for node in graph.nodes:
        file, line = node.metadata.get("file"), node.metadata.get("line")
        if isinstance(file, str) and isinstance(line, int):
            places.setdefault(file, {})[line] = node
    for file, nodes in places.items():
        yield from _comments_of(Path(file), nodes)


def _comments_of(file: Path, nodes: dict[int, Node]) -> Iterator[Suppression]:
    for line, match in _suppression_comments(file):
        node = next((nodes[at] for at in (line, line + 1, line + 2) if at in nodes), None)
        names = [name.strip() for name in match["checks"].split(",")]
        for name in names:
            graph_wide = check_of(name) == "human_presence"
            yield Suppression(
                name, None if graph_wide or node is None else node.id, (match["reason"] or "").strip(), f"{file}:{line}"
            )


def _suppression_comments(file: Path) -> Iterator[tuple[int, re.Match[str]]]:
    """Yields the suppression comments of a file, each with its line."""
    try:
        text = file.read_text(encoding="utf-8")
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and (match := _COMMENT.search(token.string)):
                yield token.start[0], match
    except (OSError, UnicodeError, tokenize.TokenError, SyntaxError):
        return  # a source that cannot be read has no suppressions
