"""The conversations that a process of the proxy keeps in memory."""

from __future__ import annotations

import weakref
from collections import Counter, OrderedDict, deque

from guardagent.enforcement import EnforcementPoint, ToolGuard

_MOST = 1000


class OpenConversations:
    """Forgets conversations that are idle, if a ledger keeps them: the next request reads them again.

    Args:
        guard: has the conversations.
        most: the number of conversations in memory.
    """

    def __init__(self, guard: EnforcementPoint, most: int = _MOST) -> None:
        self._guard, self._most = guard, most
        self._order: OrderedDict[str, None] = OrderedDict()
        self._users: Counter[str] = Counter()
        self._left: deque[str] = deque()

    def enter(self, conversation: str, user: object) -> None:
        """Keeps a conversation as long as its user lives."""
        self._users[conversation] += 1
        self._order[conversation] = None
        self._order.move_to_end(conversation)
        weakref.finalize(user, self._left.append, conversation)  # no lock: the collector may run anywhere
        self._forget_idle()

    def _forget_idle(self) -> None:
        while self._left:
            self._users[self._left.popleft()] -= 1
        for one in list(self._order) if len(self._order) > self._most else ():
            if self._users[one] <= 0 and len(self._order) > self._most:
                del self._order[one], self._users[one]
                if isinstance(self._guard, ToolGuard):
                    self._guard.release(one)
