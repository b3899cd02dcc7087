"""Evaluations with the paper's metrics (Section 5.1); see docs/evaluations.md.

`run_evaluation` runs one by name. An evaluation is a folder under benchmarks/ with an `evaluation.py` that
defines `EVALUATION`, built from the names below.
"""

from guardagent.bench.evaluation import (
    BenchExample,
    Evaluation,
    PaperGenerated,
    PaperRow,
    Record,
    Replay,
    answer_is_right,
    items_of,
    load_evaluation,
    read_examples,
    same_text,
    table_1,
    tables_6_and_7,
)
from guardagent.bench.experiment import Experiment, Judge, estimate, judge_all, run_evaluation
from guardagent.bench.metrics import METRICS, measure
from guardagent.bench.trajectories import RecordedCall, State

__all__ = [
    "METRICS",
    "BenchExample",
    "Evaluation",
    "Experiment",
    "Judge",
    "PaperGenerated",
    "PaperRow",
    "Record",
    "RecordedCall",
    "Replay",
    "State",
    "answer_is_right",
    "estimate",
    "items_of",
    "judge_all",
    "load_evaluation",
    "measure",
    "read_examples",
    "run_evaluation",
    "same_text",
    "table_1",
    "tables_6_and_7",
]
