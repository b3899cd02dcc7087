"""What an evaluation is: its examples, how a verdict is judged, and what the paper reports. Finds them by name."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guardagent._support.content import shipped_folder
from guardagent.bench.metrics import METRICS
from guardagent.errors import ContentError, InputError, UnknownNameError
from guardagent.types import Verdict


@dataclass(frozen=True, slots=True)
class BenchExample:
    """One run of a target agent. The guard sees its input and output; label and truth are for judging it."""

    id: str
    agent_input: str
    agent_output: str
    label: int
    truth: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PaperRow:
    """Numbers that a paper reports, for the table beside ours: metric -> percent, None where it says "n.a.".

    `group` is (dimension, value) for a number about one group, None for one about the whole set.
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
    """What a paper reports of guards that a model writes, under the names of our own columns.

    Attributes:
        per_check: the time and the words of one check.
        executable: the share of code that ran, `before` and `after` debugging, in percent.
        errors: for each kind (the row's method) how many examples, and how many of them debugging `solved`.
        code_written: the share of answers that are code where none was asked for, in percent.
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
        load: the examples of a data file.
        explained: whether a denial names exactly what the truth says is violated.
        answered: whether an answer is the right one.
        run_answer: what the run itself answered, read from its log without any guard.
        groups: dimension -> the group an example is in, for the breakdowns.
        rates: further shares over all examples, by the name they have in the summary.
        paper: what the paper reports.
        paper_generated: what it reports of guards that a model writes.
        shots: how many demonstrations the paper shows a model.
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
    """An evaluation of trajectories, with and without a guard: the same object, where calls are judged and not runs.

    Attributes:
        writes: the tools that change something.
        absorb: brings the state (kind of records -> id -> record) up to date with a call (`Made`) that went well.
    """

    writes: frozenset[str]
    absorb: Callable[[Any, Any], None]


def load_evaluation(name: str, benchmarks: Path | None = None) -> tuple[Evaluation, Path]:
    """The evaluation of a name such as `eicu-ac`, and the file that defines it.

    Raises:
        UnknownNameError: no folder has that name.
        InputError: there are no benchmarks here, or the file defines no evaluation of a target agent's runs.
    """
    evaluation, file = find_evaluation(name, benchmarks)
    if isinstance(evaluation, Replay):
        raise ContentError("is an evaluation of trajectories; expected one of a target agent's runs", file)
    return evaluation, file


def find_evaluation(name: str, benchmarks: Path | None = None) -> tuple[Evaluation | Replay, Path]:
    """As `load_evaluation`, of either kind."""
    root = shipped_folder("benchmarks") if benchmarks is None else benchmarks
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; expected one folder per evaluation in it")
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
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ContentError(f"does not load: {type(error).__name__}: {error}", file) from error
    evaluation = getattr(module, "EVALUATION", None)
    if not isinstance(evaluation, Evaluation | Replay):
        raise ContentError("defines no `EVALUATION`; expected a guardagent.bench.Evaluation or Replay", file)
    return evaluation
