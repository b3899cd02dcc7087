"""Evaluations: definition (examples, scoring, the paper's numbers), lookup by name, data files, and answers.

Data files are our JSON Lines, or a JSON array as originally published. An agent's answer is compared with the items of
the truth by the rules in docs/evaluations.md.
"""

from __future__ import annotations

import ast
import importlib.util
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guardagent._support import syntax
from guardagent._support.files import MAX_DATA_BYTES, parse_json, read_json_lines, read_text, shipped_folder
from guardagent.bench.metrics import METRICS
from guardagent.errors import ContentError, InputError, UnknownNameError, name_hint
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


@dataclass(frozen=True, slots=True)
class Record:
    """One object of a data file. Its methods raise a ContentError with location and expectation."""

    values: dict[str, Any]
    path: Path
    number: int
    published: bool = False  # an entry of a JSON array, which has a number but no line

    def string(self, key: str, default: str | None = None) -> str:
        if default is not None and self.values.get(key) is None:
            return default
        return str(self._get(key, str, "a string"))

    def label(self, key: str = "label") -> int:
        value = self._get(key, int, "the number 0 or 1")
        if value not in (0, 1):
            raise self.error(f"key {key!r} is {value!r}; expected the number 0 or 1")
        return int(value)

    def strings(self, key: str) -> list[str]:
        value = self._get(key, list, "a list of strings")
        if not all(isinstance(item, str) for item in value):
            raise self.error(f"key {key!r} has an item that is not a string; expected a list of strings")
        return list(value)

    def string_or_strings(self, key: str) -> list[str]:
        return [self.values[key]] if isinstance(self.values.get(key), str) else self.strings(key)

    def mapping(self, key: str) -> dict[str, Any]:
        return dict(self._get(key, dict, "an object"))

    def columns(self, key: str) -> dict[str, list[str]]:
        """A mapping of databases to lists of columns; null means empty."""
        if key in self.values and self.values[key] is None:
            return {}
        value = self.mapping(key)
        for database, names in value.items():
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise self.error(
                    f"key {key!r}: the value of {database!r} is not a list of columns; expected a list of strings"
                )
        return value

    def error(self, message: str) -> ContentError:
        if self.published:
            return ContentError(f"entry {self.number}: {message}", self.path)
        return ContentError(message, self.path, self.number)

    def _get(self, key: str, kind: type, expected: str) -> Any:
        if key not in self.values:
            raise self.error(f"key {key!r} is missing; expected {expected}{name_hint(key, self.values)}")
        value = self.values[key]
        if type(value) is not kind:  # exact: a boolean is not a number
            raise self.error(f"key {key!r} is {value!r:.60}; expected {expected}")
        return value


Reader = Callable[[Record], BenchExample]


def read_examples(path: Path, line: Reader, entry: Reader | None = None) -> list[BenchExample]:
    """Reads the examples of a data file, in order.

    Args:
        path: JSON Lines, or a JSON array.
        line: makes an example from a line.
        entry: makes an example from an entry of a JSON array; None if arrays are not supported.

    Raises:
        ContentError: a row is invalid, or an id appears twice.
    """
    examples: dict[str, BenchExample] = {}
    for record in _records(path):
        if record.published and entry is None:
            raise ContentError("is a JSON array; expected JSON Lines, one object per line", path)
        example = entry(record) if record.published and entry else line(record)
        if example.id in examples:
            raise record.error(f"id {example.id!r} appears twice; expected each id once")
        examples[example.id] = example
    if not examples:
        raise ContentError("holds no examples; expected at least one", path)
    return list(examples.values())


def _records(path: Path) -> Iterator[Record]:
    text = read_text(path, limit=MAX_DATA_BYTES)
    if not text.lstrip().startswith("["):
        for number, values in read_json_lines(path):
            yield Record(values, path, number)
        return
    for number, values in enumerate(parse_json(text, path), start=1):
        if not isinstance(values, dict):
            raise ContentError(f"entry {number} is a {type(values).__name__}; expected an object", path)
        yield Record(values, path, number, published=True)


