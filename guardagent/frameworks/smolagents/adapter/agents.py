"""The class of a guarded agent: a subclass of the agent's own."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from smolagents import ActionOutput, MultiStepAgent
from smolagents.memory import ToolCall
from smolagents.utils import AgentError, AgentGenerationError, AgentToolExecutionError

from guardagent.errors import ToolDenied
from guardagent.frameworks.smolagents.adapter.answers import streamed, without_answer
from guardagent.frameworks.smolagents.adapter.attachment_base import SmolagentsParts
from guardagent.frameworks.smolagents.adapter.runs import SmolagentsRun, SmolagentsScope, enter, scope

PARTS = ("run", "tools", "managed_agents", "memory", "final_answer_checks", "_step_stream", "provide_final_answer")


def guarded_class(base: type, attachment: SmolagentsParts) -> type:
    """Returns the class of an agent with a guard."""
    kinds: tuple[type, ...] = (_ToolCalling, _GuardedAgent) if hasattr(base, "execute_tool_call") else (_GuardedAgent,)
    return type(base.__name__, (*kinds, base), {"__module__": base.__module__, "guardagent_attachment": attachment})


class _GuardedAgent(MultiStepAgent):
    """Runs in a conversation, with guarded tools, and ends when its guard ends the run."""

    guardagent_attachment: SmolagentsParts

    def run(self, *args: Any, **kwargs: Any) -> Any:
        attachment = self.guardagent_attachment
        attachment.refresh(self)
        around = attachment.begin(self)
        with enter(around):
            result = super().run(*args, **kwargs)
        if not isinstance(result, Generator):
            return result
        return streamed(result, around, held=attachment.guard.judges_answers and around.call is None)

    def __call__(self, task: str, **kwargs: Any) -> Any:
        """Runs as another agent's tool: the call is judged."""
        return self.guardagent_attachment.invoke_agent(self, task, kwargs, super().__call__)

    def _step_stream(self, memory_step: Any) -> Iterator[Any]:
        self.guardagent_attachment.refresh(self)
        around = scope()
        if around is None or around.run is None or around.run.agent is not self:
            around = self.guardagent_attachment.begin(self)  # `agent.step`, called by hand
        run = around.run
        assert run is not None
        run.step, run.memory_step = run.step + 1, memory_step
        yield from _ended(run) or streamed(self._guarded_step(memory_step, run), around, held=False)

    def _guarded_step(self, memory_step: Any, run: SmolagentsRun) -> Generator[Any, None, None]:
        answered = False
        try:
            for output in super()._step_stream(memory_step):
                if isinstance(output, ToolCall):
                    self.guardagent_attachment.propose(output)
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


class _ToolCalling(MultiStepAgent):
    """An agent whose model calls tools in messages."""

    guardagent_attachment: SmolagentsParts

    def process_tool_calls(self, chat_message: Any, memory_step: Any) -> Iterator[Any]:
        around = scope()
        if around is not None and around.run is not None:
            around.run.parallel = len(chat_message.tool_calls or ()) > 1
        return super().process_tool_calls(chat_message, memory_step)  # type: ignore[no-any-return]

    def execute_tool_call(self, tool_name: str, arguments: Any) -> Any:
        """Runs a call. A denial is an error of the step; of one of several calls, its output.

        An error of one of several calls would cost the model the outputs of the others.
        """
        self.guardagent_attachment.refresh(self)
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


def surroundings(conversation: str | None, agent: Any) -> SmolagentsScope:
    """Returns the surroundings of a new run: within a tool, those of the call."""
    around = scope()
    if around is not None and around.call is not None:
        return SmolagentsScope(around.conversation, SmolagentsRun(around.run, agent=agent), around.call)
    named = conversation or (around.conversation if around is not None else None)
    return SmolagentsScope(named, SmolagentsRun(agent=agent))
