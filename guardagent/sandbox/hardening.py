"""Restrictions that the operating system imposes on a worker process, whatever its interpreter does.

Each layer is one file of this folder with

    problem() -> str                  why it cannot work here, and the fix; empty if it can
    apply(profile: Profile) -> None   confines the calling process permanently; raises OSError

A worker gets the names of its layers and ends if one of them fails: no layer is dropped silently.
This package imports little, so that a worker starts fast and small.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["LAYERS", "Profile", "active", "apply", "problems"]

LAYERS = ("rlimits", "landlock", "seccomp")
"""In the order of application: the last one forbids any further one."""


class Profile(NamedTuple):
    """The operations that a process still needs after the layers are applied."""

    syscalls: str
    """The list of system calls: a name of `syscalls.PROFILES`."""
    readable: tuple[str, ...] = ()
    """Files and folders that it may read and execute; any other file is out of reach."""
    memory_bytes: int = 0
    """Its address space, if positive."""
    files: int = 64
    """The maximum number of its file descriptors."""


def problems() -> dict[str, str]:
    """Returns for each layer why it cannot work on this machine, and the fix; an empty string if it can."""
    return {layer: _load(layer).problem() for layer in LAYERS}


def active() -> tuple[str, ...]:
    """Returns the layers that work on this machine."""
    return tuple(layer for layer, problem in problems().items() if not problem)


def apply(layers: Sequence[str], profile: Profile) -> None:
    """Confines the calling process with these layers permanently.

    Raises:
        OSError: one of them could not be applied.
    """
    chosen = [
        _load(layer) for layer in LAYERS if layer in layers
    ]  # all load before the first layer forbids reading files
    for layer in chosen:
        layer.apply(profile)


def _load(layer: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a module with the two functions above
    return importlib.import_module(f"guardagent.sandbox._hardening.{layer}")
