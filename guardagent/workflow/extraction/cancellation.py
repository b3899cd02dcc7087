"""Finds the nodes that are cancelled when one of several parallel branches ends the run for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from guardagent.workflow.model.graph import END

CONDITION = "another branch ended the run"


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
    found: dict[str, None] = {}
    pending = list(begins)
    while pending:
        node = pending.pop(0)
        if node not in found and node not in {END, past}:
            found[node] = None
            pending.extend(following.get(node, ()))
    return list(found)


def _leads(following: Mapping[str, Iterable[str]], begins: list[str], target: str, past: str = END) -> bool:
    """Whether a node can be reached without passing the node `past`."""
    return target in begins or any(
        target in following.get(node, ()) for node in reachable_nodes(following, begins, past)
    )
