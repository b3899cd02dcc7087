"""smolagents: `agent = guarded(agent, guard)`.

    guarded(agent, guard)    the tools and managed agents of a ToolCallingAgent or a CodeAgent, in place
    conversation(id)         names the conversation of the runs inside it
    AgentHalted              raised by `agent.run` when a rule halts the run

Extra: `guardagent[smolagents]`.

A final answer is judged before the user sees it: as one of the agent's `final_answer_checks`. The class of a guarded
agent is a subclass of the original class. The executor of generated code gets guarded functions only.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from typing import Any, TypeVar

from guardagent._support.requirements import require, require_parts
from guardagent.frameworks.smolagents.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA, TRIED)

from smolagents import ActionOutput, CodeAgent, FinalAnswerTool, MultiStepAgent, Tool
from smolagents.local_python_executor import BASE_PYTHON_TOOLS, ExecutionTimeoutError, LocalPythonExecutor
from smolagents.memory import ActionStep, FinalAnswerStep, PlanningStep, ToolCall
from smolagents.models import ChatMessageStreamDelta
from smolagents.utils import AgentError, AgentGenerationError, AgentToolExecutionError

from guardagent._support.execution import drive
from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.enforcement.calls import REPEATED_ID, REPEATS, make_ids_unique
from guardagent.enforcement.host_adapter import NO_APPROVER, HostAdapter, answer_text, last_user_text, withheld
from guardagent.enforcement.host_runs import Named
from guardagent.enforcement.tool_arguments import finished
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.smolagents.adapter.calls import (
    DEEPEST,
    SURROUNDINGS,
    UNNAMED,
    AgentHalted,
    SmolagentsArguments,
    SmolagentsInvocation,
    SmolagentsRun,
    SmolagentsScope,
    SmolagentsTool,
    call_key,
    chat,
    code_function,
    conversation,
    enter,
    is_code_function,
    scope,
    value_copy,
)
from guardagent.types import Verdict, unchecked_verdict

__all__ = ["AgentHalted", "conversation", "guarded"]

# --- final answers


class AnswerCheck:
    """A check of `final_answer_checks`: a denied answer goes back to the model."""

    __name__ = "guardagent"

    def __init__(self, guard: EnforcementPoint) -> None:
        self.guard = guard

    def __call__(self, final_answer: Any, memory: Any, agent: Any) -> bool:  # noqa: ARG002 - the host's arguments
        verdict = denial(self.guard, final_answer, agent)
        if verdict is not None:
            around = scope()
            if around is not None and around.run is not None:
                around.run.note_denied_answer(verdict)
            raise ToolDenied("final_answer", verdict)
        return True


def denial(guard: EnforcementPoint, answer: Any, agent: Any) -> Verdict | None:
    """Returns the verdict that denies a run's final answer; None if the user may see it."""
    around = scope()
    if not guard.judges_answers or (around is not None and around.call is not None):
        return None  # a managed agent's answer is for the agent that called it
    run = around.run if around is not None else None
    if run is not None and run.final is not None and answer == run.final:
        return None
    if (kind := _class_of_code(answer)) is not None:
        problem = f"the answer has a {kind.__name__}, a class of the code, which may read as anything; use plain values"
        return unchecked_verdict(problem, checked_by="policy")
    conversation = (around.conversation if around is not None else None) or ""
    verdict = guard.answer(conversation, last_user_text(chat(agent.memory.steps)), answer_text(answer))
    return verdict if verdict.label else None


def without_answer(guard: EnforcementPoint, message: Any, agent: Any) -> Any:
    """Returns the model's last answer after its last step, or the reason why it is withheld."""
    verdict = denial(guard, message.content, agent)
    if verdict is not None:
        message.content = withheld(verdict)
    return message


