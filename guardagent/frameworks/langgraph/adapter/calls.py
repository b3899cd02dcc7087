"""Guards the tool calls of an agent at its ToolNode: from a model's proposal to the message that answers it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from guardagent._support.execution import Operation, Procedure, adrive, drive
from guardagent.enforcement import EnforcementPoint, ToolSpec, make_ids_unique
from guardagent.enforcement.calls import REPEATS
from guardagent.enforcement.host_adapter import HostAdapter
from guardagent.enforcement.host_runs import HostScope, HostSurroundings
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.langgraph.adapter.answers import Answers, without_result
from guardagent.frameworks.langgraph.adapter.runs import (
    RunStopped,
    Task,
    enclosing_tool,
    is_answer,
    mark_running,
    messages_of,
    require_nested,
    require_uncached,
    returned_messages,
    state_of,
    thread_of,
)
from guardagent.frameworks.langgraph.adapter.tools import (
    ToolCallProposal,
    ToolSignature,
    guarded_tool,
    has_reviewer,
    refuse_substitutes,
    signature_of,
    spec_of,
)

_WAIT_SECONDS = 0.01
_HOSTS_HANDLERS = {
    ("langgraph.prebuilt.tool_node", f"ToolNode.{name}.<locals>.execute") for name in ("_run_one", "_arun_one")
}
# Unused: a running tool marks the host's configuration, too.
_SURROUNDINGS = HostSurroundings("langgraph", HostScope, states_usage=True)

Handler = Callable[[Any], Any]


class GuardedCalls(HostAdapter[HostScope]):
    """Wraps each call of a ToolNode.

    Args:
        guard: decides.
        messages_key: the key of the messages in the graph's state.
        unguarded: tools that the model's provider runs, and that may run unjudged.
        nested: whether to refuse calls of an agent that does not run within a guarded tool of another agent.

    Attributes:
        shared: the state of the guard.
    """

    def __init__(
        self,
        guard: EnforcementPoint,
        messages_key: str = "messages",
        unguarded: Iterable[str] = (),
        *,
        nested: bool = False,
    ) -> None:
        super().__init__(guard, _SURROUNDINGS, None, "")
        self._nested, self._messages_key, self._unguarded = nested, messages_key, frozenset(unguarded)
        self.shared, self._answers = state_of(guard), Answers(guard)
        self._signatures: dict[str, ToolSignature] = {}
        self._specs: dict[str, ToolSpec] = {}

    # --- attaching

    def attach(self, tools: Iterable[Any]) -> None:
        """Compares new or changed tools with the rules.

        Raises:
            InputError: as `ToolGuard.attach`; or a tool runs at the model's provider, where it cannot be judged.
        """
        tools = list(tools)
        for tool in tools:
            if isinstance(tool, Mapping):
                self._accept_provided(tool)
        tools = [tool for tool in tools if not isinstance(tool, Mapping)]
        for tool in tools:
            self._signature(tool)
        specs = {tool.name: spec_of(tool) for tool in tools}
        if all(self._specs.get(name) == spec for name, spec in specs.items()):
            return
        everywhere = {**self.shared.tools, **specs}
        if everywhere != self.shared.tools:
            self.guard.attach(everywhere.values())
            self.shared.tools.update(specs)
        self._specs.update(specs)

    def _accept_provided(self, tool: Mapping[str, Any]) -> None:
        function = tool.get("function")
        name = tool.get("name") or (function.get("name") if isinstance(function, Mapping) else None) or tool.get("type")
        if name not in self._unguarded:
            raise InputError(
                f"the tool {name!r} is run by the model's provider, where no guard can stop it; "
                f"leave it out, or accept that with unguarded={{{name!r}}}"
            )

    # --- one call

    def wrap(self, request: Any, handler: Handler) -> Any:
        """Wraps one tool call, in the host's form. Returns the message that answers it."""
        return drive(self._answer(request, handler))

    async def awrap(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Judges a call and runs it in a coroutine."""
        return await adrive(self._answer(request, handler))

    def _answer(self, request: Any, handler: Callable[[Any], Any]) -> Procedure[Any]:
        proposal = self._propose(request)
        if _repeats(proposal.messages, proposal.tool_call):
            return proposal.refuse(REPEATS)
        task, key = proposal.task, proposal.key
        while not task.begin(key):  # it may run in another event loop
            yield Operation(partial(time.sleep, _WAIT_SECONDS), partial(asyncio.sleep, _WAIT_SECONDS))
        if key in task.ended:
            return task.ended[key]
        try:
            proposal.run = task.enter(proposal.config)
            work = partial(handler, self._guarded(request, proposal, handler))
            response = proposal.accept((yield Operation(work, work)))
            if not is_answer(request.tool, response):
                return proposal.end(response)
            verdict = yield from self._answers.denial(self._answers.of_tool(proposal.messages, response))
            return proposal.end(response if verdict is None else without_result(request.tool_call, verdict))
        except Exception as error:  # noqa: BLE001 - classified in `_message_for`
            return _message_for(error, proposal)
        finally:
            task.running.discard(key)

    def _propose(self, request: Any) -> ToolCallProposal:
        config = getattr(request.runtime, "config", None) or {}
        require_uncached(config)
        if self._nested:
            require_nested(self.guard, config)
        inside = enclosing_tool(self.guard, config)
        conversation = thread_of(config) if inside is None else inside.conversation
        messages = messages_of(request.state, self._messages_key)
        has_reviewer(self, config)
        namespace = (config.get("configurable") or {}).get("checkpoint_ns")
        task = self.shared.tasks.of((conversation, namespace)) if namespace else Task()
        source = _proposing_message(messages, request.tool_call.get("id"))
        if inside is None:
            self._turn(conversation, messages)
        seen, alone = self._seen(messages), _is_alone(config, messages)
        return ToolCallProposal(self, conversation, request.tool_call, task, config, messages, seen, source, alone)

    def _guarded(self, request: Any, proposal: ToolCallProposal, handler: Handler) -> Any:
        """Returns the request with the guarded copy of its tool."""
        if not _runs_the_tool(handler):
            refuse_substitutes(proposal, proposal.config)  # type: ignore[arg-type]
        mark_running(proposal.config, proposal.running_tool)  # type: ignore[arg-type]
        if request.tool is None:
            return request  # the host says so to the model
        known = self._signatures.get(request.tool.name)
        if known is None or known.tool is not request.tool:
            self.attach([request.tool])  # a middleware has brought it
        shape = self._signature(request.tool)
        if mine := sorted(shape.injected & proposal.tool_call["args"].keys()):
            raise InputError(f"the arguments of {shape.tool.name!r}: {mine[0]!r} is filled in by the host")
        return request.override(tool=guarded_tool(shape, proposal))

    def _signature(self, tool: Any) -> ToolSignature:
        known = self._signatures.get(tool.name)
        if known is None or known.tool is not tool:
            known = self._signatures[tool.name] = signature_of(tool)
        return known

    def _seen(self, messages: Sequence[Any]) -> list[str]:
        """Returns the ids of the calls whose results the messages show, without errors and unknown tools."""
        return [
            message.tool_call_id
            for message in messages
            if getattr(message, "type", "") == "tool"
            and message.status != "error"
            and (message.name is None or message.name in self._specs)
        ]

    def _turn(self, conversation: str, messages: Sequence[Any]) -> None:
        """Starts a new turn if the last user message is new. The input of a nested agent is not a user message."""
        last = next((message for message in reversed(messages) if getattr(message, "type", "") == "human"), None)
        if last is None:
            return
        key = last.id or repr(last.content)
        if self.shared.turns.put((conversation, key)):
            self.shared.strikes.drop(conversation)
            self.guard.turn(conversation)


def with_unique_ids(response: Any) -> Any:
    """Returns a model's response whose calls have unique ids."""
    for message in returned_messages(response):
        make_ids_unique(getattr(message, "tool_calls", None) or (), "id")
    return response


def _runs_the_tool(handler: Handler) -> bool:
    """Whether a handler is the host's own, and no middleware that might run another tool."""
    return (getattr(handler, "__module__", ""), getattr(handler, "__qualname__", "")) in _HOSTS_HANDLERS


def _proposing_message(messages: Sequence[Any], call_id: Any) -> str | None:
    """Returns the id of the model message that proposes a call."""
    for at in range(len(messages) - 1, -1, -1):
        if any(call["id"] == call_id for call in getattr(messages[at], "tool_calls", None) or ()):
            return messages[at].id or f"message {at}"
    return None


def _repeats(messages: Sequence[Any], call: Mapping[str, Any]) -> bool:
    """Whether another call before it in its message has its id, as in a graph whose model no middleware sees."""
    for message in reversed(messages):
        calls = getattr(message, "tool_calls", None) or ()
        same = [tool_call for tool_call in calls if tool_call["id"] == call.get("id")]
        if same and call.get("id"):
            return (same[0]["name"], same[0]["args"]) != (call["name"], call["args"])
    return False


def _is_alone(config: Mapping[str, Any], messages: Sequence[Any]) -> bool:
    """Whether the host runs a separate task for the call."""
    if (config.get("metadata") or {}).get("langgraph_triggers") in (("__pregel_push",), ["__pregel_push"]):
        return True
    last = next((message for message in reversed(messages) if getattr(message, "type", "") == "ai"), None)
    return len(getattr(last, "tool_calls", ())) <= 1 if last is not None else False


def _message_for(error: Exception, proposal: ToolCallProposal) -> Any:
    """Turns a refusal into a message for the model; raises any other error again."""
    from langgraph.errors import GraphInterrupt

    if proposal.stopped is not None:
        raise proposal.stopped from error
    if isinstance(error, GraphInterrupt):
        raise error if proposal.run is None else proposal.task.interrupted(proposal.run, error)
    if isinstance(error, ToolDenied) and not isinstance(error, RunStopped):
        return proposal.deny(error.verdict)
    if isinstance(error, InputError) and not proposal.used:  # else it is the tool's own
        return proposal.refuse(str(error))
    raise error
