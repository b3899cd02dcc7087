"""The guard: judges a finished run of a target agent from its input and its output log.

For a known agent with a guard program, the program decides, in the sandbox. Otherwise a model writes the code for this
run (paper, Sections 4.2 and 4.3). Either way, the checks that the agent's specification requires are run.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, Unpack, cast, get_args

from guardagent._support.execution import combine, deny_on_crash, deny_on_crash_flow, fold
from guardagent._support.files import MAX_BYTES, shipped_folder
from guardagent.errors import GuardError, InputError, UnknownNameError
from guardagent.models import LazyModel, Model, load_model, require_timeout
from guardagent.models.chat import Flow, adrive, drive
from guardagent.models.metering import Meter, ResponseCache
from guardagent.models.prompts import Prompts
from guardagent.models.redaction import Redactor
from guardagent.programs.generation import CHECKED_BY, GenerationSetup, vote_verdict
from guardagent.programs.lock import Lock, agents, toolboxes
from guardagent.programs.lock import prompts as templates_of
from guardagent.programs.memory.agents import Memory
from guardagent.programs.memory.learning import Remember, learner
from guardagent.programs.memory.review import Shadow, shadow_folder
from guardagent.programs.program import is_undecided, program_check, required_check
from guardagent.programs.program_file import staleness
from guardagent.sandbox import Engines, Sandbox
from guardagent.sandbox.toolbox import Toolbox
from guardagent.types import Check, Context, Decision, Event, Verdict, unchecked_verdict

if TYPE_CHECKING:
    from guardagent.programs.compile import CompiledProgram

Mode = Literal["auto", "program", "generate"]
OnError = Literal["deny", "escalate", "raise"]

_log = logging.getLogger("guardagent")

_RUN = "agent_run"
_CONTENT = (".py", ".md", ".jsonl", ".url")


class GuardOptions(TypedDict, total=False):
    """The options of `GuardAgent` that `guard` passes on."""

    timeout: float | None
    toolbox: Toolbox | Path | str | Sequence[Path | str] | None
    memory: Path | str | None
    shots: int
    max_distance: float | None
    debug_rounds: int
    votes: int
    prompts: Path | str | None
    redact: Mapping[str, str] | Sequence[str]
    max_cost: float | None
    cache: Path | str | None
    remember: Remember
    sandbox: Sandbox | str
    on_error: OnError
    require_hardening: bool
    locked: Path | str | None
    shadow: float


class GuardAgent:
    """A guard for one target agent. Immutable after it is made, and safe to share between threads.

    Args:
        request: the guard request in natural language. May be empty if `agent` has one.
        specification: a description of the target agent: its task, input and output.
        agent: the name of a known agent: a folder under `memory`, then under the shipped memory.
        model: the model that writes code if there is no program: a name such as `openai/gpt-4.1`, or an object with
            a method `complete`; default: `GUARDAGENT_MODEL`, else none.
        timeout: seconds for one answer of a model given by name, including waits and retries; default: 120.
        toolbox: a Toolbox, or one or more folders of functions to add to the shipped ones.
        memory: a folder with one folder per agent.
        shots: the number of demonstrations in a prompt.
        max_distance: the greatest distance between run and demonstration, from 0 (equal) to 1 (nothing in common);
            more distant ones are left out, which the verdict's story records.
        debug_rounds: the number of attempts of a model to correct an unusable answer, or code that does not run.
        votes: the number of plans; the most severe verdict that at least half of them reach stands.
        prompts: a folder of templates that override the shipped ones.
        redact: patterns of values that no model may see: a list, or name -> regular expression.
        max_cost: the cap on the model cost of one check, in US dollars.
        cache: a folder for the models' answers, so that the same request is paid for once.
        remember: add a model's code to the agent's demonstrations after its execution: `no`, `review` (once a reviewer
            has confirmed it: `guardagent memory review`) or `always`.
        sandbox: the engine that runs programs: a name, `auto`, or the caller's own object.
        mode: `program` never calls a model, `generate` always does, `auto` only if there is no program.
        on_error: the treatment of a run that could not be checked: `deny`, `escalate` (to a reviewer) or `raise`.
        require_hardening: deny if the operating system cannot confine the sandbox's workers (`guardagent doctor`).
        locked: a lock file (`guardagent lock`): content that differs from it does not run.
        shadow: the share of runs, from 0 to 1, that are judged again in the background: by a model if a program
            decided, and the reverse. No verdict changes; disagreements go to `guardagent memory review`.

    Raises:
        InputError: the agent, a content file or an option is wrong.
    """

    def __init__(
        self,
        request: str | None = "",
        specification: str = "",
        *,
        agent: str | None = None,
        model: Model | str | None = None,
        timeout: float | None = None,
        toolbox: Toolbox | Path | str | Sequence[Path | str] | None = None,
        memory: Path | str | None = None,
        shots: int = 3,
        max_distance: float | None = None,
        debug_rounds: int = 3,
        votes: int = 1,
        prompts: Path | str | None = None,
        redact: Mapping[str, str] | Sequence[str] = (),
        max_cost: float | None = None,
        cache: Path | str | None = None,
        remember: Remember = "no",
        sandbox: Sandbox | str = "auto",
        mode: Mode = "auto",
        on_error: OnError = "deny",
        require_hardening: bool = False,
        locked: Path | str | None = None,
        shadow: float = 0.0,
    ) -> None:
        _require_choice("mode", mode, get_args(Mode))
        _require_choice("on_error", on_error, get_args(OnError))
        _require_choice("remember", remember, get_args(Remember))
        _require_int("shots", shots, 0)
        _require_share("max_distance", max_distance)
        _require_int("debug_rounds", debug_rounds, 0)
        _require_int("votes", votes, 1)
        _require_cost("max_cost", max_cost)
        self.toolbox = toolbox if isinstance(toolbox, Toolbox) else Toolbox.load(*_folders(toolbox))
        self.known_agent = Memory(*([memory] if memory else [])).agent(agent) if agent else None
        self.request = (request or "").strip() or (self.known_agent.request if self.known_agent else "")
        self.specification = (specification or "").strip() or (
            self.known_agent.specification if self.known_agent else ""
        )
        if not self.request:
            raise InputError("no guard request; expected one in natural language, or the name of a known agent")
        self.mode = mode
        self.on_error = on_error
        templates = Prompts(prompts)
        if locked is not None:
            self._require_locked(Lock.load(locked), templates, asks=mode != "program" or bool(shadow))
        self._locked = Path(locked) if locked is not None else None
        self.model = self._active_model = _model(mode, model, timeout, later=self.program is not None)
        self._votes = votes
        self._max_cost = max_cost
        self._cache = ResponseCache(cache) if cache else None
        self._engines = Engines(sandbox, require_hardening=require_hardening)
        self.setup = GenerationSetup(
            self.request,
            self.specification,
            self.toolbox,
            self._engines.get,
            templates,
            self.known_agent.demonstrations if self.known_agent else (),
            shots=shots,
            max_distance=max_distance,
            debug_rounds=debug_rounds,
            redactor=Redactor(redact),
        )
        self._learn = learner(remember, self.known_agent)
        for required in self.known_agent.required if self.known_agent else ():
            required.bind(self.toolbox)
        _ = self.toolbox.functions  # a toolbox file must fail now, not in a check
        self._shadow = self._make_shadow(shadow, model, timeout)

    def guard(self, input: str, output_log: str, facts: Mapping[str, Any] | None = None) -> Verdict:  # noqa: A002
        """Judges one run: label 0 and the answer if it may pass, else label 1 and the reasons.

        Args:
            input: the user's request to the agent.
            output_log: the agent's steps and answer.
            facts: the host's knowledge of the user (a role, a profile), which overrides anything in the strings.

        Returns:
            The verdict. A run that could not be checked is denied, with the cause in `errors`.

        Raises:
            GuardError: the run could not be checked; only with `on_error="raise"`.
        """
        verdict = drive(deny_on_crash_flow(self._flow(input, output_log, facts)), self.meter())
        return self._apply_on_error(self._sampled(verdict, input, output_log, facts))

    async def aguard(self, input: str, output_log: str, facts: Mapping[str, Any] | None = None) -> Verdict:  # noqa: A002
        """Judges one run like `guard`, without blocking the event loop."""
        verdict = await adrive(deny_on_crash_flow(self._flow(input, output_log, facts)), self.meter())
        return self._apply_on_error(self._sampled(verdict, input, output_log, facts))

    @property
    def program(self) -> str | None:
        """The guard program that decides, or None if a model is needed."""
        if self.mode == "generate" or self.known_agent is None or self._differs_from_known or self.stale:
            return None
        return self.known_agent.program

    @cached_property
    def stale(self) -> str:
        """The reason why the agent's program may no longer decide; empty if it may, or there is none."""
        stored = self.known_agent.program_file if self.known_agent else None
        if self.known_agent is None or stored is None or stored.header is None:
            return stored.problem if stored else ""
        return staleness(stored.header, self.known_agent.request, self.known_agent.whole_specification, self.toolbox)

    @cached_property
    def sources(self) -> tuple[Path, ...]:
        """The files and folders that this guard was built from."""
        folders = {tool.path.parent for tool in self.toolbox.values()} | (
            {self.known_agent.path} if self.known_agent else set()
        )
        files = {path for folder in folders for path in folder.rglob("*") if path.suffix in _CONTENT}
        files |= {self._locked} if self._locked else set()
        files |= set(self.setup.prompts.sources) if self._active_model or self._locked else set()
        return tuple(sorted(folders | files))

    @cached_property
    def source_names(self) -> tuple[str, ...]:
        """The paths of those that may change; the shipped toolbox changes as the package's own code does."""
        shipped = shipped_folder("toolbox")
        return tuple(str(path) for path in self.sources if not path.is_relative_to(shipped))

    def compile(
        self,
        examples: Path | str | Iterable[Mapping[str, Any]],
        *,
        candidates: int = 1,
        rounds: int = 3,
        without: Iterable[str] = (),
        inputs: int = 2000,
        accept_disputes: Iterable[str] = (),
        properties: bool = True,
        hold_out: float | None = None,
    ) -> CompiledProgram:
        """Compiles one program for all runs of the agent, written by the model and tested: it calls no model.

        Args:
            examples: labelled runs, as a JSON Lines file or as records.
            candidates: the number of programs that are written and compared.
            rounds: the number of times that a failing program goes back to the model.
            without: transformations of the examples to leave out.
            inputs: the number of random runs on which properties are tested.
            accept_disputes: the ids of disputes decided for the model: these examples and clauses are left out.
            properties: whether each clause must have a property, or a reason why it has none.
            hold_out: the share of the examples that no model sees; None for a fifth of 20 or more.

        Raises:
            NotCompiledError: no program passed; its report has the failures.
            InputError: an example or an option is wrong.
            ModelError: no model is configured, or it did not answer.
        """
        from guardagent.programs.compile import CompileContext, CompileTarget, NotCompiledError, compile_program

        known = self.known_agent if self.known_agent and not self._differs_from_known else None
        required, data, name = (known.required, known.data, known.name) if known else ((), {}, "")
        subject = CompileTarget(self.request, self.specification, self.toolbox, required, data, name)
        means = CompileContext(
            self.meter(), self._engines.get("auto"), self.setup.prompts, self.setup.redactor.redaction()
        )
        options: dict[str, Any] = {"candidates": candidates, "rounds": rounds, "without": without, "inputs": inputs}
        options |= {"accept_disputes": accept_disputes, "properties": properties, "hold_out": hold_out}
        result = compile_program(subject, examples, means, **options)
        if result.program is None:
            raise NotCompiledError(result.report)
        return result.program

    def close(self) -> None:
        """Ends the sandbox workers that are kept warm; the guard can be used again afterwards.

        Waits for the runs that `shadow` still judges again.
        """
        if self._shadow is not None:
            self._shadow.wait()
        self._engines.close()
        close = getattr(self._active_model, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def meter(self) -> Meter:
        """Returns a new usage account for one check."""
        return Meter(self.model, self._max_cost, self._cache)

    def _flow(self, agent_input: str, output_log: str, facts: Mapping[str, Any] | None) -> Flow:
        """Judges a run with the program if there is one, else with code that a model writes for it."""
        _require_text("input", agent_input)
        _require_text("output_log", output_log)
        if not isinstance(facts, Mapping | None):
            raise InputError(f"'facts' is a {type(facts).__name__}; expected a mapping of names to values")
        name = self.known_agent.name if self.known_agent else None
        run = Event(_RUN, args={"input": agent_input}, output=output_log, agent=name)
        context = Context(facts=facts or {})
        if self.program is not None:
            verdict = self._program_check(run, context)
            if not (is_undecided(verdict) and self.model):
                return verdict
        return (yield from self._generated(run, context))

    def _generated(self, run: Event, context: Context) -> Flow:
        if self.obstacle:
            return unchecked_verdict(self.obstacle, checked_by=CHECKED_BY)
        verdict, demonstration = yield from vote_verdict(self.setup, run, context, self._votes)
        for required in self._required:
            verdict = combine(verdict, deny_on_crash(required)(run, context))
        if demonstration is not None and not verdict.errors:
            self._learn(demonstration, verdict)
        return verdict

    @cached_property
    def _program_check(self) -> Check:
        assert self.program is not None
        return fold([program_check(self.program, self._engines.get("auto"), self.toolbox), *self._required])

    @cached_property
    def _required(self) -> list[Check]:
        known = self.known_agent
        return [required_check(check, self.toolbox, known.data) for check in known.required] if known else []

    @cached_property
    def _differs_from_known(self) -> bool:
        """Whether the request or specification differs from the one that the known agent's program implements."""
        assert self.known_agent is not None
        same_request = _normalized(self.request) == _normalized(self.known_agent.request)
        return not same_request or _normalized(self.specification) != _normalized(self.known_agent.specification)

    @property
    def obstacle(self) -> str:
        """The reason why no run can be judged, and the fix; empty if there is a program or a model."""
        if self.program is not None or (self.model and self.mode != "program"):
            return ""
        if self.known_agent is None:
            cause = "no agent is named, so there is no guard program"
        elif self.mode == "generate":
            cause = "mode 'generate' calls a model and uses no program"
        elif self._differs_from_known:
            cause = (
                f"the program of agent {self.known_agent.name!r} was written for another request or specification; "
                f"leave them out to use those in '{self.known_agent.path}'"
            )
        elif self.stale:
            cause = (
                f"the program of agent {self.known_agent.name!r} is stale and does not decide: {self.stale}; "
                f"compile it again: 'guardagent compile --agent {self.known_agent.name} --examples FILE "
                f"-o {self.known_agent.program_path}'"
            )
        else:
            cause = f"agent {self.known_agent.name!r} has no program; expected '{self.known_agent.program_path}'"
        if self.mode == "program":
            return f"{cause}; mode 'program' calls no model"
        return f"{cause}; and no model is configured: pass 'model' or set 'GUARDAGENT_MODEL'"

    def _require_locked(self, lock: Lock, templates: Prompts, *, asks: bool) -> None:
        """Makes sure that the content matches the lock file, before any of it runs."""
        lock.require(toolboxes(self.toolbox))
        if self.known_agent is not None:
            lock.require(agents(self.known_agent.path))
        if asks:
            lock.require(templates_of(*templates.effective_files))

    def _make_shadow(self, rate: float, model: Model | str | None, timeout: float | None) -> Shadow | None:
        """Returns the judge that repeats runs with a copy of this guard in another mode; None if it is off."""
        folder = shadow_folder(rate, self.known_agent)
        if folder is None:
            return None
        self._active_model = self.model or _model("generate", model, timeout, later=True)
        program, generated = self._in_mode("program", None), self._in_mode("generate", self._active_model)
        if self.stale:
            _log.warning("shadow is off: the program is stale (%s)", self.stale)
            return None
        if obstacle := program.obstacle or generated.obstacle:
            raise InputError(f"'shadow' needs both a program and a model: {obstacle}")
        return Shadow(folder, rate, {"program": program.guard, "generated": generated.guard}, self.setup.redactor)

    def _in_mode(self, mode: Mode, model: Model | None) -> GuardAgent:
        """Returns a copy of this guard in another mode, without learning or shadow."""
        other = copy.copy(self)
        vars(other).update(mode=mode, model=model, on_error="deny", _learn=learner("no", None), _shadow=None)
        return other

    def _sampled(self, verdict: Verdict, agent_input: str, output_log: str, facts: Mapping[str, Any] | None) -> Verdict:
        """Returns the verdict unchanged, and schedules a sample of the runs to be judged again."""
        if self._shadow is not None:
            decided_by = "generated" if verdict.story or self.program is None else "program"
            self._shadow.observe(agent_input, output_log, facts, decided_by, verdict)
        return verdict

    def _apply_on_error(self, verdict: Verdict) -> Verdict:
        if not verdict.errors or self.on_error == "deny":
            return verdict
        if self.on_error == "raise":
            raise GuardError("; ".join(verdict.errors))
        return replace(verdict, decision=max(verdict.decision, Decision.ESCALATE))


def guard(
    request: str | None,
    input: str,  # noqa: A002
    output_log: str,
    specification: str = "",
    facts: Mapping[str, Any] | None = None,
    agent: str | None = None,
    model: Model | str | None = None,
    mode: Mode = "auto",
    **options: Unpack[GuardOptions],
) -> Verdict:
    """Judges one run of a target agent; `options` are the other options of `GuardAgent`."""
    return _cached_guard(request, specification, agent, model, mode, options).guard(input, output_log, facts)


async def aguard(
    request: str | None,
    input: str,  # noqa: A002
    output_log: str,
    specification: str = "",
    facts: Mapping[str, Any] | None = None,
    agent: str | None = None,
    model: Model | str | None = None,
    mode: Mode = "auto",
    **options: Unpack[GuardOptions],
) -> Verdict:
    """Judges one run like `guard`, without blocking the event loop."""
    shared = await asyncio.to_thread(_cached_guard, request, specification, agent, model, mode, options)
    return await shared.aguard(input, output_log, facts)


def judge_with(program: str, sandbox: Sandbox, toolbox: Toolbox) -> Callable[[str, str, Mapping[str, Any]], Verdict]:
    """Returns a function of (input, output log, facts) that judges runs with one program.

    Raises:
        ContentError: a toolbox file fails when it runs.
    """
    _ = toolbox.functions
    check = deny_on_crash(program_check(program, sandbox, toolbox))

    def judge(agent_input: str, output_log: str, facts: Mapping[str, Any]) -> Verdict:
        return check(Event(_RUN, args={"input": agent_input}, output=output_log), Context(facts=facts))

    return judge


_guards: dict[Any, tuple[GuardAgent, Any]] = {}
_guards_lock = threading.Lock()
_MAX_GUARDS = 64


def _cached_guard(*key: Any) -> GuardAgent:
    """Returns the guard for these arguments of `guard`, and rebuilds it only if its files have changed."""
    request, specification, agent, model, mode, options = key
    name = _identity((key, os.environ.get("GUARDAGENT_MODEL")))
    with _guards_lock:
        cached, old_fingerprint = _guards.get(name, (None, None))
    if cached is not None and _fingerprint(cached) == old_fingerprint:
        return cached
    started = time.time_ns()
    cached = GuardAgent(request, specification, agent=agent, model=model, mode=mode, **options)
    fingerprint = _fingerprint(cached)
    if all(status and status[0] < started for status in fingerprint):  # otherwise a file changed while it was read
        with _guards_lock:
            if len(_guards) >= _MAX_GUARDS:
                _guards.clear()
            _guards[name] = cached, fingerprint
    return cached


def _identity(value: Any) -> Any:
    """Returns a cache key for an argument: its value if it is plain, else the id of the object."""
    if value is None or type(value) is str:  # most of them; a check for Mapping is slow
        return value
    if isinstance(value, Mapping):
        return ("mapping", tuple([(_identity(key), _identity(item)) for key, item in value.items()]))
    if isinstance(value, list | tuple):
        return (type(value).__name__, tuple(map(_identity, value)))
    return (type(value).__name__, value if isinstance(value, str | int | float | Path | None) else id(value))


def _fingerprint(agent: GuardAgent) -> tuple[tuple[int, int] | None, ...]:
    """Returns (modification time, size) of each source file of the guard; None for a missing one."""
    return tuple(map(_stat, agent.source_names))


def _stat(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - before each check, for each file
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _folders(toolbox: Path | str | Sequence[Path | str] | None) -> Sequence[Path | str]:
    return (toolbox,) if isinstance(toolbox, Path | str) else toolbox or ()


def _require_choice(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UnknownNameError(option, str(value), known)


def _model(mode: Mode, model: Model | str | None, timeout: float | None, *, later: bool) -> Model | None:
    """Returns the model for runs that no program decides; with `later` it loads at the first request."""
    if timeout is not None:
        require_timeout(timeout)
    if mode == "program":
        return None
    chosen = model or os.environ.get("GUARDAGENT_MODEL") or None
    if timeout is not None and not isinstance(chosen, str):
        raise InputError("'timeout' is for a model given by name; set that of a custom model on the model")
    if not isinstance(chosen, str):
        return chosen
    load = partial(load_model, chosen, **({} if timeout is None else {"timeout": timeout}))
    return cast("Model", LazyModel(load)) if later else load()


def _require_int(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or value < least:
        raise InputError(f"{name!r} is {value!r}; expected an integer of at least {least}")


def _require_cost(name: str, value: object) -> None:
    """Rejects a cap that would never be reached, NaN included."""
    if value is not None and not (isinstance(value, int | float) and 0 <= value < math.inf):
        raise InputError(f"{name!r} is {value!r}; expected US dollars, or None for no cap")


def _require_share(name: str, value: object) -> None:
    if value is not None and not (isinstance(value, int | float) and 0 <= value <= 1):
        raise InputError(f"{name!r} is {value!r}; expected a number from 0 to 1, or None for no limit")


def _require_text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise InputError(f"{name!r} is a {type(value).__name__}; expected a string")
    if not value.strip():
        raise InputError(f"{name!r} is empty; expected text")
    if len(value) > MAX_BYTES:
        raise InputError(f"{name!r} has {len(value):,} characters; expected at most {MAX_BYTES:,}")


def _normalized(text: str) -> str:
    return " ".join(text.split())
