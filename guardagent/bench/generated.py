"""What generating took: whether the code ran before and after debugging, why not, and words, tokens and time per check.

The paper's Table 2 and Appendix K (executable code and errors), Table 6 (time) and Table 7 (words).
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from guardagent.answers import holds_code
from guardagent.bench.metrics import Row, percent
from guardagent.types import Step, Verdict

ATTEMPTS = ("code", "debug")
_ASKED = ("plan", *ATTEMPTS, "judge")


def describe(verdict: Verdict) -> dict[str, Any] | None:
    """What a row keeps of how a verdict was generated; None for one that no model took part in."""
    if not verdict.story:
        return None
    votes = sorted({step.vote for step in verdict.story})
    judged = [step.text for step in verdict.story if step.name == "judge"]
    return {
        "usage": asdict(verdict.usage),
        "attempts": [_attempts([step for step in verdict.story if step.vote == vote]) for vote in votes],
        "words": {
            "demonstration": _mean(_demonstrations(verdict.story)),
            "prompt": _mean(map(_prompt_words, _first(verdict.story))),
            "response": sum(len(step.text.split()) for step in verdict.story if step.name in _ASKED),
        },
        "code_written": holds_code(judged[0]) if judged else None,
    }


def measure_generated(rows: Sequence[Row]) -> dict[str, Any] | None:
    """Over all rows that a model took part in; None where it did in none."""
    kept = [row for row in rows if row.get("generated")]
    if not kept:
        return None
    found = [row["generated"] for row in kept]
    attempts = [attempt for one in found for attempt in one["attempts"] if attempt]
    written = [one["code_written"] for one in found if one["code_written"] is not None]
    return {
        "executable": {
            "before": percent(sum(attempt[0] is None for attempt in attempts), len(attempts)),
            "after": percent(sum(attempt[-1] is None for attempt in attempts), len(attempts)),
        },
        "errors": _errors(attempts),
        "code_written": percent(sum(written), len(written)),
        "per_check": {
            "seconds": _mean(row["elapsed_ms"] / 1000 for row in kept),
            "words of a demonstration": _mean(one["words"]["demonstration"] for one in found),
            "words of a prompt": _mean(one["words"]["prompt"] for one in found),
            "words of the answers": _mean(one["words"]["response"] for one in found),
            "prompt tokens": _mean(one["usage"]["prompt_tokens"] for one in found),
            "completion tokens": _mean(one["usage"]["completion_tokens"] for one in found),
            "US dollars": _mean((one["usage"]["cost"] for one in found), digits=6),
        },
    }


def _attempts(story: Sequence[Step]) -> list[str | None]:
    """For each version of the code: what kind of error stopped it, or None for the one that ran."""
    return [step.kind for step in story if step.name == "run" or (step.name in ATTEMPTS and step.kind)]


def _errors(attempts: Sequence[Sequence[str | None]]) -> dict[str, dict[str, int]]:
    """Kind of the first version's error -> how many there were, and how many of them debugging solved."""
    failed = [attempt for attempt in attempts if attempt[0] is not None]
    before = Counter(str(attempt[0]) for attempt in failed)
    solved = Counter(str(attempt[0]) for attempt in failed if attempt[-1] is None)
    return {kind: {"examples": count, "solved": solved[kind]} for kind, count in sorted(before.items())}


def _first(story: Sequence[Step]) -> list[Step]:
    """The first question of each kind but debugging: plan and code, or the judgement."""
    names: dict[str, Step] = {}
    for step in story:
        if step.name in _ASKED and step.name != "debug":
            names.setdefault(step.name, step)
    return list(names.values())


def _prompt_words(step: Step) -> int:
    return sum(len(message.content.split()) for message in step.prompt)


def _demonstrations(story: Sequence[Step]) -> list[int]:
    lines = [line for step in story[:1] if step.name == "retrieve" for line in step.text.splitlines()]
    return [_words(json.loads(line)) for line in lines]


def _words(record: Mapping[str, Any]) -> int:
    return sum(len(("\n".join(value) if isinstance(value, list) else value).split()) for value in record.values())


def _mean(values: Iterable[float | None], digits: int = 2) -> float | None:
    """None where nothing is there, or one value is not known."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return round(statistics.fmean(known), digits) if listed and len(known) == len(listed) else None