Atom = int | float | str
Item = tuple[Atom, ...]  # the parts between the commas of one item; most items have one part

_INTEGER = re.compile(r"[+-]?\d{1,40}")
_DECIMAL = re.compile(r"[+-]?(\d{1,40}\.\d*|\.?\d{1,40})(e[+-]?\d{1,3})?")
_WRAPPING = " '\"`[](){}"
_TOLERANCE = 1e-6


def answer_is_right(truth: Sequence[str], answer: str) -> bool:
    """Whether every item of the truth is an item of the answer, which may have more.

    An empty truth matches only an answer without items, such as `[]`.
    """
    wanted = _distinct(item for item in map(_item, truth) if item)
    listed = items_of(answer)
    whole = _item(answer)
    if not wanted:
        return whole in ((), ("none",))
    if listed is None:
        return _all_in(wanted, [whole], runs=True)
    return _all_in(wanted, listed, runs=False) or (len(wanted) == 1 and _same(wanted[0], whole))


def items_of(text: str) -> list[Item] | None:
    """The items of a string that is a Python list, tuple, set or dict, including nested ones; else None."""
    if not text.strip().startswith(("[", "(", "{")):
        return None
    try:
        value = ast.literal_eval(syntax.parse(text.strip(), mode="eval"))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return list(_leaves(value)) if isinstance(value, list | tuple | set | dict) else None


def same_text(first: str, second: str) -> bool:
    """Whether two strings are equal up to case and whitespace."""
    return _folded(first) == _folded(second)


def _leaves(value: Any) -> Iterable[Item]:
    if isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set):
        for part in value:
            yield from _leaves(part)
    elif item := _item(str(value)):
        yield item


def _all_in(wanted: list[Item], items: list[Item], *, runs: bool) -> bool:
    """Whether all wanted items are found, each in a part of its own; the longest items are matched first."""
    remaining = list(items)
    for item in sorted(wanted, key=len, reverse=True):
        place = next(
            ((i, at) for i, candidate in enumerate(remaining) if (at := _index_of(item, candidate, runs=runs)) >= 0),
            None,
        )
        if place is None:
            return False
        index, at = place
        have = remaining[index]
        # The parts before and after a match stay separate: they are not neighbours.
        remaining[index : index + 1] = [part for part in (have[:at], have[at + len(item) :]) if part]
    return True


def _index_of(item: Item, candidate: Item, *, runs: bool) -> int:
    """The index of the item in a comma-joined text (`runs`), or 0 if it is the whole candidate; else -1."""
    starts = range(len(candidate) - len(item) + 1) if runs else range(len(candidate) == len(item))
    return next((at for at in starts if _same(item, candidate[at : at + len(item)])), -1)


def _item(text: str) -> Item:
    parts = (part.strip(_WRAPPING) for part in _folded(text).split(","))
    return tuple(_atom(part) for part in parts if part)


def _atom(text: str) -> Atom:
    if text in ("true", "false"):
        return int(text == "true")
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


def _same(first: Item, second: Item) -> bool:
    return len(first) == len(second) and all(map(_same_atom, first, second))


def _same_atom(first: Atom, second: Atom) -> bool:
    if isinstance(first, str) or isinstance(second, str):
        return first == second
    if first == second:
        return True
    # Integers are often identifiers: a neighbouring integer is a different item, not a rounding error.
    whole = float(first).is_integer() and float(second).is_integer()
    return not whole and math.isclose(first, second, rel_tol=_TOLERANCE, abs_tol=1e-9)


def _distinct(items: Iterable[Item]) -> list[Item]:
    kept: list[Item] = []
    for item in items:
        if not any(_same(item, other) for other in kept):
            kept.append(item)
    return kept


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
