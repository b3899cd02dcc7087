"""Guarded decoding of many turns at once, each with a session of its own.

    turns = guarded_generate_batch(model, tokenizer, [TurnRequest(messages, tools, session), ...], slots=16)

- `batch_engine`: what a batch needs of an engine; `transformers_batch`: the one for transformers' models
- `key_value_rows`: the cache, each row with a length of its own; `row_masks`: attention masks over it
- `guarded_batch`: the scheduler, which gives a slot to each turn and takes it back
"""

from __future__ import annotations

from guardagent.generation.local.batch.batch_engine import BatchEngine, BatchSequence
from guardagent.generation.local.batch.guarded_batch import GuardedBatch, PendingTurn, guarded_generate_batch
from guardagent.generation.local.batch.transformers_batch import TransformersBatch

__all__ = [
    "BatchEngine",
    "BatchSequence",
    "GuardedBatch",
    "PendingTurn",
    "TransformersBatch",
    "guarded_generate_batch",
]
