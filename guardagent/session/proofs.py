"""Static proofs at run time: a session can skip rules that are proved for every run of a graph.

This is opt-in. A proof is valid only for the exact graph, sources and policy that it was made for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from guardagent._version import __version__
from guardagent.policy.policies import Policies


class AgentNode(Protocol):
    """The parts of a graph node that a session reads."""

    @property
    def tools(self) -> Sequence[str]: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...


class AgentGraph(Protocol):
    """The parts of an agent's graph that a session reads: see `guardagent.Graph`."""

    @property
    def framework(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def nodes(self) -> Sequence[AgentNode]: ...


@dataclass(frozen=True, slots=True)
class Proofs:
    """The rules that are proved for every run.

    Attributes:
        digest: a hash of the graph, the sources of its nodes, the policy and this version.
        rules: the ids of the proved rules.
        obstacle: the reason if nothing could be proved.
    """

    digest: str
    rules: frozenset[str]
    obstacle: str = ""

    def hold_for(self, graph: AgentGraph, policies: Policies) -> bool:
        """Whether the proofs are valid for this graph and policy in their current form."""
        return self.digest == digest_of(graph, policies)


def digest_of(graph: AgentGraph, policies: Policies) -> str:
    """The hash of everything that a proof depends on."""
    content = hashlib.sha256()
    for part in (__version__, graph.framework, graph.digest, policies.digest):
        content.update(f"{len(part)}:{part}".encode())
    files = {node.metadata["file"] for node in graph.nodes if isinstance(node.metadata.get("file"), str)}
    for file in sorted(files):
        path = Path(file)
        content.update(path.read_bytes() if path.is_file() else b"missing")
    return content.hexdigest()
