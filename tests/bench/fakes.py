"""Guards that need no sandbox, and examples and files of a line each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from guardagent.bench import BenchExample
from guardagent.types import Decision, Verdict

SHARED = Path(__file__).parents[3] / "shared" / "data"


class Oracle:
    """A guard that answers by a function of the input, and records its inputs."""

    def __init__(self, answer: Callable[[str], Verdict]) -> None:
        self.inputs: list[str] = []
        self._answer = answer

    def guard(self, input: str, output_log: str, facts: Mapping[str, Any] | None = None) -> Verdict:  # noqa: A002
        assert output_log
        assert facts is None, "an evaluation tells a guard nothing but the run"
        self.inputs.append(input)
        return self._answer(input)


def allow(answer: str | None = None, **details: Any) -> Verdict:
    return Verdict(Decision.ALLOW, answer=answer, details=details, elapsed_ms=1.0)


def deny(**details: Any) -> Verdict:
    return Verdict(Decision.DENY, details=details, elapsed_ms=3.0)


def example(name: str, label: int, output: str = "yes", **truth: str) -> BenchExample:
    return BenchExample(name, f"input {name}", output, label, {"rule": "r", "answer": "yes", "shift": "day"} | truth)


def write_lines(path: Path, *rows: Mapping[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
