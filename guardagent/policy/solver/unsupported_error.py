"""What is not compiled."""

from __future__ import annotations


class UnsupportedError(Exception):
    """A term whose value only the solver can tell."""
