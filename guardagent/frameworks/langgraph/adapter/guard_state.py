"""State that all attachments of one guard share, since a web service may build its agent for each request."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.frameworks.langgraph.adapter.runs import Tasks

MAX_KEPT = 100_000
_lock = threading.Lock()


class BoundedMapping:
    """A mapping that keeps only its newest entries."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()

    def put(self, key: Hashable, value: Any = None) -> bool:
        """Stores an entry. Returns whether the key is new."""
        with self._lock:
            is_new = key not in self._kept
            self._kept[key] = value
            self._kept.move_to_end(key)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
            return is_new

    def __contains__(self, key: Hashable) -> bool:
        return key in self._kept

    def get(self, key: Hashable, default: Any = None) -> Any:
        return self._kept.get(key, default)

    def drop(self, key: Hashable) -> None:
        with self._lock:
            self._kept.pop(key, None)


@dataclass(slots=True)
class GuardState:
    """The shared state of one guard.

    Attributes:
        tools: the tools of all its agents.
        tasks: the host's tasks, whoever runs them.
        turns: (conversation, message) of the user messages.
        strikes: conversation -> the step in which its agent gave up.
        passed: (conversation, digest) of the answers that passed.
    """

    tools: dict[str, ToolSpec] = field(default_factory=dict)
    tasks: Tasks = field(default_factory=Tasks)
    turns: BoundedMapping = field(default_factory=BoundedMapping)
    strikes: BoundedMapping = field(default_factory=BoundedMapping)
    passed: BoundedMapping = field(default_factory=BoundedMapping)


_of_guards: WeakKeyDictionary[EnforcementPoint, GuardState] = WeakKeyDictionary()


def state_of(guard: EnforcementPoint) -> GuardState:
    """Returns the shared state of a guard."""
    with _lock:
        return _of_guards.setdefault(guard, GuardState())
