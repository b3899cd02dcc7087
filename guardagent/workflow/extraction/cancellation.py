"""What is cut short when one of several branches ends what all of them run in, while the others are still under way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from guardagent.workflow.model.graph import END

CONDITION = "another branch ended the run"


def cancelled_nodes(following: Mapping[str, Iterable[str]], branches: Iterable[str], joins: Iterable[str]) -> list[str]:
    """The nodes of branches that run at the same time after which the run can be over, if one of them can end it.

    Args:
        following: what can follow each node.
        branches: where the branches begin.
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
    """The nodes of branches that are given up when another branch comes to a join first.

    Args:
        following: what can follow each node.
        begins: where the run begins.
        branches: where the branches begin.
        join: the node that waits for the first only.
        joins: all nodes that wait: what one of them has waited for on every way to `join` is over by then.
    """
    start = list(begins)
    over: set[str] = set()
    for other in joins:
        if other != join and not _leads(following, start, join, past=other):
            over |= {other, *reachable_nodes(following, start, other)}
    left = [node for node in reachable_nodes(following, branches, join) if node not in over]
    return [node for node in left if join not in following.get(node, ())]


def reachable_nodes(following: Mapping[str, Iterable[str]], begins: Iterable[str], past: str = END) -> list[str]:
    """The nodes that can be come to, but for the end, without going past a node."""
    found: dict[str, None] = {}
    pending = list(begins)
    while pending:
        node = pending.pop(0)
        if node not in found and node not in {END, past}:
            found[node] = None
            pending.extend(following.get(node, ()))
    return list(found)


def _leads(following: Mapping[str, Iterable[str]], begins: list[str], target: str, past: str = END) -> bool:
    """Whether a node can be come to without going past another."""
    return target in begins or any(
        target in following.get(node, ()) for node in reachable_nodes(following, begins, past)
    )
