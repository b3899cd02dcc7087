"""Proves rules for every run, for sessions to rely on."""

from __future__ import annotations

from guardagent.policy.policies import Policies
from guardagent.session.proofs import Proofs, digest_of
from guardagent.workflow.analysis._checks import structural_findings
from guardagent.workflow.analysis.every_run import PossibleCalls, every_run
from guardagent.workflow.analysis.suppressions import apply_suppressions
from guardagent.workflow.model.graph import Graph


def prove(graph: Graph, policies: Policies) -> Proofs:
    """Returns the rules that are proved for every run of a graph."""
    runs = PossibleCalls.of(graph, policies, apply_suppressions(graph, structural_findings(graph)))
    proved = [rule.id for rule in policies.rules if every_run(runs, rule, policies.tags).status == "proved"]
    return Proofs(digest_of(graph, policies), frozenset(proved), runs.obstacle)
