"""The definition of an evaluation (examples, scoring, the paper's numbers), and its lookup by name."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guardagent._support.files import shipped_folder
from guardagent.bench.metrics import METRICS
from guardagent.errors import ContentError, InputError, UnknownNameError
from guardagent.types import Verdict


@dataclass(frozen=True, slots=True)
class BenchExample:
    """One run of a target agent. The guard sees input and output; label and truth are for scoring."""

    id: str
    agent_input: str
    agent_output: str
    label: int
    truth: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PaperRow:
    """Numbers reported by a paper, for comparison: metric -> percent, None for "n.a.".

    `group` is (dimension, value) for a row about one group, None for one about the whole set.
    """

    method: str
    source: str
    values: Mapping[str, float | None]
    n: int | None = None
    group: tuple[str, str] | None = None


def table_1(n: int, **methods: tuple[float | None, ...]) -> tuple[PaperRow, ...]:
    """Rows of the GuardAgent paper's Table 1: method -> its five metrics, over n examples."""
    source = "arXiv 2406.09187, Table 1"
    return tuple(PaperRow(name, source, dict(zip(METRICS, row, strict=True)), n) for name, row in methods.items())


@dataclass(frozen=True, slots=True)
class PaperGenerated:
    """Numbers reported by a paper on generated guards, under the names of our columns.

    Attributes:
        per_check: the time and the words of one check.
        executable: the share of executable code, `before` and `after` debugging, in percent.
        errors: for each kind of error (the row's method), the number of examples, and of those `solved` by debugging.
        code_written: the share of answers that are code although none was requested, in percent.
    """

    per_check: tuple[PaperRow, ...] = ()
    executable: tuple[PaperRow, ...] = ()
    errors: tuple[PaperRow, ...] = ()
    code_written: tuple[PaperRow, ...] = ()


def tables_6_and_7(seconds: Mapping[str, float], words: tuple[float, float, float]) -> tuple[PaperRow, ...]:
    """Rows of the paper's Table 6 (method -> seconds) and Table 7 (words of a demonstration, a prompt, the answers)."""
    columns = ("words of a demonstration", "words of a prompt", "words of the answers")
    times = [PaperRow(name, "arXiv 2406.09187, Table 6", {"seconds": value}) for name, value in seconds.items()]
    counts = PaperRow("GuardAgent", "arXiv 2406.09187, Table 7", dict(zip(columns, words, strict=True)))
    return (*times, counts)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation: the object `EVALUATION` of benchmarks/NAME/evaluation.py.

    Attributes:
        agent: the target agent, a folder of the memory.
        load: reads the examples of a data file.
        explained: whether a denial names exactly the violations of the truth.
        answered: whether an answer is correct.
        run_answer: the answer of the run itself, read from its log without a guard.
        groups: dimension -> the group of an example, for the breakdowns.
        rates: further shares over all examples, by their name in the summary.
        paper: the paper's numbers.
        paper_generated: the paper's numbers on generated guards.
        shots: the paper's number of demonstrations.
    """

    agent: str
    load: Callable[[Path], list[BenchExample]]
    explained: Callable[[Verdict, BenchExample], bool]
    answered: Callable[[str, BenchExample], bool]
    run_answer: Callable[[BenchExample], str]
    groups: Callable[[BenchExample], dict[str, str]]
    rates: Mapping[str, Callable[[Verdict, BenchExample], bool]] = field(default_factory=dict)
    paper: tuple[PaperRow, ...] = ()
    paper_generated: PaperGenerated = PaperGenerated()
    shots: int = 1


@dataclass(frozen=True, slots=True)
class Replay:
    """An evaluation of trajectories, with and without a guard: it judges calls instead of runs.

    Attributes:
        writes: the tools that change the state.
        absorb: applies a successful call (`RecordedCall`) to the state (kind of records -> id -> record).
    """

    writes: frozenset[str]
    absorb: Callable[[Any, Any], None]


def load_evaluation(name: str, benchmarks: Path | None = None) -> tuple[Evaluation, Path]:
    """Loads an evaluation by a name such as `eicu-ac`; returns it with the file that defines it.

    Raises:
        UnknownNameError: no folder has that name.
        InputError: there is no folder of benchmarks, or the file defines no evaluation of a target agent's runs.
    """
    evaluation, file = find_evaluation(name, benchmarks)
    if isinstance(evaluation, Replay):
        raise ContentError("is an evaluation of trajectories; expected one of a target agent's runs", file)
    return evaluation, file


def find_evaluation(name: str, benchmarks: Path | None = None) -> tuple[Evaluation | Replay, Path]:
    """Like `load_evaluation`, for both kinds of evaluations."""
    root = shipped_folder("benchmarks") if benchmarks is None else benchmarks
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; expected a folder with one folder per evaluation")
    known = {file.parent.name.replace("_", "-"): file for file in root.glob("*/evaluation.py")}
    wanted = name.replace("_", "-")
    if wanted not in known:
        raise UnknownNameError("evaluation", name, known)
    return _load(known[wanted]), known[wanted]


def _load(file: Path) -> Evaluation | Replay:
    name = f"guardagent_benchmark_{file.parent.name}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ContentError(f"cannot be loaded: {type(error).__name__}: {error}", file) from error
    evaluation = getattr(module, "EVALUATION", None)
    if not isinstance(evaluation, Evaluation | Replay):
        raise ContentError("does not define 'EVALUATION'; expected a 'guardagent.bench.Evaluation' or 'Replay'", file)
    return evaluation
