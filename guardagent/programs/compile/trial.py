"""Runs one program on one example in the sandbox, and returns the outcome."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from guardagent.errors import LimitError, ProgramError, SandboxError
from guardagent.models.error_kinds import error_kind
from guardagent.programs.compile._properties.source import Properties
from guardagent.programs.compile.coverage import InstrumentedProgram
from guardagent.programs.compile.examples import Example
from guardagent.programs.runtime.program import Recorder, clock_of, copy_value, failure_verdict, run_program
from guardagent.sandbox import Sandbox
from guardagent.sandbox.toolbox import Toolbox
from guardagent.types import thaw


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The outcome of a program on one run.

    Attributes:
        label: the label of the verdict; 1 without a verdict.
        undecided: the reason the program gave for not deciding.
        crash: the exception, exceeded limit or invalid return value that stopped the program.
        reasons: the reasons of the verdict.
        answer: the answer that the program releases.
        details: the details of the verdict.
        leaks: whether the program denies and still returns an answer, which the host withholds.
    """

    label: int
    undecided: str = ""
    crash: str = ""
    reasons: tuple[str, ...] = ()
    answer: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict, compare=False)
    leaks: bool = field(default=False, compare=False)

    @property
    def decided(self) -> bool:
        return not (self.undecided or self.crash)

    def __str__(self) -> str:
        why = self.crash or self.undecided or "; ".join(self.reasons)
        kind = "label 1, crashed" if self.crash else "label 1, undecided" if self.undecided else f"label {self.label}"
        return f"{kind}: {why}" if why else kind


class Trial:
    """One program, its properties, and the sandbox and toolbox that it runs with."""

    def __init__(self, program: str, sandbox: Sandbox, toolbox: Toolbox, properties: Properties | None = None) -> None:
        self.program = program
        self.properties = properties or Properties()
        self._sandbox = sandbox
        self._toolbox = toolbox
        self._instrumented = InstrumentedProgram(program)
        self._outcomes: dict[str, RunOutcome] = {}

    def outcome(self, example: Example) -> RunOutcome:
        """Returns the outcome for a run; each run is executed once.

        Raises:
            SandboxError: the sandbox does not work on this machine.
        """
        if example.run not in self._outcomes:
            self._outcomes[example.run] = self._run(example)
        return self._outcomes[example.run]

    def _run(self, example: Example) -> RunOutcome:
        recorder, sandbox = Recorder(self._toolbox), _RecordingSandbox(self._sandbox)
        try:
            verdict = run_program(self.program, sandbox, recorder, example.event, example.context)
        except (ProgramError, LimitError) as error:
            reason = "; ".join(failure_verdict(error, recorder, "program").errors)
            if error_kind(error, passed_gate=True) == "value":
                return RunOutcome(1, undecided=reason)
            return RunOutcome(1, crash=reason)
        claimed = sandbox.returned.get("answer") if isinstance(sandbox.returned, Mapping) else None
        return RunOutcome(
            verdict.label,
            "; ".join(verdict.errors),
            reasons=verdict.reasons,
            answer=verdict.answer,
            details=thaw(verdict.details),
            leaks=verdict.label == 1 and claimed is not None,
        )

    def return_value(self, program: str, example: Example) -> Any:
        """Returns the raw return value of another program for a run.

        Raises:
            ProgramError: the program raised, or returned something other than plain values.
            LimitError: the program exceeded a limit.
            SandboxError: the sandbox does not work on this machine.
        """
        functions, clock = Recorder(self._toolbox).functions(), clock_of(example.facts)
        return copy_value(self._sandbox.run(program, _inputs(example), functions, clock))

    def return_values(self, program: str, examples: Sequence[Example]) -> list[Any]:
        """Returns another program's values for several runs, passed as its fact `runs`; empty if the program fails.

        Raises:
            SandboxError: the sandbox does not work on this machine.
        """
        runs = Example("", "", "", 0, {"runs": [_inputs(one) for one in examples]})
        try:
            return list(self.return_value(program, runs)) if examples else []
        except (ProgramError, LimitError):
            return []

    def lines_run(self, example: Example) -> frozenset[int]:
        """Returns the executed lines inside functions for an example; empty if the program does not finish."""
        executed: list[int] = []
        recorder, instrumented = Recorder(self._toolbox), self._instrumented
        functions = recorder.functions() | {
            instrumented.report_function: lambda lines: executed.extend(map(int, lines))
        }
        with contextlib.suppress(SandboxError):
            self._sandbox.run(instrumented.source, _inputs(example), functions, clock_of(example.facts))
        return frozenset(executed)


class _RecordingSandbox:
    """A sandbox that records the last return value.

    Attributes:
        returned: the value; None before the first run.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.returned: Any = None

    def run(
        self,
        program: str,
        inputs: Mapping[str, Any],
        functions: Mapping[str, Callable[..., Any]],
        now: dt.datetime | None = None,
    ) -> Any:
        self.returned = self._sandbox.run(program, inputs, functions, now)
        return self.returned

    def close(self) -> None:
        self._sandbox.close()


def _inputs(example: Example) -> dict[str, Any]:
    return {
        "agent_input": example.agent_input,
        "agent_output": example.agent_output,
        "facts": thaw(example.context.facts),
    }
