"""A program that a model writes for one run (paper, Sections 4.2 and 4.3): retrieve, plan, code, run, debug, verdict.

The model's code is a guard program like any other: the static gate admits it, the sandbox runs it, and the host owns
the verdict. Errors go back to the model for a bounded number of rounds; code that never runs is a denial. One generator
yields prompts and receives completions, with or without an event loop.

The paper's baseline (Section 5.2, Appendix I) lets a model judge the run directly, without code. It serves evaluations
and is not a guard: a hostile text can influence the model's verdict directly.

With self-consistency (Appendix Q; Wang et al. 2023), several plans for one run vote on the verdict.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from guardagent.errors import AnswerError, GuardError, LimitError, ProgramError, SandboxError
from guardagent.models import Completion
from guardagent.models.chat import NO_PROGRAM, Flow, error_kind
from guardagent.models.prompts import ModelCall, Prompts
from guardagent.models.redaction import Redactor
from guardagent.programs.answers import FunctionSelection, Plan, read_code, read_judgement, read_plan, select
from guardagent.programs.memory.retrieval import (
    Demonstration,
    Query,
    file_demonstrations,
    file_order,
    nearest,
    shortage,
)
from guardagent.programs.program import (
    Recorder,
    claimed_verdict,
    clock_of,
    copy_value,
    failure_verdict,
    program_check,
    run_program,
)
from guardagent.sandbox import Sandbox
from guardagent.sandbox.toolbox import Toolbox
from guardagent.types import (
    Context,
    Decision,
    Event,
    Step,
    StepName,
    Verdict,
    Violation,
    freeze,
    thaw,
    unchecked_verdict,
)

CHECKED_BY = "generated"


@dataclass(frozen=True)
class GenerationSetup:
    """The configuration of a generating guard.

    Attributes:
        engine: returns the sandbox for the engine that a plan names.
        shots: the number of demonstrations in a prompt.
        least_similar: show the farthest demonstrations instead of the nearest (Appendix M).
        max_distance: their maximal distance from the run, as in `retrieval.Query`.
        debug_rounds: how often an unusable answer, or code that does not run, goes back to the model.
        needs_check: whether a program must call a check to allow. False only in evaluations without a toolbox.
    """

    request: str
    specification: str
    toolbox: Toolbox
    engine: Callable[[str], Sandbox]
    prompts: Prompts
    demonstrations: Sequence[Demonstration] = ()
    shots: int = 3
    least_similar: bool = False
    max_distance: float | None = None
    debug_rounds: int = 3
    redactor: Redactor = field(default_factory=Redactor)
    needs_check: bool = True


class Generation:
    """The generation of one guard for one run of an agent.

    Args:
        setup: the configuration.
        event: the run.
        context: the host's facts.
        vote: the index among several plans for the same run, from 0.
        temperature: the temperature of the model for planning.
    """

    def __init__(
        self, setup: GenerationSetup, event: Event, context: Context, *, vote: int = 0, temperature: float = 0.0
    ) -> None:
        self._setup = setup
        self._redaction = setup.redactor.redaction()
        hide = self._redaction.redact
        self._event = replace(event, args={"input": hide(event.args["input"])}, output=hide(event.output))
        self._context = replace(context, facts=hide(context.facts))
        self._vote = vote
        self._temperature = temperature
        self._shown: list[Demonstration] = []
        self._story: list[Step] = []
        self._denied: tuple[Violation, ...] = ()  # violations found by versions of the code that failed
        self.demonstration: Demonstration | None = None
        """The demonstration to learn: this run with its plan and code, once the code has run."""

    def flow(self) -> Flow:
        """Returns the flow that computes the verdict."""
        try:
            clock_of(self._context.facts)  # no model can repair an error of the host
            self._retrieve()
            plan = yield from self._plan()
            verdict = yield from self._code(plan)
        except GuardError as error:
            verdict = unchecked_verdict(str(error), checked_by=CHECKED_BY)
        return replace(self._unredacted(verdict), story=tuple(self._story))

    def _retrieve(self) -> None:
        setup, texts = self._setup, (self._event.args["input"], self._event.output)
        query = Query(*texts, setup.shots, setup.least_similar, setup.max_distance)
        neighbours, hide = nearest(setup.demonstrations, query), self._redaction.redact
        self._shown = [
            Demonstration(hide(d.agent_input), hide(d.agent_output), tuple(hide(d.plan)), hide(d.code))
            for d in file_order((neighbour.demonstration for neighbour in neighbours), setup.demonstrations)
        ]
        problem = shortage(setup.demonstrations, query, neighbours)
        self._add_step("retrieve", text="\n".join(d.to_json() for d in self._shown), error=problem)

    def _plan(self) -> Generator[ModelCall, Completion, Plan]:
        setup, problem = self._setup, ""
        codes = [known.code for known in (*file_demonstrations(setup.demonstrations), *self._shown)]
        # The code of demonstrations shows the functions that guards of this agent call; without any, the topic decides.
        functions = select(setup.toolbox, () if codes else (setup.request, setup.specification), codes)
        for _ in range(1 + setup.debug_rounds):
            try:
                data = {**self._run_data(), "problem": problem}
                answer = yield from self._ask("plan", data, functions, self._temperature)
                return read_plan(answer)
            except AnswerError as error:
                problem = self._reject(error)
        raise AnswerError(f"the model gave no usable plan in {1 + setup.debug_rounds} tries; the last error: {problem}")

    def _code(self, plan: Plan) -> Generator[ModelCall, Completion, Verdict]:
        code = error = problem = ""
        for _ in range(1 + self._setup.debug_rounds):
            try:
                code = yield from self._program(plan, code, error, problem)
            except AnswerError as answer_error:
                problem = self._reject(answer_error, NO_PROGRAM)
                continue
            verdict = self._run(code, plan.engine)
            if not verdict.errors:
                return self._accept(verdict, plan, code)
            error, problem = "; ".join(verdict.errors), ""
            self._denied += verdict.violations
        tries = 1 + self._setup.debug_rounds
        return unchecked_verdict(
            f"no version of the code ran to completion in {tries} tries; the last error: {problem or error}",
            checked_by=CHECKED_BY,
            violations=self._denied,
        )

    def _program(self, plan: Plan, code: str, error: str, problem: str) -> Generator[ModelCall, Completion, str]:
        """Has the model write the code, or repair it after a failure or an unusable answer."""
        data = {**self._run_data(), "plan": plan.text}
        functions = select(self._setup.toolbox, names=[code, *(shown.code for shown in self._shown)]).with_plan(
            plan.text
        )
        if error or problem:
            data |= {"code": code, "error": error, "problem": problem}
        return read_code((yield from self._ask("debug" if error or problem else "code", data, functions)))

    def _run(self, code: str, engine: str) -> Verdict:
        from guardagent.sandbox.gate import admit

        setup, recorder = self._setup, Recorder(self._setup.toolbox)
        kind, admitted = None, False
        try:
            admit(code, frozenset(setup.toolbox))
            admitted = True
            verdict = run_program(
                code,
                setup.engine(engine),
                recorder,
                self._event,
                self._context,
                checked_by=CHECKED_BY,
                needs_check=setup.needs_check,
            )
        except (ProgramError, LimitError) as error:
            verdict, kind = failure_verdict(error, recorder, CHECKED_BY), error_kind(error, passed_gate=admitted)
        except SandboxError as error:  # no code of any model could run here
            self._add_step("run", text=code, error=str(error))
            raise
        self._add_step("run", text=code, error="; ".join(verdict.errors) or None, kind=kind, calls=verdict.calls)
        return verdict

    def _accept(self, verdict: Verdict, plan: Plan, code: str) -> Verdict:
        """Returns the verdict of code that ran. It cannot allow a run that a check denied in an earlier version."""
        if verdict.label == 0 and self._denied:
            messages = "; ".join(violation.message for violation in self._denied)
            error = (
                f"a check denied the run in an earlier version of the code ({messages}), but the last version allows it"
            )
            return unchecked_verdict(error, checked_by=CHECKED_BY, violations=self._denied, calls=verdict.calls)
        event = self._event
        self.demonstration = Demonstration(event.args["input"], event.output, plan.steps, code)
        return verdict

    def _ask(
        self, name: StepName, data: dict[str, Any], functions: FunctionSelection, temperature: float = 0.0
    ) -> Generator[ModelCall, Completion, str]:
        """Returns the model's answer. A request for function descriptions gets the same prompt with these added."""
        while True:
            answer = yield from self._answer(name, data, functions, temperature)
            more = functions.with_requested(answer)
            if more is None:
                return answer
            functions = more

    def _answer(
        self, name: StepName, data: dict[str, Any], functions: FunctionSelection, temperature: float
    ) -> Generator[ModelCall, Completion, str]:
        setup = self._setup
        shared = {"demonstrations": [_shot(shown, with_code=name != "plan") for shown in self._shown]}
        trusted = {"request": setup.request, "specification": setup.specification, **functions.prompt_data}
        prompt = setup.prompts.render(name, data, shared, **trusted)
        try:
            answer = yield ModelCall(prompt, temperature, self._vote, self._redaction.nonce)
        except GuardError as error:
            self._add_step(name, prompt=prompt.messages, error=str(error))
            raise
        self._add_step(name, prompt=prompt.messages, text=answer.text)
        return answer.text

    def _run_data(self) -> dict[str, Any]:
        """Returns the prompt data of the run."""
        facts = thaw(self._context.facts)
        return {
            "agent_input": self._event.args["input"],
            "agent_output": self._event.output,
            "facts": json.dumps(facts, ensure_ascii=False, default=str) if facts else "",
        }

    def _reject(self, error: AnswerError, kind: str | None = None) -> str:
        """Records that the last answer is unusable, and returns the reason."""
        self._story[-1] = replace(self._story[-1], error=str(error), kind=kind)
        return str(error)

    def _add_step(self, name: StepName, **values: Any) -> None:
        self._story.append(Step(name, vote=self._vote, **values))

    def _unredacted(self, verdict: Verdict) -> Verdict:
        """Returns the verdict with redacted values restored. Its story and calls keep the placeholders."""
        show = self._redaction.restore
        parts = ("policy", "message", "evidence")
        violations = tuple(replace(v, **{name: show(getattr(v, name)) for name in parts}) for v in verdict.violations)
        texts = {name: tuple(show(getattr(verdict, name))) for name in ("reasons", "errors")}
        details, answer = freeze(show(verdict.details)), show(verdict.answer)
        return verdict.changed(**texts, violations=violations, details=details, answer=answer)


