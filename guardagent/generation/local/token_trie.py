"""A trie of token sequences that the decoder must not try again."""

from __future__ import annotations

from dataclasses import dataclass, field

PATIENCE = 8
"""The number of denied values with the same prefix after which that prefix is forbidden."""


@dataclass(slots=True)
class _TrieNode:
    forbidden: set[int] = field(default_factory=set)
    children: dict[int, _TrieNode] = field(default_factory=dict)
    denials: int = 0
    is_denied: bool = False  # a value that ends here was denied


class ForbiddenTrie:
    """The forbidden continuations after one position of a turn.

    Args:
        root: the position.
    """

    def __init__(self, root: int) -> None:
        self.root = root
        self._tree = _TrieNode()
        self._path: list[_TrieNode | None] = [
            self._tree
        ]  # the node of each position from the root on; None if outside the trie

    def push(self, token: int) -> None:
        node = self._path[-1]
        self._path.append(node.children.get(token) if node is not None else None)

    def cut(self, length: int) -> None:
        del self._path[max(length - self.root, 0) + 1 :]

    @property
    def here(self) -> set[int]:
        """The tokens that may not come next."""
        node = self._path[-1]
        return node.forbidden if node is not None else set()

    def forbid(self, tokens: list[int]) -> int:
        """Forbids the last token of a turn at its position.

        Returns:
            The number of tokens to keep.
        """
        self._node(tokens, len(tokens) - 1).forbidden.add(tokens[-1])
        return len(tokens) - 1

    def deny(self, tokens: list[int], begins: int) -> int:
        """Forbids the last token after a denial, or a longer suffix of the denied value.

        If the value extends a denied value (9000 after 900), that value's last token is forbidden too. If many denied
        values share a prefix, the prefix is forbidden.

        Args:
            tokens: the turn.
            begins: the token in which the value begins.

        Returns:
            The number of tokens to keep.
        """
        kept = self.forbid(tokens)
        for place in range(max(begins, self.root), len(tokens) - 1):
            node = self._node(tokens, place + 1)
            node.denials += 1
            if node.is_denied or node.denials >= PATIENCE:
                return self.forbid(tokens[: place + 1])
        if len(tokens) - 1 > max(begins, self.root):
            self._node(tokens, len(tokens) - 1).is_denied = True
        return kept

    def _node(self, tokens: list[int], place: int) -> _TrieNode:
        """The node of a position; created if missing."""
        node = self._tree
        for at in range(self.root, place):
            node = node.children.setdefault(tokens[at], _TrieNode())
            self._path[at - self.root + 1] = node
        return node
