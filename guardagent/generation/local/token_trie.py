"""The continuations of a call's beginning that are not tried again: a tree of tokens."""

from __future__ import annotations

from dataclasses import dataclass, field

PATIENCE = 8
"""So many times may a value be denied that begins in one way, before another beginning is tried."""


@dataclass(slots=True)
class _TrieNode:
    forbidden: set[int] = field(default_factory=set)
    children: dict[int, _TrieNode] = field(default_factory=dict)
    denials: int = 0
    is_denied: bool = False  # a value that ended here was


class ForbiddenTrie:
    """What is forbidden behind one place of a turn.

    Args:
        root: the place.
    """

    def __init__(self, root: int) -> None:
        self.root = root
        self._tree = _TrieNode()
        self._path: list[_TrieNode | None] = [
            self._tree
        ]  # the node of each place from the root on; None: nothing is known

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
        """Forbids the last token of a turn where it stands; it is to be cut there.

        Returns:
            How many tokens stay.
        """
        self._node(tokens, len(tokens) - 1).forbidden.add(tokens[-1])
        return len(tokens) - 1

    def deny(self, tokens: list[int], begins: int) -> int:
        """Forbids what led to a denial: the last token, or more of the value that was denied.

        A value that goes on from one that was denied (9000 after 900) takes that one's last token with it, and one that
        begins as many that were denied do takes the beginning.

        Args:
            tokens: the turn.
            begins: the token in which the value begins.

        Returns:
            How many tokens stay.
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
        """The node of a place, made where there is none."""
        node = self._tree
        for at in range(self.root, place):
            node = node.children.setdefault(tokens[at], _TrieNode())
            self._path[at - self.root + 1] = node
        return node
