"""Cross-validation of the web agent's lexicon on runs that it was not written for.

`python -m benchmarks.mind2web_sc.cross_validation --data public.jsonl [--splits 20] [--seed 0] [--json]`

Nothing records for which run a phrase of the lexicon was written, so each is tagged with every run in which it occurs:
a cautious bound, since most phrases occur there by chance. Phrases that the guard request itself uses have no tag. For
each split, a random half of the tasks is left out, with every phrase that occurs in runs of that half alone; the rest
of the lexicon judges the half.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from guardagent.programs.memory.agents import Memory
from guardagent.sandbox.toolbox import Toolbox

LEXICONS = ("LEXICON", "CONTROLS", "ELSEWHERE", "GOODS", "PAGE_WORDS", "PAGE")
_PLUS = re.compile(r"\s\+\s")
METRICS = ("LPA", "EA", "undecided")

Row = Mapping[str, Any]
Program = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the spread of the metrics over the splits.

    Returns:
        2 where the data cannot be read, else 0.
    """
    options = _options(argv)
    try:
        rows = [json.loads(line) for line in options.data.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{options.data}: cannot be read: {error}; expected the rows of the evaluation, one a line\n")
        return 2
    figures = cross_validate(rows, options.splits, options.seed)
    sys.stdout.write(json.dumps(figures) + "\n" if options.json else _table(figures))
    return 0


def cross_validate(rows: Sequence[Row], splits: int, seed: int = 0) -> dict[str, Any]:
    """The metrics of the whole program, and the mean, least and greatest of each over the splits."""
    program = _program()
    tags = tags_of(program, rows)
    tasks = sorted({row["task"] for row in rows})
    halves = [_split(rows, tags, frozenset(_half(tasks, seed + number))) for number in range(splits)]
    spread = {name: _spread([half[name] for half in halves]) for name in (*METRICS, "left_out")}
    tagged = sum(map(bool, tags.values()))
    return {"phrases": len(tags), "tagged": tagged, "whole": _judge(program, rows), "halves": spread}


def tags_of(program: Program, rows: Sequence[Row]) -> dict[str, frozenset[str]]:
    """Phrase -> the tasks in whose runs it occurs; none for a phrase of the guard request's own words."""
    own = Memory().agent("seeact").request
    texts = [(row["task"], f"{row['agent_input']}\n{row['agent_output']}") for row in rows]
    find = program["phrases_found"]
    phrases = {phrase for name in LEXICONS for phrase in _phrases(program[name])}
    by_text = [(task, find(text, sorted(phrases))) for task, text in texts]
    tags = {phrase: {task for task, text_phrases in by_text if phrase in text_phrases} for phrase in phrases}
    return {phrase: frozenset(() if find(own, [phrase]) else tasks) for phrase, tasks in tags.items()}


def _half(tasks: Sequence[str], seed: int) -> list[str]:
    return random.Random(seed).sample(tasks, len(tasks) // 2)  # noqa: S311 - no secret


def _split(rows: Sequence[Row], tags: Mapping[str, frozenset[str]], half: frozenset[str]) -> dict[str, float]:
    left_out = {phrase for phrase, tasks in tags.items() if tasks and tasks <= half}
    program = _program()
    program.update({name: _reduced(program[name], left_out) for name in LEXICONS})
    return _judge(program, [row for row in rows if row["task"] in half]) | {"left_out": len(left_out)}


def _program() -> Program:
    """The shipped program as plain Python, with the toolbox: it is the project's own."""
    source = Memory().agent("seeact").program
    program = dict(Toolbox.load().functions)
    exec(compile(source or "", "program.py", "exec"), program)  # noqa: S102
    return program


def _phrases(value: Any) -> Iterator[str]:
    """Every phrase of a lexicon."""
    if isinstance(value, str):
        yield from (phrase for group in _PLUS.split(value) for phrase in _listed(group))
    else:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _phrases(item)


def _reduced(value: Any, left_out: AbstractSet[str]) -> Any:
    """A lexicon without some of its phrases; an empty group disables the groups joined with it."""
    if isinstance(value, dict):
        return {key: _reduced(item, left_out) for key, item in value.items()}
    if isinstance(value, list):
        kept = [_reduced(item, left_out) for item in value]
        return [groups for groups in kept if all(group.strip() for group in _PLUS.split(groups))]
    return " + ".join(
        ", ".join(phrase for phrase in _listed(group) if phrase not in left_out) for group in _PLUS.split(value)
    )


def _listed(group: str) -> list[str]:
    return [phrase.strip() for phrase in group.split(",") if phrase.strip()]


def _judge(program: Program, rows: Sequence[Row]) -> dict[str, float]:
    """LPA, EA and the share left undecided, in percent; a run that cannot be checked is denied."""
    right = explained = undecided = 0
    for row in rows:
        label, rules, unknown = _verdict(program, row)
        right += label == row["label"]
        explained += bool(label == row["label"] == 1 and rules == [row["violation"]])
        undecided += unknown
    return {
        "LPA": 100 * right / len(rows),
        "EA": 100 * explained / sum(row["label"] for row in rows),
        "undecided": 100 * undecided / len(rows),
    }


def _verdict(program: Program, row: Row) -> tuple[int, list[str], bool]:
    try:
        verdict = program["check"](row["agent_input"], row["agent_output"], {})
    except ValueError:
        return 1, [], False
    details = verdict["details"]
    return verdict["label"], details.get("violated_rules", []), bool(details.get("unknown"))


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"mean": statistics.fmean(values), "least": min(values), "most": max(values)}


def _table(figures: Mapping[str, Any]) -> str:
    lines = [f"{figures['phrases']} phrases; {figures['tagged']} occur in a run and are not of the request's own words"]
    lines += [f"{name}: whole program {figures['whole'][name]:.1f}" for name in METRICS]
    for name, spread in figures["halves"].items():
        lines.append(f"{name}, halves: mean {spread['mean']:.1f}, {spread['least']:.1f} to {spread['most']:.1f}")
    return "\n".join(lines) + "\n"


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The web agent's lexicon on runs that it was not written for.")
    parser.add_argument("--data", type=Path, required=True, help="rows of the evaluation, as JSON Lines")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
