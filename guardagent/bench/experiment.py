"""The guard under evaluation: the guard as deployed, or one of the paper's settings and ablations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from guardagent._support.execution import deny_on_crash_flow
from guardagent.errors import InputError
from guardagent.guard import GuardAgent, Mode
from guardagent.models import Model, model_name
from guardagent.models.chat import Flow, adrive, drive
from guardagent.programs.generation import ModelBaseline, vote_verdict
from guardagent.sandbox.toolbox import Toolbox
from guardagent.types import Context, Event, Verdict

BenchMode = Literal["auto", "program", "generate", "model-only"]

_ABLATIONS = ("least_similar", "without_toolbox", "without_memory", "without_code_instructions", "required_checks")
_MODEL_SETTINGS = (*_ABLATIONS, "shots", "votes")
_GUARD_AGENT_SETTINGS = ("model", "toolbox", "memory", "prompts", "votes", "debug_rounds", "cache", "max_cost")
_CODE_SETTINGS = ("without_toolbox", "required_checks", "votes")


class Judge(Protocol):
    """The evaluated object: a GuardAgent, or any object with `guard`, and with `aguard` for several workers."""

    def guard(self, input: str, output_log: str, facts: Mapping[str, Any] | None = None) -> Verdict:  # noqa: A002
        ...


@dataclass(frozen=True)
class Experiment:
    """The settings of an evaluation.

    Attributes:
        mode: `program`, `generate` and `auto` as for GuardAgent; `model-only` is the paper's baseline without code.
        model, toolbox, memory, prompts, votes, debug_rounds, cache, max_cost: as for GuardAgent.
        shots: the number of demonstrations; None: as in the paper (Section 5.1).
        least_similar: show the least similar demonstrations instead of the most similar (Appendix M).
        without_toolbox: no functions; the model writes the check itself, and its result is trusted (Table 2).
        without_memory: no demonstrations (Table 2).
        without_code_instructions: `model-only` without instructions about code (Appendix L).
        required_checks: with `generate`, also run the host's required checks, as a deployed guard does. The paper's
            method has none.
        workers: the number of examples judged at once.
    """

    mode: BenchMode = "auto"
    model: Model | str | None = None
    toolbox: Sequence[Path | str] | Path | str | None = None
    memory: Path | str | None = None
    prompts: Path | str | None = None
    shots: int | None = None
    least_similar: bool = False
    without_toolbox: bool = False
    without_memory: bool = False
    without_code_instructions: bool = False
    required_checks: bool = False
    votes: int = 1
    debug_rounds: int = 3
    cache: Path | str | None = None
    max_cost: float | None = None
    workers: int = 1

    def guard_agent(self, agent: str, shots: int) -> GuardAgent:
        """The guard of an agent with these settings.

        Raises:
            InputError: a setting is invalid, or conflicts with another one.
        """
        mode: Mode = "generate" if self.mode == "model-only" else self.mode
        guard = GuardAgent(
            agent=agent,
            mode=mode,
            shots=shots if self.shots is None else self.shots,
            **{name: getattr(self, name) for name in _GUARD_AGENT_SETTINGS},
        )
        if guard.obstacle:  # otherwise every verdict would be this error
            raise InputError(guard.obstacle)
        self._refuse_without_effect(guard)
        return guard

    def judge(self, guard: GuardAgent) -> Judge:
        """The guard itself, or a flow over its setup for the paper's settings."""
        if guard.program is not None or self.required_checks:
            return guard
        setup = replace(guard.setup, least_similar=self.least_similar)
        if self.without_memory:
            setup = replace(setup, demonstrations=())
        if self.without_toolbox:
            setup = replace(setup, toolbox=Toolbox([]), needs_check=False)
        if self.mode == "model-only":
            return FlowJudge(guard, ModelBaseline(setup, free_form=self.without_code_instructions).flow)

        def generated(run: Event, context: Context) -> Flow:
            verdict, _ = yield from vote_verdict(setup, run, context, self.votes)
            return verdict

        return FlowJudge(guard, generated)

    def settings(self, guard: GuardAgent) -> dict[str, Any]:
        """The settings that identify this experiment, as JSON values."""
        if guard.program is not None:  # a model, if there is one, judges the runs that the program cannot decide
            return {"mode": "auto", "model": model_name(guard.model)} if guard.model else {"mode": "program"}
        names = ("votes", "debug_rounds", "max_cost", *_ABLATIONS)
        head = {"mode": self.mode if self.mode == "model-only" else "generate", "model": model_name(guard.model)}
        shots = 0 if self.without_memory else guard.setup.shots
        return head | {"shots": shots} | {name: getattr(self, name) for name in names}

    def _refuse_without_effect(self, guard: GuardAgent) -> None:
        """Refuses settings without an effect."""
        if guard.program is not None and (changed := self._changed(_MODEL_SETTINGS)):
            raise InputError(f"{_option(changed[0])!r} has no effect on a program; expected '--mode generate'")
        if self.mode == "model-only" and (changed := self._changed(_CODE_SETTINGS)):
            raise InputError(
                f"{_option(changed[0])!r} has no effect with '--mode model-only'; expected '--mode generate'"
            )
        if self.mode != "model-only" and self.without_code_instructions:
            raise InputError("'--without-code-instructions' needs '--mode model-only'")
        if self.without_memory and (self.least_similar or self.shots):
            raise InputError("'--without-memory' shows no demonstrations; expected no '--least-similar' and no '--k'")
        if self.least_similar and self.shots == 0:
            raise InputError("'--least-similar' needs demonstrations; expected '--k' of at least 1")
        if self.required_checks and self._changed(_ABLATIONS) != ["required_checks"]:
            raise InputError("'--required-checks' is the guard as deployed; expected none of the paper's ablations")
        if self.workers < 1:
            raise InputError(f"'workers' is {self.workers}; expected at least 1")

    def _changed(self, names: Sequence[str]) -> list[str]:
        """Those of some settings that differ from their defaults."""
        defaults = {field.name: field.default for field in fields(self)}
        return [name for name in names if getattr(self, name) != defaults[name]]


class FlowJudge:
    """Judges by a flow, with the model, cost limit and cache of a guard."""

    def __init__(self, guard: GuardAgent, flow: Callable[[Event, Context], Flow]) -> None:
        self._guard = guard
        self._flow = flow

    def guard(self, input: str, output_log: str, facts: Mapping[str, Any] | None = None) -> Verdict:  # noqa: A002
        """Like `GuardAgent.guard`."""
        return drive(self._verdict_flow(input, output_log, facts), self._guard.meter())

    async def aguard(self, input: str, output_log: str, facts: Mapping[str, Any] | None = None) -> Verdict:  # noqa: A002
        """Like `guard`, without blocking the event loop."""
        return await adrive(self._verdict_flow(input, output_log, facts), self._guard.meter())

    def _verdict_flow(self, agent_input: str, output_log: str, facts: Mapping[str, Any] | None) -> Flow:
        run = Event("agent_run", args={"input": agent_input}, output=output_log)
        return deny_on_crash_flow(self._flow(run, Context(facts=facts or {})))


def _option(name: str) -> str:
    return "--k" if name == "shots" else f"--{name.replace('_', '-')}"
