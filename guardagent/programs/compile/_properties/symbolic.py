"""Counterexamples from CrossHair: it executes the program with a symbolic field, and solves for a violated property.

CrossHair executes the code that it examines, outside the sandbox's engine. It therefore runs in its own process behind
all layers of `guardagent.sandbox.hardening`, without network, environment or other files; without one of these layers
it does not run. The sandbox confirms each suggested run, so CrossHair finds counterexamples but proves nothing.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.fields import fields_of
from guardagent.programs.compile.properties import Change
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import Trial
from guardagent.sandbox import hardening, worker
from guardagent.types import thaw

INSTALL = "pip install 'guardagent[crosshair]'"

_EACH = 6.0  # seconds per query
_START = 20.0  # seconds for starting the process
_MOST_ANSWER = 200_000  # characters
_LONGEST = 1_000  # characters of a value


@dataclass(frozen=True, slots=True)
class SymbolicQuery:
    """A run with one symbolic field, between `before` and `after` in its text; for a fact, `before` is its name."""

    example: Example
    change: Change
    before: str
    after: str
    is_number: bool

    def to_dict(self, number: int) -> dict[str, Any]:
        one = self.example
        run = {"agent_input": one.agent_input, "agent_output": one.agent_output, "facts": thaw(one.facts)}
        place = [self.change.origin, self.before, self.after]
        return {"id": number, "run": run, "place": place, "number": self.is_number}

    def run_with(self, value: str | int) -> tuple[Example, str]:
        """Returns the run with a value, and a description of the change."""
        change = replace(self.change, value=json.dumps(value))
        if change.origin == "facts":
            return change.apply(self.example), f"{change} (CrossHair)"
        text = f"{self.before}{value}{self.after}"
        if change.origin == "agent_input":
            return replace(self.example, agent_input=text), f"{change} (CrossHair)"
        return replace(self.example, agent_output=text), f"{change} (CrossHair)"


def unavailable_reason() -> str:
    """Returns why CrossHair cannot run on this machine; empty if it can."""
    if importlib.util.find_spec("crosshair") is None:
        return f"symbolic search was skipped: CrossHair is not installed; to install it: {INSTALL}"
    missing = [f"{layer}: {problem}" for layer, problem in hardening.problems().items() if problem]
    return f"symbolic search was skipped: CrossHair needs all hardening layers; {missing[0]}" if missing else ""


def symbolic_queries(suite: Suite) -> list[SymbolicQuery]:
    """Returns one query per field or fact and label; numbers first, since they have limits."""
    found: dict[tuple[str, str, int], SymbolicQuery] = {}
    for example in suite.examples:
        for one in _open_fields(example):
            found.setdefault((one.change.origin, one.change.name, example.label), one)
    return sorted(found.values(), key=lambda one: (not one.is_number, -one.example.label))


def suggested_runs(
    trial: Trial, suite: Suite, queries: Sequence[SymbolicQuery], seconds: float
) -> tuple[list[tuple[Example, str]], int, str]:
    """Runs as many queries as fit into the time.

    Returns:
        The suggested runs, the number of queries that ran, and why not all ran; empty if all did.
    """
    work = {
        "program": trial.program,
        "properties": trial.properties.program,
        "toolbox": sorted({str(tool.path.resolve()) for tool in suite.target.toolbox.values()}),
        "readable": sorted({str(tool.path.resolve().parent) for tool in suite.target.toolbox.values()}),
        "seconds": seconds,
        "each": _EACH,
        "questions": [one.to_dict(number) for number, one in enumerate(queries)],
    }
    output, why = _run(json.dumps(work, default=str), seconds + _START + _EACH)
    counterexamples = [queries[number].run_with(value) for number, value in _answers(output, len(queries))]
    count = min(len(queries), output.count('"asked"'))
    over = f"CrossHair examined {count} of {len(queries)} fields in its time" if count < len(queries) else ""
    return counterexamples, count, why or over


def _run(work: str, seconds: float) -> tuple[str, str]:
    command = worker.command("symbolic", libraries=("crosshair",))
    try:
        ran = subprocess.run(  # noqa: S603 - our own worker
            command,
            input=work.encode(),
            capture_output=True,
            timeout=seconds,
            env={"PYTHONHASHSEED": "0"},
            cwd="/",
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode(errors="replace"), "CrossHair ran out of time"
    except OSError as error:
        return "", f"CrossHair's process cannot be started: {error}"
    last = (ran.stderr.decode(errors="replace").strip().splitlines() or [""])[-1][:200]
    return ran.stdout.decode(errors="replace"), f"CrossHair stopped: {last}" if ran.returncode else ""


def _answers(output: str, count: int) -> Iterator[tuple[int, str | int]]:
    for line in output[:_MOST_ANSWER].split("\n"):
        with contextlib.suppress(ValueError, RecursionError):
            answer = json.loads(line)
            if isinstance(answer, Mapping):
                number, value = answer.get("question"), answer.get("value")
                if not isinstance(number, int) or not isinstance(value, str | int):
                    continue
                if 0 <= number < count and len(str(value)) <= _LONGEST:
                    yield number, value


def _open_fields(example: Example) -> Iterator[SymbolicQuery]:
    for origin in ("agent_input", "agent_output"):
        text = getattr(example, origin)
        for field in fields_of(text):
            before, behind = text[: field.start], text[field.end :]
            yield SymbolicQuery(example, Change(origin, field.name, None), before, behind, field.value.isdecimal())
    for name, value in example.facts.items():
        if isinstance(value, str | int) and not isinstance(value, bool):
            yield SymbolicQuery(example, Change("facts", name, None), name, "", isinstance(value, int))