def _shot(shown: Demonstration, *, with_code: bool) -> dict[str, str]:
    """Returns the prompt data of a demonstration in the form of an answer, without code for planning (Section 4.2)."""
    plan = "\n".join([*(f"{number}. {step}" for number, step in enumerate(shown.plan, start=1)), "Engine: auto"])
    texts = {"agent_input": shown.agent_input, "agent_output": shown.agent_output, "plan": plan}
    return {**texts, "code": shown.code} if with_code else texts


# --- the baseline


@dataclass(frozen=True)
class ModelBaseline:
    """A model that judges from the instructions, the demonstrations (without code) and the run.

    Attributes:
        setup: the configuration; only the code of demonstrations uses the toolbox and the sandbox.
        free_form: omit the instruction on how to judge (the paper's Appendix L, where many answers are code).
    """

    setup: GenerationSetup
    free_form: bool = False

    def flow(self, event: Event, context: Context) -> Flow:
        """Returns the flow that computes the model's verdict."""
        setup, facts = self.setup, thaw(context.facts)
        query = Query(event.args["input"], event.output, setup.shots, setup.least_similar, setup.max_distance)
        demonstrations = [neighbour.demonstration for neighbour in nearest(setup.demonstrations, query)]
        data = {
            "agent_input": event.args["input"],
            "agent_output": event.output,
            "facts": json.dumps(facts, ensure_ascii=False, default=str) if facts else "",
        }
        shared = {"demonstrations": [self._shot(shown) for shown in file_order(demonstrations, setup.demonstrations)]}
        template = "judge_freely" if self.free_form else "judge"
        prompt = setup.prompts.render(template, data, shared, request=setup.request, specification=setup.specification)
        step = Step("judge", prompt=prompt.messages)
        try:
            answer = yield ModelCall(prompt)
            step = replace(step, text=answer.text)
            verdict = claimed_verdict(copy_value(read_judgement(answer.text)), CHECKED_BY)
        except GuardError as error:
            step = replace(step, error=str(error))
            verdict = unchecked_verdict(str(error), checked_by=CHECKED_BY)
        return replace(verdict, story=(step,))

    def _shot(self, shown: Demonstration) -> dict[str, str]:
        """Returns the prompt data of a demonstration: its reasoning, and the judgement of its code."""
        texts = {"agent_input": shown.agent_input, "agent_output": shown.agent_output}
        if self.free_form:
            return {**texts, "plan": "", "judgement": ""}
        steps = "\n".join(f"{number}. {step}" for number, step in enumerate(shown.plan[:-1], start=1))
        return {**texts, "plan": steps, "judgement": json.dumps(self._judgement(shown), ensure_ascii=False)}

    def _judgement(self, shown: Demonstration) -> Mapping[str, Any]:
        check = program_check(shown.code, self.setup.engine("auto"), self.setup.toolbox)
        verdict = check(Event("agent_run", args={"input": shown.agent_input}, output=shown.agent_output), Context())
        if verdict.errors:
            raise ProgramError(
                f"the code of a demonstration does not run, so its judgement is unknown: {verdict.errors[0]}"
            )
        judged = verdict.to_dict()
        return {name: judged[name] for name in ("label", "reasons", "details", "answer")}