def _class_of_code(answer: Any) -> type | None:
    """Returns a class in an answer that no module has, as those that generated code makes; None if there is none."""
    waiting, seen = [answer], set[int]()
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if value is None or id(value) in seen:
            continue
        seen.add(id(value))
        if kind in (list, tuple, set, frozenset, dict):
            waiting += [*value, *value.values()] if kind is dict else value
            continue
        module: Any = sys.modules.get(str(kind.__module__))
        for name in kind.__qualname__.split("."):
            module = getattr(module, name, None)
        if module is not kind:
            return kind
    return None


def streamed(events: Generator[Any, None, None], around: SmolagentsScope, *, held: bool) -> Iterator[Any]:
    """Yields the events of a run, each made within its surroundings.

    Args:
        events: the run.
        around: its surroundings.
        held: whether its answer is judged. Then the events of a step come after the step, those of a failed one, whose
            answer may have been denied, not at all, and the model's text is not streamed.
    """
    waiting: list[Any] = []
    try:
        while True:
            with enter(around):
                try:
                    event = next(events)
                except StopIteration:
                    return
            if not held:
                yield event
            elif not isinstance(event, ChatMessageStreamDelta):
                waiting.append(event)
                if isinstance(event, ActionStep | PlanningStep | FinalAnswerStep):
                    yield from waiting if getattr(event, "error", None) is None else ()
                    waiting.clear()
    finally:
        events.close()


# --- the attachment

_TASK: Mapping[str, Any] = {"type": "object", "properties": {"task": {"type": "string"}, "additional_args": {}}}


class SmolagentsAttachment(HostAdapter[SmolagentsScope]):
    """One guard, and the agents that it guards.

    Attributes:
        unjudged: tool -> its unjudged arguments.
    """

    def __init__(self, guard: EnforcementPoint, named: Named, unjudged: Mapping[str, Collection[str]]) -> None:
        super().__init__(guard, SURROUNDINGS, named, UNNAMED)
        self.approval.report_missing(NO_APPROVER)
        self.unjudged = unjudged

    # --- agents and tools

    def guard_agent(self, agent: Any) -> None:
        """Guards an agent and those that it manages. Does nothing to what is guarded already."""
        if not isinstance(agent, MultiStepAgent):
            raise InputError(f"this is a {type(agent).__name__}; expected an agent of smolagents")
        owner: Any = getattr(agent, "guardagent_attachment", None)
        if self.is_new(owner, "this agent"):
            require_parts(agent, *PARTS)
            agent.__class__ = guarded_class(type(agent), self)
        elif owner is not self:
            self.listed.add(*owner.listed.specs.values())
        self._guard_parts(agent)

    def refresh(self, agent: Any) -> None:
        """Guards additions to an agent, and compares them with the rules.

        Raises:
            InputError: an addition cannot be guarded.
        """
        self._guard_parts(agent)
        self.listed.check()

    def _guard_parts(self, agent: Any) -> None:
        for name, tool in agent.tools.items():
            _require_name(name, tool)
            if not (isinstance(tool, SmolagentsTool) and tool.guardagent_adapter.guard is self.guard):
                agent.tools[name] = self._tool(tool)
        for name, managed in agent.managed_agents.items():
            _require_name(name, managed)
            if getattr(managed, "guardagent_attachment", None) is not self:
                self.guard_agent(managed)
            self.listed.add(ToolSpec(managed.name, _TASK, managed.description or "", unlisted_arguments=None))
        if isinstance(agent, CodeAgent):
            guard_executor(agent.python_executor, self)
        if not any(isinstance(check, AnswerCheck) for check in agent.final_answer_checks):
            agent.final_answer_checks = [*agent.final_answer_checks, AnswerCheck(self.guard)]

    def _tool(self, tool: Any) -> Any:
        """Returns the guarded form of a tool; the host's own `final_answer` only ends the run."""
        if type(tool) is FinalAnswerTool:
            return tool
        if isinstance(tool, SmolagentsTool):
            raise InputError(f"the tool {tool.name!r} has another guard already; expected the tool itself")
        if not isinstance(tool, Tool) or type(tool).__call__ is not Tool.__call__:
            raise InputError(
                f"the tool {getattr(tool, 'name', tool)!r} has a '__call__' of its own, so its calls cannot be judged; "
                "expected a Tool with its work in forward()"
            )
        arguments = SmolagentsArguments.of_tool(tool, self.unjudged.get(tool.name, ()))
        self.listed.add(arguments.spec)
        return SmolagentsTool(tool, arguments, self)

    def code_function(self, name: str, tool: Any) -> Callable[..., Any]:
        """Returns the guarded function that generated code calls for a tool, an agent or a function."""
        if isinstance(tool, MultiStepAgent):
            self.guard_agent(tool)
            _require_name(name, tool)
            return code_function(tool, name)
        if isinstance(tool, Tool):
            _require_name(name, tool)
        if isinstance(tool, SmolagentsTool) or type(tool) is FinalAnswerTool:
            return code_function(tool, name)
        return code_function(self._tool(tool), name) if isinstance(tool, Tool) else guarded_function(self, tool, name)

    def begin_run(self, agent: Any) -> SmolagentsScope:
        """Returns the surroundings of a new run: within a tool, those of the call."""
        return self.begin(lambda outer: SmolagentsRun(outer, agent=agent))


