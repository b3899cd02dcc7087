"""An engine that runs a model on several sequences at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from guardagent.generation.local.engine import ModelEngine


class BatchSequence(ModelEngine, Protocol):
    """One sequence of a batch, which is written and cut like that of any engine."""

    @property
    def is_computed(self) -> bool:
        """Whether the logits of the next token are known."""
        ...


class BatchEngine(Protocol):
    """Runs a model on sequences that begin, end and are cut independently.

    Attributes:
        defaults: a generation configuration of transformers, or anything with some of its attributes.
        slots: the most sequences at once.
        max_length: the most tokens of a sequence, prompt included.
    """

    defaults: Any
    slots: int
    max_length: int

    def open(self) -> BatchSequence:
        """Takes a free slot for a new sequence, which `start` begins."""
        ...

    def close(self, sequence: Any) -> None:
        """Frees the slot of a sequence."""
        ...

    def compute(self, sequences: Sequence[Any]) -> None:
        """Computes the logits of these sequences, which are all that are open and not computed yet."""
        ...
