"""Judges labelled runs of an agent (one JSON object per line) with a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from guardagent._support.files import parse_json
from guardagent.batch.records import InputLine, LineReader, open_bytes
from guardagent.batch.results import Result, result_of, row_of
from guardagent.errors import InputError
from guardagent.programs.compile.examples import Example, read_example
from guardagent.types import Verdict

RunJudge = Callable[[str, str, Mapping[str, Any]], Verdict]


def judge_runs(path: str, judge: RunJudge) -> Iterator[Result]:
    """Yields the result of each line in order: a verdict, or the error of an unreadable line. Labels are not used.

    Raises:
        InputError: the file cannot be read, or has no lines.
    """
    name, empty = ("standard input" if path == "-" else path), True
    with open_bytes(path) as stream:
        for chunk in LineReader(stream).chunks():
            for line in chunk.lines:
                empty = False
                yield _result(line, name, judge)
    if empty:
        raise InputError(f"{name}: holds no runs; expected one JSON object per line")


def _result(line: InputLine, name: str, judge: RunJudge) -> Result:
    try:
        example: Example = read_example(parse_json(line.text(name), name, line.number), name, line.number)
    except InputError as error:
        return Result(line.number, error=str(error))
    verdict = judge(example.agent_input, example.agent_output, example.facts)
    return result_of(line.number, example, row_of(example.id, verdict))
