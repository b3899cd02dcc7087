"""What the operating system itself forbids a worker process, whatever the interpreter in it does.

Each layer is one file of this folder with

    problem() -> str                  why it cannot work here and what to do about it; empty where it can
    apply(profile: Profile) -> None   puts the calling process behind it, for good; raises OSError

A worker names the layers it was told to apply and ends if one of them fails: nothing is dropped silently.
This package imports little, so that a worker starts fast and holds little.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["LAYERS", "Profile", "active", "apply", "problems"]

LAYERS = ("rlimits", "landlock", "seccomp")
"""In the order in which they are applied: the last one forbids applying any."""


class Profile(NamedTuple):
    """What a process still has to do after the layers are applied."""

    syscalls: str
    """Which list of system calls: a name of `seccomp.PROFILES`."""
    readable: tuple[str, ...] = ()
    """Files and folders whose contents it may read and execute; any other file is out of reach."""
    memory_bytes: int = 0
    """Its address space, if positive."""
    files: int = 64
    """How many file descriptors it may have."""


def problems() -> dict[str, str]:
    """For each layer why it cannot work on this machine and what to do about it; empty text where it can."""
    return {layer: _load(layer).problem() for layer in LAYERS}


def active() -> tuple[str, ...]:
    """The layers that work on this machine."""
    return tuple(layer for layer, problem in problems().items() if not problem)


def apply(layers: Sequence[str], profile: Profile) -> None:
    """Puts the calling process behind these layers, for good.

    Raises:
        OSError: one of them could not be applied.
    """
    chosen = [_load(layer) for layer in LAYERS if layer in layers]  # all are read before the first forbids reading
    for layer in chosen:
        layer.apply(profile)


def _load(layer: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a module with the two functions above
    return importlib.import_module(f"{__name__}.{layer}")
