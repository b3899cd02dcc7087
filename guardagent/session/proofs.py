"""The run-time link: rules that are proved for a graph need not be judged again at every call of a session.

Only where an operator asks for it, and only rules that are proved for every run. A proof is good for exactly the graph,
the sources and the policy that it was made of.
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
    """A step of an agent, as far as a session looks at it."""

    @property
    def tools(self) -> Sequence[str]: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...


class AgentGraph(Protocol):
    """The graph of an agent, as far as a session looks at it: see `guardagent.Graph`."""

    @property
    def framework(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def nodes(self) -> Sequence[AgentNode]: ...


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

    def hold_for(self, graph: AgentGraph, policies: Policies) -> bool:
        """Whether they were made of this very graph and policy, as they are now."""
        return self.digest == digest_of(graph, policies)


def digest_of(graph: AgentGraph, policies: Policies) -> str:
    """What a proof is good for."""
    content = hashlib.sha256()
    for part in (__version__, graph.framework, graph.digest, policies.digest):
        content.update(f"{len(part)}:{part}".encode())
    files = {node.metadata["file"] for node in graph.nodes if isinstance(node.metadata.get("file"), str)}
    for file in sorted(files):
        path = Path(file)
        content.update(path.read_bytes() if path.is_file() else b"missing")
    return content.hexdigest()
