"""AutoGen: `agent = guarded(agent, guard)`.

    guarded(agent, guard)    tools, workbenches, hand-offs and executed code of an agent, or of a team, in place
    conversation(id)         names the conversation of the runs inside it
    TeamHalted               raised by a run, of an agent or a team, when a rule halts it

Extra: `guardagent[autogen]`.

The class of a guarded agent or team is a subclass of the original class.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from guardagent._support.requirements import require, require_parts
from guardagent.frameworks.autogen.package import DISTRIBUTIONS, EXTRA, PARTS, TRIED

require(DISTRIBUTIONS, EXTRA, TRIED)

from autogen_agentchat.agents import (
    AssistantAgent,
    BaseChatAgent,
    CodeExecutorAgent,
    MessageFilterAgent,
    SocietyOfMindAgent,
    UserProxyAgent,
)
from autogen_agentchat.base import Response, Team, TerminationCondition
from autogen_agentchat.messages import CodeExecutionEvent, StopMessage, TextMessage, ToolCallExecutionEvent
from autogen_agentchat.teams import BaseGroupChat
from autogen_core.models import AssistantMessage, CreateResult, FunctionExecutionResult

from guardagent.enforcement import EnforcementPoint, make_ids_unique
from guardagent.enforcement.host_adapter import NO_APPROVER, HostAdapter
from guardagent.enforcement.host_runs import Named
from guardagent.errors import InputError
from guardagent.frameworks.autogen.adapter import tools
from guardagent.frameworks.autogen.adapter.calls import AnswerHold
from guardagent.frameworks.autogen.adapter.runs import (
    SURROUNDINGS,
    UNNAMED,
    AutoGenRun,
    AutoGenScope,
    AutoGenTurn,
    TeamHalted,
    chat,
    conversation,
    enter,
    result_ids,
    scope,
)

__all__ = ["TeamHalted", "conversation", "guarded"]

# --- agents

ATTACHMENT = "guardagent_attachment"


@cache
def guarded_agent_class(base: Any) -> Any:
    """Returns the class of an agent with a guard."""
    kind = _GuardedAssistant if issubclass(base, AssistantAgent) else _GuardedChatAgent
    return type(base)(base.__name__, (kind, base), {"__module__": base.__module__, "__doc__": base.__doc__})


class _GuardedChatAgent(BaseChatAgent):
    """Runs in a conversation, and ends when its guard ends the run."""

    async def on_messages_stream(self, messages: Any, cancellation_token: Any) -> AsyncGenerator[Any, None]:
        attachment = vars(self)[ATTACHMENT]
        attachment.refresh(self)
        outermost, around = attachment.begin_run(self.name)
        events = SURROUNDINGS.stream_within(around, super().on_messages_stream(messages, cancellation_token))
        ended = _until_ended(self, events, around.run, cancellation_token)
        if outermost and attachment.guard.judges_answers:
            context = getattr(self, "_model_context", None)
            hold = AnswerHold(attachment, around, self.name, messages, context)
            ended = hold.judged(ended)
        async with aclosing(ended) as stream:
            async for event in stream:
                yield event

    def dump_component(self) -> Any:
        raise tools.undumped("the agent")


class _GuardedAssistant(_GuardedChatAgent):
    """As above, for an agent that calls tools."""

    @classmethod
    async def _call_llm(cls, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        turn = _turn()
        if turn is not None:
            messages = await kwargs["model_context"].get_messages()
            turn.step, turn.messages = turn.step + 1, chat(messages)
            turn.seen = [result_id for result_id in result_ids(messages) if result_id not in turn.proposed]
        async with aclosing(super()._call_llm(*args, **kwargs)) as results:
            async for result in results:
                if turn is not None and isinstance(result, CreateResult) and not isinstance(result.content, str):
                    turn.proposed.update(make_ids_unique(result.content, "id"))
                yield result

    @classmethod
    async def _execute_tool_call(cls, tool_call: Any, **kwargs: Any) -> Any:
        """Runs a call. Whatever it raises becomes its error, since the host would wait for ever."""
        try:
            _require_guarded(kwargs)
            with enter(replace(scope() or AutoGenScope(None), tool_id=tool_call.id or None)):
                return await super()._execute_tool_call(tool_call=tool_call, **kwargs)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            problem = "the call was cancelled"
        except Exception as error:  # noqa: BLE001 - as above
            problem = str(error)
        failed = FunctionExecutionResult(content=problem, call_id=tool_call.id, is_error=True, name=tool_call.name)
        return tool_call, failed

    @classmethod
    def _check_and_handle_handoff(
        cls, model_result: Any, executed_calls_and_results: Any, handoffs: Mapping[str, Any], **kwargs: Any
    ) -> Any:
        """Hands over, unless the hand-off was denied: then the model gets its error."""
        failed = {id(call) for call, result in executed_calls_and_results if result.is_error and call.name in handoffs}
        denied = {call.id for call, _ in executed_calls_and_results if id(call) in failed}
        left = [
            kept_call
            for kept_call in model_result.content
            if not (kept_call.name in handoffs and kept_call.id in denied)
        ]
        executed = [executed_call for executed_call in executed_calls_and_results if id(executed_call[0]) not in failed]
        return super()._check_and_handle_handoff(
            model_result=model_result.model_copy(update={"content": left}),
            executed_calls_and_results=executed,
            handoffs=handoffs,
            **kwargs,
        )

    @classmethod
    def _summarize_tool_use(cls, **kwargs: Any) -> Any:
        """Summarizes the calls; those of hand-offs are there only if they were denied."""
        return super()._summarize_tool_use(**{**kwargs, "handoffs": {}})


async def _until_ended(
    agent: Any, events: AsyncGenerator[Any, None], run: AutoGenRun, cancellation_token: Any
) -> AsyncGenerator[Any, None]:
    """Yields events until the guard ends the run.

    Raises:
        TeamHalted: a rule has halted the run.
    """
    async with aclosing(events) as stream:
        if run.halted is None and run.final is None:
            async for event in stream:
                if run.halted is not None:
                    break
                yield _final_response(agent, run.final) if run.final and isinstance(event, Response) else event
                if run.final is not None and isinstance(event, ToolCallExecutionEvent | CodeExecutionEvent):
                    break
                if isinstance(event, ToolCallExecutionEvent) and cancellation_token.is_cancelled():
                    raise asyncio.CancelledError
            else:
                return
    if run.halted is not None:
        raise run.halted
    final = run.final or ""
    if (context := getattr(agent, "_model_context", None)) is not None:
        await context.add_message(AssistantMessage(content=final, source=agent.name))
    yield _final_response(agent, final)


def _require_guarded(parts: Mapping[str, Any]) -> None:
    """Raises InputError if an agent got a workbench or a hand-off during its run."""
    guards = [tools.guard_of_workbench(workbench) for workbench in parts["workbench"]]
    if None in guards or not all(
        isinstance(handoff_tool, tools.AutoGenTool) for handoff_tool in parts["handoff_tools"]
    ):
        raise InputError("the agent got a workbench or a hand-off during its run; it is guarded in the next run")


def _final_response(agent: Any, text: str) -> Response:
    return Response(chat_message=TextMessage(content=text, source=agent.name), inner_messages=[])


def _turn() -> Any:
    around = scope()
    return around.turn if around is not None else None


# --- teams


@cache
def guarded_team_class(base: Any) -> Any:
    """Returns the class of a team with a guard."""
    return type(base)(base.__name__, (_GuardedTeam, base), {"__module__": base.__module__, "__doc__": base.__doc__})


class _GuardedTeam(BaseGroupChat):
    """Runs in a conversation, which its agents share, and ends when its guard ends the run."""

    async def run_stream(self, *, task: Any = None, **kwargs: Any) -> AsyncGenerator[Any, None]:
        attachment = vars(self)[ATTACHMENT]
        attachment.refresh(self)
        outermost, around = attachment.begin_run(None)
        events = SURROUNDINGS.stream_within(around, super().run_stream(task=task, **kwargs))
        if outermost and attachment.guard.judges_answers:
            messages = [] if task is None else [task] if not isinstance(task, list | tuple) else task
            events = AnswerHold(attachment, around, self.name, messages).judged(events)
        try:
            async with aclosing(events) as stream:
                async for event in stream:
                    yield event
        except Exception:
            if around.run.halted is not None:
                raise around.run.halted from None  # the host raises it as a RuntimeError
            raise

    def dump_component(self) -> Any:
        raise tools.undumped("the team")


class GuardTermination(TerminationCondition):
    """Ends a team's run once its guard has ended it, or if another condition does.

    Args:
        condition: the other one; None if the team has none.
    """

    component_type = "termination"

    def __init__(self, condition: TerminationCondition | None) -> None:
        self._condition = condition

    @property
    def terminated(self) -> bool:
        return self._condition is not None and self._condition.terminated

    async def __call__(self, messages: Sequence[Any]) -> StopMessage | None:
        around = scope()
        if around is not None and around.run is not None and around.run.final is not None:
            return StopMessage(content=around.run.final, source="guardagent")
        return await self._condition(messages) if self._condition is not None else None

    async def reset(self) -> None:
        if self._condition is not None:
            await self._condition.reset()


# --- attaching

AnyAgent = TypeVar("AnyAgent", bound=BaseChatAgent | Team)
_KINDS = (AssistantAgent, CodeExecutorAgent, SocietyOfMindAgent, MessageFilterAgent, UserProxyAgent)


def guarded(
    agent: AnyAgent, guard: EnforcementPoint, *, conversation: Named = None, unguarded: Collection[str] = ()
) -> AnyAgent:
    """Attaches a guard in place to an agent, or to a team and its participants.

    Args:
        agent: an agent or a team without another guard. A team must not have run yet.
        guard: decides.
        conversation: the conversation's id, or a function that returns it; by default that of the
            `with conversation(id):` around the run.
        unguarded: names of agents of other classes that may run unguarded.

    Returns:
        The agent.

    Raises:
        InputError: an agent or a tool cannot be guarded, a rule names a tool that is probably a misspelling of one of
            the agent's, or the agent has another guard.
    """
    attachment = AutoGenAttachment(guard, conversation, frozenset(unguarded))
    attachment.guard_agent(agent)
    attachment.tools.check()
    return agent


class AutoGenAttachment(HostAdapter[AutoGenScope]):
    """One guard, and the agents that it guards.

    Attributes:
        tools: those of the agents.
    """

    def __init__(self, guard: EnforcementPoint, named: Named, unguarded: frozenset[str]) -> None:
        super().__init__(guard, SURROUNDINGS, named, UNNAMED)
        self.approval.report_missing(NO_APPROVER)
        self._unguarded = unguarded
        self._agents: dict[int, tools.AssistantTools] = {}
        self.tools = tools.AutoGenTools(self, self.guard_agent)

    # --- agents

    def guard_agent(self, agent: Any) -> None:
        """Guards an agent or a team, and the agents in it. Does nothing to what is guarded already."""
        if getattr(agent, "name", None) in self._unguarded:
            return
        parts = PARTS["team"] if isinstance(agent, BaseGroupChat) else self._parts_of(agent)
        owner = vars(agent).get(ATTACHMENT)
        if self.is_new(owner, "this agent"):
            require_parts(agent, *parts.split())
            if isinstance(agent, BaseGroupChat):
                _end_with_guard(agent)
            made = guarded_team_class if isinstance(agent, BaseGroupChat) else guarded_agent_class
            kind: Any = type(agent)
            agent.__class__ = made(kind)
            vars(agent)[ATTACHMENT] = self
        elif owner is not self:
            self.listed.add(*owner.listed.specs.values())
        self.guard_parts(agent)

    def _parts_of(self, agent: Any) -> str:
        for kind in _KINDS:
            if isinstance(agent, kind):
                return PARTS[kind.__name__]
        raise InputError(
            f"{getattr(agent, 'name', agent)!r} is a {type(agent).__name__}, whose calls cannot be judged; expected an "
            "agent or a team of autogen_agentchat, or name it in unguarded=..."
        )

    def refresh(self, agent: Any) -> None:
        """Guards additions to an agent, and compares them with the rules."""
        self.guard_parts(agent)
        self.tools.check()

    def guard_parts(self, agent: Any) -> None:
        """Guards the workbenches, hand-offs, code executor and inner agents of an agent."""
        if isinstance(agent, BaseGroupChat):
            for participant in agent._participants:  # noqa: SLF001 - there is no public way to it
                self.guard_agent(participant)
        for name in ("_team", "_wrapped_agent"):
            if isinstance(inner := vars(agent).get(name), BaseChatAgent | Team):
                self.guard_agent(inner)
        if isinstance(agent, CodeExecutorAgent):
            agent._code_executor = self._executor(agent._code_executor)  # noqa: SLF001 - as above
        if isinstance(agent, AssistantAgent):
            self._guard_tools(agent)

    def _guard_tools(self, agent: Any) -> None:
        own = self._agents.setdefault(id(agent), tools.AssistantTools(self.tools, agent))
        agent._workbench = [  # noqa: SLF001 - as above
            own.workbench(workbench, f"{agent.name} #{at}")
            for at, workbench in enumerate(agent._workbench)  # noqa: SLF001 - as above
        ]
        agent._handoff_tools = [own.handoff(handoff_tool) for handoff_tool in agent._handoff_tools]  # noqa: SLF001 - as above

    def _executor(self, executor: Any) -> Any:
        self.listed.add(tools.EXECUTE)
        owner = executor.guardagent_adapter if isinstance(executor, tools.GuardedExecutor) else None
        is_new = self.is_new(owner, "the code executor", "the executor itself")
        return tools.GuardedExecutor(executor, self) if is_new else executor

    # --- a run

    def begin_run(self, agent: str | None) -> tuple[bool, AutoGenScope]:
        """Returns whether a program starts this run, and the surroundings of the run.

        Args:
            agent: the name of the agent; None for a team.
        """
        outside = scope() or AutoGenScope(None)
        call = outside.call

        def new_run(outer: AutoGenRun | None) -> AutoGenRun:
            """Returns the run of the team or the agent around it, or that of a call."""
            return outer if outer is not None and outer.call is call else AutoGenRun(outer, call=call)

        around = self.begin(new_run)
        turn = AutoGenTurn(agent, self.proposed(around)) if agent is not None else None
        return not outside.inside, replace(around, turn=turn)


def _end_with_guard(team: Any) -> None:
    """Makes a team end once its guard has ended the run.

    Raises:
        InputError: its parts have been copied already, or run elsewhere.
    """
    if not team._embedded_runtime:  # noqa: SLF001 - there is no public way to it
        raise InputError(
            f"the team {team.name!r} has a runtime of its own, which does not show the conversation of a call; "
            "expected a team without 'runtime='"
        )
    if team._initialized:  # noqa: SLF001 - as above
        raise InputError(f"the team {team.name!r} has run or loaded a state already; attach the guard before")
    condition = team._termination_condition  # noqa: SLF001 - as above
    if condition is not None or team._max_turns is not None or not _has_cycles(team):  # noqa: SLF001 - as above
        team._termination_condition = GuardTermination(condition)  # noqa: SLF001 - as above


def _has_cycles(team: Any) -> bool:
    """Whether a team is a graph with cycles: the host refuses one that nothing ends."""
    graph = getattr(team, "_graph", None)
    return graph is not None and bool(graph.get_has_cycles())
