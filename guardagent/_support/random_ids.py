"""Random identifiers, without a call of the operating system for each.

Such a call lets other threads run first, which a call of a tool would wait for.
"""

from __future__ import annotations

import os
from collections import deque

_BYTES = 8
_READY = 128

_ready: deque[str] = deque()
os.register_at_fork(after_in_child=_ready.clear)  # a child would give the same ones


def random_id() -> str:
    """Returns 16 random hexadecimal digits of the operating system."""
    try:
        return _ready.pop()
    except IndexError:
        made = os.urandom(_BYTES * _READY).hex()
        digits = 2 * _BYTES
        _ready.extend(made[at : at + digits] for at in range(digits, len(made), digits))
        return made[:digits]
