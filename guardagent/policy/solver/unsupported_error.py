"""The error for terms that cannot be compiled."""

from __future__ import annotations


class UnsupportedError(Exception):
    """Only the solver can evaluate a term."""
