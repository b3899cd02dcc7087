"""Profiles: character counts of a run's texts in 792 bytes, for a lower bound of the edit distance.

A profile counts the characters of a text, and its pairs of adjacent characters, each in a fixed number of bins. One
edit removes and adds at most one character, and removes and adds at most two pairs. If one text has n characters (or 2n
pairs) that the other lacks, their distance is at least n. Shared bins, and counts capped at 255, can only reduce the
difference, so the bound stays valid.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_CHARACTERS = 128
_PAIRS = 256
_FULL = 255
_AT_ONCE = 512  # profiles per batch; fits into the processor's cache with intermediate results

PROFILE = np.dtype(
    [
        ("lengths", "<u4", (2,)),  # of the input and of the output
        ("totals", "<u4", (2, 2)),  # of both, the counted characters and pairs
        ("counts", "u1", (2, _CHARACTERS + _PAIRS)),
    ]
)

Profiles = NDArray[np.void]
Numbers = NDArray[np.int64]


def profile(agent_input: str, agent_output: str) -> Profiles:
    """Returns the profile of a run, as an array of length one."""
    profile_row = np.zeros(1, PROFILE)
    for part, text in enumerate((agent_input, agent_output)):
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        counts = np.concatenate((_counts(codes % _CHARACTERS, _CHARACTERS), _counts(_pairs(codes), _PAIRS)))
        profile_row["lengths"][0, part] = len(codes)
        profile_row["counts"][0, part] = counts
        profile_row["totals"][0, part] = counts[:_CHARACTERS].sum(), counts[_CHARACTERS:].sum()
    return profile_row


def lower_bounds(profiles: Profiles, query_profile: Profiles) -> Numbers:
    """Returns for each profile lower bounds of the distances of its input and output from those of the query."""
    bounds = np.empty((len(profiles), 2), np.int64)
    for start in range(0, len(profiles), _AT_ONCE):
        bounds[start : start + _AT_ONCE] = _bounds(profiles[start : start + _AT_ONCE], query_profile[0])
    return bounds


def upper_bounds(profiles: Profiles, query_profile: Profiles) -> Numbers:
    """Returns for each profile an upper bound of its distance: the length of the longer text."""
    greatest: Numbers = np.maximum(profiles["lengths"], query_profile["lengths"]).sum(axis=1, dtype=np.int64)
    return greatest


def _bounds(profiles: Profiles, query_profile: Any) -> Numbers:
    either = np.maximum(profiles["counts"], query_profile["counts"])
    sums = np.add.reduceat(either, (0, _CHARACTERS), axis=-1, dtype=np.uint16)  # 256 times 255 fits
    lacking = sums - np.minimum(profiles["totals"], query_profile["totals"]).astype(np.int64)
    lengths = np.abs(profiles["lengths"].astype(np.int64) - query_profile["lengths"].astype(np.int64))
    greatest: Numbers = np.maximum(np.maximum(lacking[..., 0], (lacking[..., 1] + 1) // 2), lengths)
    return greatest


def _counts(bins: NDArray[np.uint32], size: int) -> NDArray[Any]:
    return np.minimum(np.bincount(bins, minlength=size), _FULL)


def _pairs(codes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Returns a bin per adjacent pair: the upper bits of a product, which depend on all bits of both."""
    mixed = codes[:-1] * np.uint32(0x9E3779B1) + codes[1:] * np.uint32(0x85EBCA6B)
    return mixed >> np.uint32(24)
