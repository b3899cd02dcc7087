"""Judges labelled runs of an agent, one JSON object in a line, with one function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from guardagent._support.files import parse_json
from guardagent.batch.job import Result, result_of, row_of
from guardagent.batch.lines import InputLine, LineReader, open_bytes
from guardagent.errors import InputError
from guardagent.programs.compile.examples import Example, read_example
from guardagent.types import Verdict

RunJudge = Callable[[str, str, Mapping[str, Any]], Verdict]


def judge_runs(path: str, judge: RunJudge) -> Iterator[Result]:
    """The result of each line, in its order: a verdict, or why the line cannot be read. The labels are not judged by.

    Raises:
        InputError: the file cannot be read, or holds no line.
    """
    name, empty = ("standard input" if path == "-" else path), True
    with open_bytes(path) as stream:
        for chunk in LineReader(stream).chunks():
            for line in chunk.lines:
                empty = False
                yield _result(line, name, judge)
    if empty:
        raise InputError(f"{name}: holds no runs; expected one JSON object in a line")


def _result(line: InputLine, name: str, judge: RunJudge) -> Result:
    try:
        example: Example = read_example(parse_json(line.text(name), name, line.number), name, line.number)
    except InputError as error:
        return Result(line.number, error=str(error))
    verdict = judge(example.agent_input, example.agent_output, example.facts)
    return result_of(line.number, example, row_of(example.id, verdict))