def _require_name(name: str, tool: Any) -> None:
    """Requires that the name by which the model calls a tool or an agent is the one by which it is judged.

    Raises:
        InputError: it has another name.
    """
    judged = tool.guardagent_arguments.spec.name if isinstance(tool, SmolagentsTool) else getattr(tool, "name", name)
    if name != judged:
        raise InputError(f"{judged!r} is called {name!r} here, and would be judged as {judged!r}; expected one name")


def guarded_function(attachment: SmolagentsAttachment, function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Returns the guarded form of one of the executor's `additional_functions`."""
    arguments = SmolagentsArguments.of_function(function, name, attachment.unjudged.get(name, ()))
    attachment.listed.add(arguments.spec)

    def work(**kwargs: Any) -> Any:
        return finished(name, function(**kwargs))

    def call(*args: Any, **kwargs: Any) -> Any:
        return SmolagentsInvocation(attachment, name, arguments.bind, args, kwargs).invoke(work)

    return code_function(call, name)


# --- agents

PARTS = ("run", "tools", "managed_agents", "memory", "final_answer_checks", "_step_stream", "provide_final_answer")


def guarded_class(base: type, attachment: SmolagentsAttachment) -> type:
    """Returns the class of an agent with a guard."""
    kinds: tuple[type, ...] = (_ToolCalling, _GuardedAgent) if hasattr(base, "execute_tool_call") else (_GuardedAgent,)
    return type(base.__name__, (*kinds, base), {"__module__": base.__module__, "guardagent_attachment": attachment})


class _GuardedAgent(MultiStepAgent):
    """Runs in a conversation, with guarded tools, and ends when its guard ends the run."""

    guardagent_attachment: SmolagentsAttachment

    def run(self, *args: Any, **kwargs: Any) -> Any:
        attachment = self.guardagent_attachment
        attachment.refresh(self)
        around = attachment.begin_run(self)
        with enter(around):
            result = super().run(*args, **kwargs)
        if not isinstance(result, Generator):
            return result
        return streamed(result, around, held=attachment.guard.judges_answers and around.call is None)

    def __call__(self, task: str, **kwargs: Any) -> Any:
        """Runs as another agent's tool: the call is judged."""
        name, arguments = str(self.name), {"task": task, **kwargs}

        def read(_: Any, named: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
            return value_copy(named, f"the arguments of {name}"), {}

        return SmolagentsInvocation(self.guardagent_attachment, name, read, (), arguments).invoke(super().__call__)

    def _step_stream(self, memory_step: Any) -> Iterator[Any]:
        self.guardagent_attachment.refresh(self)
        around = scope()
        if around is None or around.run is None or around.run.agent is not self:
            around = self.guardagent_attachment.begin_run(self)  # `agent.step`, called by hand
        run = around.run
        assert run is not None
        proposed = self.guardagent_attachment.proposed(around)
        run.begin_step(memory_step, proposed)
        yield from _ended(run) or streamed(self._guarded_step(run, proposed), around, held=False)

    def _guarded_step(self, run: SmolagentsRun, proposed: set[str]) -> Generator[Any, None, None]:
        memory_step, answered = run.memory_step, False
        try:
            for output in super()._step_stream(memory_step):
                if isinstance(output, ToolCall):
                    proposed.add(call_key(output))
                answered = answered or bool(getattr(output, "is_final_answer", False))
                if answered and run.halted is not None:  # code may have caught the halt
                    raise run.halted
                yield output
                if isinstance(output, ToolCall):
                    self.guardagent_attachment.refresh(self)  # whoever reads the stream may have changed the agent
        except AgentGenerationError:
            raise
        except AgentError as error:
            ended = _ended(run)
            if ended is None:
                raise
            memory_step.error = error
            yield from ended
        else:
            yield from (() if answered else _ended(run) or ())

    def provide_final_answer(self, *args: Any, **kwargs: Any) -> Any:
        return without_answer(self.guardagent_attachment.guard, super().provide_final_answer(*args, **kwargs), self)


def _no_arguments(*_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return {}, {}


class RepeatedArguments(dict[str, Any]):
    """The arguments of a call with a repeated id."""

    def __bool__(self) -> bool:  # the host replaces false ones
        return True


class _ToolCalling(MultiStepAgent):
    """An agent whose model calls tools in messages."""

    guardagent_attachment: SmolagentsAttachment

    def process_tool_calls(self, chat_message: Any, memory_step: Any) -> Iterator[Any]:
        around = scope()
        calls = chat_message.tool_calls or ()
        if around is not None and around.run is not None:
            around.run.parallel = len(calls) > 1
        for call, call_id in zip(calls, make_ids_unique(calls, "id"), strict=False):
            if REPEATED_ID.search(call_id):  # the host tells no tool the id of its call
                call.function.arguments = RepeatedArguments(arguments=call.function.arguments)
        return super().process_tool_calls(chat_message, memory_step)  # type: ignore[no-any-return]

    def execute_tool_call(self, tool_name: str, arguments: Any) -> Any:
        """Runs a call. A denial is an error of the step; of one of several calls, its output.

        An error of one of several calls would discard the outputs of the other calls.
        """
        self.guardagent_attachment.refresh(self)
        if isinstance(arguments, RepeatedArguments):
            invocation = SmolagentsInvocation(self.guardagent_attachment, tool_name, _no_arguments, (), {})
            return str(drive(invocation.refusal(REPEATS)))
        try:
            return super().execute_tool_call(tool_name, arguments)
        except AgentToolExecutionError as error:
            denied, around = error.__cause__, scope()
            if not isinstance(denied, ToolDenied):
                raise
            parallel = around is not None and around.run is not None and around.run.parallel
            if parallel and tool_name != "final_answer":
                return str(denied)
            raise AgentToolExecutionError(str(denied), self.logger) from denied


def _ended(run: SmolagentsRun) -> list[Any] | None:
    """Returns the output that ends a run, once its guard has ended it; else None.

    Raises:
        AgentHalted: a rule has halted the run.
    """
    if run.halted is not None:
        raise run.halted
    return None if run.final is None else [ActionOutput(output=run.final, is_final_answer=True)]


# --- the executor of generated code


def guard_executor(executor: Any, attachment: SmolagentsAttachment) -> None:
    """Guards the executor of a CodeAgent in place.

    Raises:
        InputError: the code runs elsewhere, where the tools are copies that no guard sees.
    """
    if not isinstance(executor, LocalPythonExecutor):
        raise InputError(
            f"a {type(executor).__name__} runs copies of the tools elsewhere, where no guard sees them; "
            "expected executor_type='local'"
        )
    if isinstance(executor, _GuardedPythonExecutor):
        attachment.is_new(executor.guardagent_attachment, "this executor")
        return
    require_parts(executor, "send_tools", "send_variables", "static_tools", "additional_functions", "timeout_seconds")
    executor.guardagent_attachment = attachment
    executor.guardagent_seconds, executor.timeout_seconds = executor.timeout_seconds, None
    base = type(executor)
    executor.__class__ = type(base.__name__, (_GuardedPythonExecutor, base), {"__module__": base.__module__})
    if executor.static_tools:
        executor.send_tools(executor.static_tools)


class _GuardedPythonExecutor(LocalPythonExecutor):
    """Gives code only guarded functions, and runs it in the context of its run."""

    guardagent_attachment: SmolagentsAttachment
    guardagent_seconds: float | None

    def send_tools(self, tools: Mapping[str, Any]) -> None:
        super().send_tools(dict(tools))
        self._replace_tools()

    def send_variables(self, variables: Mapping[str, Any]) -> None:
        """Adds variables of the code. A function in one would be a tool that no guard sees.

        Raises:
            InputError: one is a function, or a collection that holds one.
        """
        for name, value in variables.items():
            if _holds_function(value):
                raise InputError(f"the variable {name!r} has a function, which no guard would see; pass it as a tool")
        super().send_variables(variables)

    def __call__(self, code_action: str) -> Any:
        self._replace_tools()
        context, done = contextvars.copy_context(), _Done()
        work = threading.Thread(target=context.run, args=(done.of, super().__call__, code_action), daemon=True)
        work.start()  # the host's own thread would have an empty context
        work.join(self.guardagent_seconds)
        if not done.ended:
            raise ExecutionTimeoutError(
                f"Code execution exceeded the maximum time of {self.guardagent_seconds} seconds"
            )
        if done.error is not None:
            raise done.error
        return done.output

    def _replace_tools(self) -> None:
        """Replaces tools and functions by guarded functions; those of Python itself stay."""
        tools = self.static_tools or {}
        for name, tool in tools.items():
            if not is_code_function(tool) and tool is not BASE_PYTHON_TOOLS.get(name):
                tools[name] = self.guardagent_attachment.code_function(name, tool)


def _holds_function(value: Any, depth: int = 0) -> bool:
    """Whether a value is a function or holds one, or is nested too deeply to tell."""
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple | set | frozenset | deque):
        return depth > DEEPEST or any(_holds_function(item, depth + 1) for item in value)
    return callable(value) and not isinstance(value, type)


class _Done:
    """The end of a thread's work."""

    def __init__(self) -> None:
        self.ended, self.output = False, None
        self.error: BaseException | None = None

    def of(self, work: Callable[..., Any], *args: Any) -> None:
        try:
            self.output = work(*args)
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self.error = error
        self.ended = True


# --- attaching


AnyAgent = TypeVar("AnyAgent", bound=MultiStepAgent)


def guarded(
    agent: AnyAgent,
    guard: EnforcementPoint,
    *,
    conversation: Named = None,
    unjudged: Mapping[str, Collection[str]] | None = None,
) -> AnyAgent:
    """Attaches a guard in place to an agent and to all agents that it manages.

    Args:
        agent: a ToolCallingAgent or a CodeAgent without another guard.
        guard: decides.
        conversation: the conversation's id, or a function that returns it; by default that of the
            `with conversation(id):` around the run.
        unjudged: tool -> arguments that the program supplies and no rule needs, such as an image or a data frame; they
            are passed on unchanged, and neither judged nor logged.

    Returns:
        The agent.

    Raises:
        InputError: a tool cannot be guarded, a rule names a tool that is probably a misspelling of one of the agent's,
            or the agent has another guard.
    """
    attachment = SmolagentsAttachment(guard, conversation, dict(unjudged or {}))
    attachment.guard_agent(agent)
    attachment.listed.check()
    return agent
