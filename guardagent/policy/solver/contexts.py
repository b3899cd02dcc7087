"""Z3 contexts of encodings. Z3 takes longer to make one than to read a rule."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from guardagent.policy.solver.z3_text import new_context

Contexts = dict[Hashable, "SolverContext"]

_shared: ContextVar[Contexts | None] = ContextVar("shared Z3 contexts", default=None)


@dataclass(frozen=True, slots=True)
class SolverContext:
    """A Z3 context, and the lock that whoever uses its terms holds."""

    z3: Any = field(default_factory=new_context)
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def shared_contexts(contexts: Contexts | None = None) -> Iterator[None]:
    """In this block, encodings with the same declarations share a context, such as the mutants of a rule.

    Args:
        contexts: those of an earlier block, which this one shares and extends.
    """
    token = _shared.set({} if contexts is None else contexts)
    try:
        yield
    finally:
        _shared.reset(token)


def context_of(declarations: Hashable) -> SolverContext:
    """Returns a context for text with some declarations: a new one, except in a block of `shared_contexts`.

    Only equal declarations share one: Z3 keeps a single definition of each sort.
    """
    known = _shared.get()
    if known is None:
        return SolverContext()
    if declarations not in known:
        known[declarations] = SolverContext()
    return known[declarations]
