"""The tools that are attached to each guard, which are compared with the rules together."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from guardagent.enforcement import Coverage, EnforcementPoint, ToolSpec
from guardagent.errors import InputError
from guardagent.frameworks.python.adapter.tool import PythonTool


@dataclass(slots=True)
class _AttachedTools:
    """The tools of a guard by name, each with its definition's place; `ready` once they are compared with the rules."""

    tools: dict[str, tuple[ToolSpec, str]] = field(default_factory=dict)
    ready: bool = False


_lock = threading.Lock()
_attached: WeakKeyDictionary[EnforcementPoint, _AttachedTools] = WeakKeyDictionary()


def add(guard: EnforcementPoint, tools: Iterable[PythonTool]) -> None:
    """Adds tools to a guard. A redefined tool replaces the previous one.

    Raises:
        InputError: another tool has the same name.
    """
    with _lock:
        attached = _attached.setdefault(guard, _AttachedTools())
        for tool in tools:
            _add(attached, tool)


def _add(attached: _AttachedTools, tool: PythonTool) -> None:
    spec, place = tool.spec, _place(tool.fn)
    before = attached.tools.get(tool.name)
    if before == (spec, place):
        return
    if before is not None and before[1] != place:
        raise InputError(f"two tools are named {tool.name!r}: {before[1]} and {place}; give one of them a name=...")
    attached.tools[tool.name] = (spec, place)
    attached.ready = False


def attach(guard: EnforcementPoint) -> Coverage:
    """Compares the tools guarded so far with the rules. Otherwise the first call does so.

    Raises:
        InputError: a rule names a tool that is probably a misspelling of one of these.
    """
    with _lock:
        attached = _attached.setdefault(guard, _AttachedTools())
        coverage = guard.attach([spec for spec, _ in attached.tools.values()])
        attached.ready = True
        return coverage


def ensure_attached(guard: EnforcementPoint) -> None:
    """Compares the tools with the rules again if a tool was added."""
    if not _attached[guard].ready:
        attach(guard)


def _place(fn: Any) -> str:
    fn = getattr(fn, "func", fn)  # of a partial
    return f"{getattr(fn, '__module__', '?')}.{getattr(fn, '__qualname__', type(fn).__qualname__)}"
