"""The run of an evaluation: judges every example by a guard, then writes metrics, table and plot.

The guard is the one as deployed, or has one of the paper's settings and ablations.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from guardagent._support import execution
from guardagent._support.execution import deny_on_crash_flow
from guardagent._version import __version__
from guardagent.batch.pool import map_concurrently
from guardagent.bench.evaluation import BenchExample, Evaluation, PaperRow, Replay, find_evaluation
from guardagent.bench.metrics import measure, measure_cost, measure_groups, measure_unknown, wrong_rows
from guardagent.bench.replay import run_replay
from guardagent.bench.results import (
    Results,
    Row,
    digest_of,
    draw,
    is_silent,
    measure_generated,
    result_row,
    results_folder,
    setup_of,
    table,
    write_results,
)
from guardagent.errors import InputError, ModelError
from guardagent.guard import GuardAgent, Mode
from guardagent.models import Completion, Message, Model, load_model, model_name
from guardagent.models.backends import cost_of
from guardagent.models.chat import Flow, adrive, drive
from guardagent.programs.generation import ModelBaseline, vote_verdict
from guardagent.programs.memory.retrieval import Demonstration
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


_CHARACTERS = 4  # of a token, about


class EstimatingModel:
    """A model that counts prompts, and answers with the plan and the code of a demonstration, in turn.

    Attributes:
        calls, prompt_words, prompt_characters: the counts so far.
    """

    def __init__(self, shown: Demonstration) -> None:
        self._plan = "\n".join(f"{number}. {step}" for number, step in enumerate(shown.plan, start=1))
        self._code = f"```python\n{shown.code}\n```"
        self.calls = self.prompt_words = self.prompt_characters = 0

    def complete(self, messages: Sequence[Message], **_: Any) -> Completion:
        """Answers with the plan, or with the code to every second prompt: a guard asks for both."""
        self.calls += 1
        self.prompt_words += sum(len(message.content.split()) for message in messages)
        self.prompt_characters += sum(len(message.content) for message in messages)
        return Completion(self._code if self.calls % 2 == 0 else self._plan)

    def summary(self, prices: tuple[float, float] | None) -> dict[str, Any]:
        """The counts, and US dollars; an answer is half a demonstration."""
        answer = f"{self._plan}\n{self._code}"
        tokens = (self.prompt_characters // _CHARACTERS, self.calls * len(answer) // 2 // _CHARACTERS)
        return {
            "model_calls": self.calls,
            "prompt_words": self.prompt_words,
            "answer_words": self.calls * len(answer.split()) // 2,
            "dollars": cost_of(prices, *tokens) if self.calls else 0.0,
        }


def estimate(name: str, data: Path, *, benchmarks: Path | None = None, **settings: Any) -> dict[str, Any]:
    """Counts the calls and words of an evaluation, without repairs, and calls no model.

    Args:
        name: the evaluation.
        data: its data file.
        benchmarks: a folder of evaluations instead of the shipped one.
        settings: the settings of an `Experiment`; of the model, only its prices matter.

    Raises:
        InputError: a name, a file or a setting is invalid.
    """
    evaluation, _ = find_evaluation(name, benchmarks)
    if isinstance(evaluation, Replay):
        return {"examples": None, "model_calls": 0, "prompt_words": 0, "answer_words": 0, "dollars": 0.0}
    experiment = Experiment(**settings)
    model = load_model(experiment.model) if isinstance(experiment.model, str) else experiment.model
    examples = evaluation.load(data)
    with experiment.guard_agent(evaluation.agent, evaluation.shots) as guard:
        demonstrations = guard.setup.demonstrations
    counting = EstimatingModel(next(iter(demonstrations), Demonstration("", "", ("",) * 4, "")))
    experiment = replace(experiment, model=counting if model else None, debug_rounds=0, cache=None, max_cost=None)
    with experiment.guard_agent(evaluation.agent, evaluation.shots) as guard:
        judge = experiment.judge(guard)
        for example in examples:
            judge.guard(example.agent_input, example.agent_output)
    return {"examples": len(examples), **counting.summary(getattr(model, "prices", None))}


_MAX_SILENT_EXAMPLES = 3  # after this many examples without an answer, the run ends


def run_evaluation(
    name: str,
    data: Path,
    out: Path,
    *,
    progress: bool = False,
    benchmarks: Path | None = None,
    policies: Path | None = None,
    state: Path | None = None,
    facts: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Judges every example of a data file and writes the results into a folder.

    An interrupted run resumes when it is started again with the same arguments.

    Args:
        name: the evaluation: a folder of `benchmarks`, with `-` or `_`.
        data: JSON Lines, or the original as published if the evaluation supports it.
        out: the folder for results.jsonl, summary.json, table.md and plot.png.
        progress: show a progress bar on standard error, if that is a terminal.
        benchmarks: a folder of evaluations instead of the shipped one.
        policies: for an evaluation of trajectories, the guard's policy file.
        state: for an evaluation of trajectories, the guard's state.
        facts: for an evaluation of trajectories, the guard's facts.
        settings: the settings of an `Experiment`: mode, model, toolbox, memory, and the paper's ablations.

    Returns:
        The summary.

    Raises:
        InputError: a name, a file or a setting is invalid.
        ModelError: the model answers none of the first examples.
    """
    experiment = Experiment(**settings)
    evaluation, source = find_evaluation(name, benchmarks)
    if isinstance(evaluation, Replay):
        if experiment != Experiment(model=experiment.model):
            raise InputError(f"evaluation {name!r} uses no model; expected only '--policies', '--state' and '--facts'")
        return run_replay(evaluation, name, data, out, policies=policies, state=state, facts=facts)
    if (policies, state, facts) != (None, None, None):
        raise InputError(
            f"evaluation {name!r} uses its agent's guard; expected no '--policies', '--state' or '--facts'"
        )
    examples = evaluation.load(data)
    with (
        experiment.guard_agent(evaluation.agent, evaluation.shots) as guard,
        Results(results_folder(out) / "results.jsonl", retry_errors=guard.model is not None) as results,
    ):
        results.refuse_other_rows(example.id for example in examples)
        (out / "summary.json").unlink(missing_ok=True)  # only a completed run has one
        settings_row = experiment.settings(guard)
        setup, judge = setup_of(guard, source, settings_row), experiment.judge(guard)
        rows = judge_all(
            evaluation,
            examples,
            judge,
            results,
            setup,
            progress=progress,
            workers=experiment.workers,
            of_program=guard.program is not None,
        )
        about = {
            "name": name.replace("_", "-"),
            "agent": evaluation.agent,
            "mode": settings_row["mode"],
            "model": settings_row.get("model"),
            "settings": settings_row,
        }
    summary = _summary(evaluation, rows, {**about, "data": data.name, "data_sha256": _digest(data)})
    write_results(out, table(summary, evaluation), lambda path: draw(path, summary, evaluation.paper), summary)
    return summary


