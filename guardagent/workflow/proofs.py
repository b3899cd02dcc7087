"""The run-time link: rules that are proved for a graph need not be judged again at every call of a session.

Only where an operator asks for it, and under conditions. A call can be denied or fail, so the proof has to hold where
every node calls none of its tools or one; a run can be taken up at any node, so each counts as an entry; and nothing of
the graph may be guessed at or excused. A proof is good for exactly the graph, the sources and the policy that it was
made of.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from guardagent import __version__
from guardagent.policy.formula import TRUE, Formula, all_of, atoms
from guardagent.policy.policies import Policies
from guardagent.policy.propositional import Propositional
from guardagent.policy.rule import Rule
from guardagent.workflow.checks import structural_findings
from guardagent.workflow.graph import Edge, Graph, Node
from guardagent.workflow.order import order_of
from guardagent.workflow.product import NumberedGraph, Product
from guardagent.workflow.suppress import suppressed

_ANYWHERE = "__anywhere__"


@dataclass(frozen=True, slots=True)
class Proofs:
    """What is proved.

    Attributes:
        digest: of the graph, the sources of its nodes, the policy and this version.
        rules: the ids of the rules that hold on every path.
        obstacle: why nothing could be proved, where that is so.
    """

    digest: str
    rules: frozenset[str]
    obstacle: str = ""

    def hold_for(self, graph: Graph, policies: Policies) -> bool:
        """Whether they were made of this very graph and policy, as they are now."""
        return self.digest == _digest(graph, policies)


def prove(graph: Graph, policies: Policies) -> Proofs:
    """Proves what a session may rely on."""
    digest = _digest(graph, policies)
    if obstacle := _obstacle(graph, policies):
        return Proofs(digest, frozenset(), obstacle)
    numbered = NumberedGraph(_entered_anywhere(graph))
    proved = [rule.id for rule in policies.rules if _holds(numbered, rule, policies)]
    return Proofs(digest, frozenset(proved))


def _obstacle(graph: Graph, policies: Policies) -> str:
    unsure = [node.id for node in graph.nodes if node.metadata.get("widened") or node.metadata.get("guess")]
    if unsure or graph.notes:
        return f"parts of the graph are not known: {', '.join(unsure) or '; '.join(graph.notes)}"
    found = suppressed(graph, structural_findings(graph))
    if policies.ignored or any(one.suppressed or one.check == "suppressions" for one in found):
        return "findings of the graph are suppressed"
    return ""


def _entered_anywhere(graph: Graph) -> Graph:
    """The same graph, whose runs begin at any node."""
    entry = Node(_ANYWHERE, "entry")
    nodes = tuple(replace(node, kind="passthrough") if node.kind == "entry" else node for node in graph.nodes)
    edges = tuple(Edge(_ANYWHERE, node.id) for node in graph.nodes)
    return replace(graph, entry_id=_ANYWHERE, nodes=(entry, *nodes), edges=(*edges, *graph.edges))


def _holds(graph: NumberedGraph, rule: Rule, policies: Policies) -> bool:
    if rule.labels:
        return False
    formula: Formula = all_of(order_of(one).enough for one in rule.rules)
    if formula == TRUE:
        return True
    sets = {atom[1:]: policies.tags[atom[1:]] for atom in atoms(formula) if atom.startswith("@")}
    return Product(graph, Propositional(formula, sets), maybe_none=True).violation() is None


def _digest(graph: Graph, policies: Policies) -> str:
    content = hashlib.sha256()
    for part in (__version__, graph.framework, graph.digest, policies.digest):
        content.update(f"{len(part)}:{part}".encode())
    files = {node.metadata["file"] for node in graph.nodes if isinstance(node.metadata.get("file"), str)}
    for file in sorted(files):
        path = Path(file)
        content.update(path.read_bytes() if path.is_file() else b"missing")
    return content.hexdigest()
