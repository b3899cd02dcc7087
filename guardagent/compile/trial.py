"""Runs one program on one example, in the sandbox, and says what came of it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from guardagent.compile.coverage import Instrumented
from guardagent.compile.examples import Example
from guardagent.compile.properties.source import Properties
from guardagent.error_kinds import kind_of
from guardagent.errors import LimitError, ProgramError, SandboxError
from guardagent.program import Recorder, clock_of, copy_value, failed_run, run_program
from guardagent.sandbox import Sandbox
from guardagent.toolbox import Toolbox
from guardagent.types import thaw


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a program gave for one run.

    Attributes:
        label: of the verdict; 1 where there is none.
        undecided: why the program could not decide, where it said so itself.
        crash: what stopped it otherwise: an exception that no program should raise, a limit, an answer that is none.
        reasons: those of the verdict.
        answer: what it hands out.
    """

    label: int
    undecided: str = ""
    crash: str = ""
    reasons: tuple[str, ...] = ()
    answer: str | None = None

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
        self._instrumented = Instrumented(program)

    def outcome(self, example: Example) -> Outcome:
        """What the program gives for a run.

        Raises:
            SandboxError: the sandbox itself does not work here.
        """
        recorder = Recorder(self._toolbox)
        try:
            verdict = run_program(self.program, self._sandbox, recorder, example.event, example.context)
        except (ProgramError, LimitError) as error:
            said = "; ".join(failed_run(error, recorder, "program").errors)
            if kind_of(error, admitted=True) == "value":
                return Outcome(1, undecided=said)
            return Outcome(1, crash=said)
        return Outcome(verdict.label, "; ".join(verdict.errors), reasons=verdict.reasons, answer=verdict.answer)

    def returned(self, program: str, example: Example) -> Any:
        """What another program returns for a run, as it is: no verdict is made of it.

        Raises:
            ProgramError: it raised, or returned anything but plain values.
            LimitError: it went over a limit.
            SandboxError: the sandbox itself does not work here.
        """
        functions, clock = Recorder(self._toolbox).functions(), clock_of(example.facts)
        return copy_value(self._sandbox.run(program, _inputs(example), functions, clock))

    def lines_run(self, example: Example) -> frozenset[int]:
        """The lines within functions that run for an example; none where the program does not get to its end."""
        told: list[int] = []
        recorder, instrumented = Recorder(self._toolbox), self._instrumented
        functions = recorder.functions() | {instrumented.teller: lambda lines: told.extend(map(int, lines))}
        with contextlib.suppress(SandboxError):
            self._sandbox.run(instrumented.source, _inputs(example), functions, clock_of(example.facts))
        return frozenset(told)


def _inputs(example: Example) -> dict[str, Any]:
    return {
        "agent_input": example.agent_input,
        "agent_output": example.agent_output,
        "facts": thaw(example.context.facts),
    }