def judge_all(
    evaluation: Evaluation,
    examples: Sequence[BenchExample],
    judge: Judge,
    results: Results,
    setup: str,
    *,
    progress: bool = False,
    workers: int = 1,
    of_program: bool = False,
) -> list[Row]:
    """Judges all examples and returns their rows in order; rows that `results` already has are reused."""
    digests = {example.id: digest_of(example, setup) for example in examples}
    rows = {example.id: results.get(example, digests[example.id]) for example in examples}
    missing = [example for example in examples if rows[example.id] is None]
    refuse_silence = _refuse_silence(already=len(examples) - len(missing))
    with (
        results,
        execution.remember() as raise_if_interrupted,
        _progress_bar(len(examples), shown=progress) as advance,
    ):
        advance(len(examples) - len(missing))
        for example, verdict in _verdicts(judge, missing, workers):
            raise_if_interrupted()
            row = result_row(evaluation, example, verdict, digests[example.id], of_program=of_program)
            results.keep(row)
            rows[example.id] = row
            advance(1)
            refuse_silence(verdict)
        done = [row for row in rows.values() if row is not None]
        results.complete(done)
    return done


def _verdicts(judge: Any, examples: Sequence[BenchExample], workers: int) -> Iterator[tuple[BenchExample, Verdict]]:
    """Yields each example with its verdict as soon as it is judged."""
    if workers == 1:
        for example in examples:
            yield example, judge.guard(example.agent_input, example.agent_output)
        return
    with _event_loop() as loop:

        def submit(example: BenchExample) -> Future[Verdict]:
            return asyncio.run_coroutine_threadsafe(judge.aguard(example.agent_input, example.agent_output), loop)

        yield from map_concurrently(submit, examples, lambda begun: len(begun) < workers, ordered=False)


@contextlib.contextmanager
def _event_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Runs an event loop in a thread. At its end, pending tasks and their model requests are cancelled."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            yield loop
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()


def _refuse_silence(already: int) -> Callable[[Verdict], None]:
    """A callback that ends a run if the model answered none of the first examples: the others would fail too.

    Args:
        already: the number of examples judged in an earlier run; if it is not zero, the model did answer.
    """
    silent = 0

    def refuse(verdict: Verdict) -> None:
        nonlocal already, silent
        if not is_silent(verdict):
            already += 1
        silent += 1
        if not already and silent == _MAX_SILENT_EXAMPLES:
            raise ModelError(
                f"the model answered none of the first {_MAX_SILENT_EXAMPLES} examples: {verdict.errors[0]}"
            )

    return refuse


def _digest(data: Path) -> str:
    with data.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _summary(evaluation: Evaluation, rows: Sequence[Row], about: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **about,
        "version": __version__,
        **measure(rows),
        **measure_cost(rows),
        "unknown": measure_unknown(rows),
        "generated": measure_generated(rows),
        "groups": measure_groups(rows),
        "wrong": wrong_rows(rows),
        "paper": _quoted(evaluation.paper),
        "paper_generated": {
            part.name: _quoted(getattr(evaluation.paper_generated, part.name))
            for part in dataclasses.fields(evaluation.paper_generated)
        },
    }


def _quoted(rows: Sequence[PaperRow]) -> list[dict[str, Any]]:
    return [
        {"mark": "paper", "source": row.source, "method": row.method, "n": row.n, "group": row.group} | dict(row.values)
        for row in rows
    ]


@contextlib.contextmanager
def _progress_bar(total: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    if not (shown and sys.stderr.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("judging", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total)
        yield lambda count: bar.advance(task, count)