# --- votes

TEMPERATURE = 0.7  # for several plans; a single plan uses 0


def vote_verdict(
    setup: GenerationSetup, event: Event, context: Context, votes: int
) -> Generator[ModelCall, Completion, tuple[Verdict, Demonstration | None]]:
    """Returns the agreed verdict of `votes` generations, and the demonstration to learn from it.

    The decision is the most severe one that at least half of the votes reach or exceed. A vote that could not be
    checked counts as a denial.
    """
    temperature = TEMPERATURE if votes > 1 else 0.0
    generations = [Generation(setup, event, context, vote=vote, temperature=temperature) for vote in range(votes)]
    verdicts = []
    for generation in generations:
        verdict = yield from generation.flow()
        verdicts.append(verdict)
    if votes == 1:
        return verdicts[0], generations[0].demonstration
    chosen = representative(verdicts)
    verdict = replace(
        verdicts[chosen],
        details=freeze({**verdicts[chosen].details, "votes": [str(verdict.decision) for verdict in verdicts]}),
        story=tuple(step for verdict in verdicts for step in verdict.story),
        calls=tuple(call for verdict in verdicts for call in verdict.calls),
    )
    return verdict, generations[chosen].demonstration


def representative(verdicts: Sequence[Verdict]) -> int:
    """Returns the index of a verdict with the agreed decision: without errors, then with the most common answer."""
    decision = _agreed_decision([verdict.decision for verdict in verdicts])
    reached = [place for place, verdict in enumerate(verdicts) if verdict.decision == decision]
    answers = Counter(verdicts[place].answer for place in reached)
    return min(reached, key=lambda place: (bool(verdicts[place].errors), -answers[verdicts[place].answer], place))


def _agreed_decision(decisions: Sequence[Decision]) -> Decision:
    half = len(decisions) / 2
    reached = [decision for decision in decisions if sum(other >= decision for other in decisions) >= half]
    return max(reached, key=lambda decision: decision.severity)
