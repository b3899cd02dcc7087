"""The run-time link: rules that are proved for a graph need not be judged again at every call of a session.

Only where an operator asks for it, and only rules that are proved for every run. A proof is good for exactly the graph,
the sources and the policy that it was made of.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from guardagent import __version__
from guardagent.policy.policies import Policies
from guardagent.workflow.analysis.checks import structural_findings
from guardagent.workflow.analysis.every_run import Runs, every_run
from guardagent.workflow.analysis.suppress import suppressed
from guardagent.workflow.model.graph import Graph


@dataclass(frozen=True, slots=True)
class Proofs:
    """What is proved.

    Attributes:
        digest: of the graph, the sources of its nodes, the policy and this version.
        rules: the ids of the rules that are proved for every run.
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
    runs = Runs.of(graph, policies, suppressed(graph, structural_findings(graph)))
    proved = [rule.id for rule in policies.rules if every_run(runs, rule, policies.tags).status == "proved"]
    return Proofs(_digest(graph, policies), frozenset(proved), runs.obstacle)


def _digest(graph: Graph, policies: Policies) -> str:
    content = hashlib.sha256()
    for part in (__version__, graph.framework, graph.digest, policies.digest):
        content.update(f"{len(part)}:{part}".encode())
    files = {node.metadata["file"] for node in graph.nodes if isinstance(node.metadata.get("file"), str)}
    for file in sorted(files):
        path = Path(file)
        content.update(path.read_bytes() if path.is_file() else b"missing")
    return content.hexdigest()
