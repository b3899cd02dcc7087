"""Evaluations with the paper's metrics (Section 5.1); see docs/evaluations.md.

`run_evaluation` runs one by name. An evaluation is a folder under benchmarks/ with an `evaluation.py` that
defines `EVALUATION`, built from the names below.
"""

from guardagent.bench.answers import answer_is_right, items_of, same_text
from guardagent.bench.evaluation import (
    BenchExample,
    Evaluation,
    PaperGenerated,
    PaperRow,
    Replay,
    load_evaluation,
    table_1,
    tables_6_and_7,
)
from guardagent.bench.experiment import Experiment, Judge
from guardagent.bench.metrics import METRICS, measure
from guardagent.bench.records import Record, read_examples
from guardagent.bench.runner import judge_all, run_evaluation
from guardagent.bench.trajectories import RecordedCall
from guardagent.bench.trajectory_guard import State

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
