"""The interface between the phrases for conditions, values and calls."""

from __future__ import annotations

from typing import Any, Protocol

from guardagent.policy.words.scope import SentenceScope


class Phrases(Protocol):
    """Puts the parts of a term into words; `terms.TermWords` describes each method."""

    atoms: int

    def condition(self, node: Any, scope: SentenceScope, *, negated: bool = False) -> str: ...

    def part(self, node: Any, scope: SentenceScope) -> str: ...

    def value(self, node: Any, scope: SentenceScope) -> str: ...

    def operand(self, node: Any, scope: SentenceScope) -> str: ...

    def listed(self, nodes: Any, scope: SentenceScope) -> str: ...

    def seconds(self, node: Any, scope: SentenceScope) -> str: ...

    def earlier(self, node: Any, scope: SentenceScope, calls: str = "call") -> tuple[str, SentenceScope]: ...

    def call(self, node: Any, scope: SentenceScope) -> str: ...
