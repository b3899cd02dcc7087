"""LangChain and LangGraph: a middleware of `create_agent`, and a ToolNode for graphs written by hand.

    create_agent(model, tools, middleware=[GuardMiddleware(guard)], checkpointer=...)
    graph.add_node("tools", guarded_tool_node(guard, tools))

A call is judged at its tool, after the host's validation: with the arguments that the tool gets, whatever the
middlewares have made of those that the model wrote. `approve`, `reject` and `edit` build the commands that resume an
interrupted run with a reviewer's answer.

An agent's final answers: each is judged where it arises, before a user sees it, and again where a run ends.

An answer arises in the model's node, or as the output of a tool with `return_direct` or with a Command that ends the
run. An answer that a middleware or node makes is judged at the end of the run. An answer that passed is not judged
twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from guardagent._support.execution import adrive, drive
from guardagent._support.requirements import require
from guardagent.frameworks.langgraph.package import DISTRIBUTIONS, EXTRA

require(DISTRIBUTIONS, EXTRA)

from langchain.agents.middleware import AgentMiddleware, hook_config
from langchain_core.messages import AIMessage
from langgraph.graph import END
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Interrupt

from guardagent._support.execution import Operation, Procedure
from guardagent.enforcement import EnforcementPoint, ToolSpec, make_ids_unique
from guardagent.enforcement.calls import REPEATS, plain_value
from guardagent.enforcement.host_adapter import HostAdapter, withheld
from guardagent.enforcement.host_runs import HostScope, HostSurroundings
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.langgraph.adapter import runs
from guardagent.frameworks.langgraph.adapter.runs import RunStopped, conversation_of, messages_of, require_nested
from guardagent.frameworks.langgraph.adapter.tools import (
    MARK,
    ToolCallProposal,
    ToolSignature,
    guarded_tool,
    has_reviewer,
    refuse_substitutes,
    signature_of,
    spec_of,
)
from guardagent.types import Verdict

__all__ = [
    "GuardMiddleware",
    "RunStopped",
    "approve",
    "edit",
    "guarded_answer_node",
    "guarded_tool_node",
    "reject",
    "unless_stopped",
]

# --- the middleware


class GuardMiddleware(AgentMiddleware):
    """Judges every call of an agent's tools at the tool, and its answers if the guard has `answers`.

        create_agent(model, tools, middleware=[..., GuardMiddleware(guard)], checkpointer=...)

    Put it last. A later middleware may change arguments, and the changed ones are judged; if it answers a call itself
    or calls another tool instead, the call is refused.

    Args:
        guard: decides. Agents of one conversation share it.
        tools: the agent's tools, to compare them with the rules now; otherwise this happens before the first model
            call.
        unguarded: tools that the model's provider runs, and that may run unjudged.
        nested: whether the agent runs only within a guarded tool of another agent, so that it cannot begin a
            conversation without history if the tool starts it in a thread.

    Raises:
        InputError: a rule names a tool that is probably a misspelling of one of these.
    """

    def __init__(
        self,
        guard: EnforcementPoint,
        tools: Iterable[Any] = (),
        *,
        unguarded: Collection[str] = (),
        nested: bool = False,
    ) -> None:
        super().__init__()
        self.guard, self._nested = guard, nested
        self._calls = GuardedCalls(guard, unguarded=unguarded, nested=nested)
        self._answers = Answers(guard)
        self._calls.attach(as_tools(tools))

    def before_agent(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - the host's signature
        """Refuses a run without a conversation id, and a nested agent that runs outside a guarded tool.

        Warns if nobody can be asked in this run: a middleware learns of the checkpointer here at the earliest.
        """
        if self._nested:
            require_nested(self.guard, _config())
        conversation_of(self.guard, _config())
        has_reviewer(self._calls, _config())

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002 - as above
        """Ends the run after the agent's last replan: control returns to the user, with the reason."""
        reasons = _last_reasons(state, "messages")
        return None if reasons is None else {"jump_to": "end", "messages": [AIMessage(content="\n".join(reasons))]}

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Attaches new tools, and judges the answer before a user sees it."""
        self._calls.attach(request.tools)
        response = with_unique_ids(handler(self._answers.without_streaming(request)))
        verdict = drive(self._answers.denial(self._answers.of_model(request, response)))
        return response if verdict is None else without_answer(response, verdict)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Judges the answer of a model that is called in a coroutine."""
        self._calls.attach(request.tools)
        response = with_unique_ids(await handler(self._answers.without_streaming(request)))
        verdict = await adrive(self._answers.denial(self._answers.of_model(request, response)))
        return response if verdict is None else without_answer(response, verdict)

    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002 - as above
        """Judges the end of a run, unless its answer was judged before."""
        verdict = drive(self._answers.denial(self._answers.of_state(state)))
        return None if verdict is None else without_ending(state, verdict)

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Judges a call; also for `ToolNode(wrap_tool_call=...)`."""
        return self._calls.wrap(request, handler)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Judges a call that runs in a coroutine, for `ToolNode(awrap_tool_call=...)`."""
        return await self._calls.awrap(request, handler)


def as_tools(tools: Iterable[Any]) -> list[Any]:
    """Returns the tools, with functions converted by the host's `tool`."""
    from langchain_core.tools import BaseTool, tool

    return [candidate if isinstance(candidate, BaseTool | Mapping) else tool(candidate) for candidate in tools]


def _config() -> Mapping[str, Any]:
    from langgraph.config import get_config

    return get_config()  # type: ignore[no-any-return]


# --- graphs written by hand


def guarded_tool_node(guard: EnforcementPoint, tools: Iterable[Any], *, nested: bool = False, **options: Any) -> Any:
    """Builds a ToolNode with guarded tools.

    Args:
        guard: decides.
        tools: as of `ToolNode`.
        nested: as of `GuardMiddleware`.
        options: as of `ToolNode`; your own `wrap_tool_call` runs outside the guard.

    Raises:
        InputError: as `ToolGuard.attach`.
    """
    tools = as_tools(tools)
    calls = GuardedCalls(guard, options.get("messages_key", "messages"), nested=nested)
    calls.attach(tools)
    around, aaround = options.pop("wrap_tool_call", None), options.pop("awrap_tool_call", None)

    def wrap(request: Any, handler: Callable[[Any], Any]) -> Any:
        return around(request, lambda changed: calls.wrap(changed, handler))

    async def awrap(request: Any, handler: Callable[[Any], Any]) -> Any:
        return await aaround(request, lambda changed: calls.awrap(changed, handler))

    if around is not None and aaround is None:  # the host runs it without await then
        return ToolNode(tools, wrap_tool_call=wrap, **options)
    wraps = {
        "wrap_tool_call": calls.wrap if around is None else wrap,
        "awrap_tool_call": calls.awrap if aaround is None else awrap,
    }
    return ToolNode(tools, **wraps, **options)


def guarded_answer_node(guard: EnforcementPoint, messages_key: str = "messages") -> Callable[[Any], dict[str, Any]]:
    """Returns a node that judges the final answer if the guard has `answers`; put it last before the end."""
    answers = Answers(guard)

    def judge(state: Any) -> dict[str, Any]:
        verdict = drive(answers.denial(answers.of_state(state, messages_key)))
        return {} if verdict is None else without_ending(state, verdict, messages_key)

    return judge


def unless_stopped(model: str, messages_key: str = "messages") -> Callable[[Any], str]:
    """Returns the router after a guarded ToolNode: to the model, or to the end once the agent has given up.

        graph.add_conditional_edges("tools", unless_stopped("model"), ["model", END])

    A graph without it is stopped at the next denial.
    """

    def leads_to(state: Any) -> str:
        return model if _last_reasons(state, messages_key) is None else str(END)

    return leads_to


def _last_reasons(state: Any, messages_key: str) -> list[str] | None:
    """The reasons of the last results of tools after which the agent gave up; None if it goes on."""
    for message in reversed(messages_of(state, messages_key)):
        if getattr(message, "type", "") != "tool":
            return None
        denial = message.artifact.get(MARK) if isinstance(message.artifact, Mapping) else None
        if isinstance(denial, Mapping) and denial.get("gave_up"):
            return [str(reason) for reason in denial["reasons"]]
    return None


# --- a reviewer's answer

Shown: TypeAlias = Interrupt | Iterable[Interrupt]


def approve(shown: Shown, *, by: str | None = None) -> Command[Any]:
    """Approves the calls that were shown, once each.

        agent.invoke(approve(result["__interrupt__"]), config)

    Args:
        shown: one or more interrupts.
        by: the reviewer, for the log.

    Raises:
        InputError: an interrupt is not an approval request of the guard.
    """
    return _command(shown, {"choice": "approve", "by": by})


def reject(shown: Shown, reason: str = "", *, by: str | None = None) -> Command[Any]:
    """Rejects the calls that were shown.

    Args:
        shown: as of `approve`.
        reason: the feedback to the agent.
        by: as of `approve`.

    Raises:
        InputError: as of `approve`.
    """
    return _command(shown, {"choice": "reject", "reason": reason, "by": by})


def edit(shown: Shown, args: Mapping[str, Any], *, by: str | None = None) -> Command[Any]:
    """Edits a call: it is judged again with the new arguments.

    Args:
        shown: one interrupt.
        args: the complete arguments of the call.
        by: as of `approve`.

    Raises:
        InputError: as of `approve`; or there are several interrupts.
    """
    command = _command(shown, {"choice": "edit", "args": dict(args), "by": by})
    if len(command.resume) > 1:
        raise InputError(f"{len(command.resume)} calls were shown; expected the interrupt of the one to edit")
    return command


def _command(shown: Shown, decision: Mapping[str, Any]) -> Command[Any]:
    every = [shown] if isinstance(shown, Interrupt) else list(shown)
    if not every:
        raise InputError("nothing was shown; expected an interrupt of the run, such as result['__interrupt__'] holds")
    return Command(resume={interrupt.id: {**decision, "of": _digest(interrupt)} for interrupt in every})


def _digest(shown: Any) -> str:
    value = getattr(shown, "value", None)
    digest = value.get("digest") if isinstance(value, Mapping) and "tool" in value else None
    if not isinstance(digest, str):
        raise InputError(
            f"{shown!r:.200} is not an approval request of the guard; expected an interrupt with a call's digest"
        )
    return digest


# --- final answers


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """A final answer that a user is about to read.

    Attributes:
        conversation: its conversation's id.
        user_message: the user's last message.
        parts: its strings.
        copies: strings that the host makes of the parts.
    """

    conversation: str
    user_message: str
    parts: Sequence[str]
    copies: Sequence[str] = ()


class Answers:
    """Judges answers if the guard has `answers`, or a rule speaks of them."""

    def __init__(self, guard: EnforcementPoint) -> None:
        self._guard = guard
        self._passed = runs.state_of(guard).passed

    def without_streaming(self, request: Any) -> Any:
        """Returns the request with streaming disabled.

        Raises:
            InputError: the model is not a chat model.
        """
        from langchain_core.language_models import BaseChatModel

        if not self._guard.judges_answers:
            return request
        if not isinstance(request.model, BaseChatModel):
            raise InputError(f"a {type(request.model).__name__} cannot be held back; expected a chat model")
        tags = [*(getattr(request.model, "tags", None) or ()), "nostream", "langsmith:nostream"]
        return request.override(model=request.model.model_copy(update={"tags": tags, "disable_streaming": True}))

    def denial(self, answer: FinalAnswer | None) -> Procedure[Verdict | None]:
        """Judges the parts of an answer that were not judged before.

        Returns:
            The verdict that denies the answer; None if it may pass.
        """
        if answer is None or not self._guard.judges_answers:
            return None
        parts = [part for part in answer.parts if (answer.conversation, _text_digest(part)) not in self._passed]
        if not parts:
            return None
        judged = answer.conversation, answer.user_message, "\n".join(parts)
        verdict: Verdict = yield Operation(partial(self._guard.answer, *judged), partial(self._guard.aanswer, *judged))
        if verdict.label:
            self._passed.put(
                (answer.conversation, _text_digest(withheld(verdict)))
            )  # the guard's own text is not an answer
            return verdict
        for part in (*answer.parts, *answer.copies):
            self._passed.put((answer.conversation, _text_digest(part)))
        return None

    # --- where answers arise

    def of_model(self, request: Any, response: Any) -> FinalAnswer | None:
        """Returns the answer in a model's response; None if it calls tools."""
        own = [message for message in response.result if message.type == "ai"]
        structured = getattr(response, "structured_response", None)
        if structured is None and any(message.tool_calls for message in own):
            return None
        others = [runs.text_of(message) for message in response.result if message.type == "tool"]
        texts = [runs.text_of(message) for message in own]
        if structured is not None:
            texts = [*filter(None, texts), _structured(structured)]
        return self._answer(request.messages, texts, others)

    def of_tool(self, messages: Sequence[Any], answer: Any) -> FinalAnswer | None:
        """Returns the output of a tool that ends the run."""
        return self._answer(
            messages, [runs.text_of(returned_message) for returned_message in runs.returned_messages(answer)]
        )

    def of_state(self, state: Any, key: str = "messages") -> FinalAnswer | None:
        """Returns the answer at the end of a run: its last messages and structured response."""
        messages = runs.messages_of(state, key)
        texts = [text for message in runs.last_of(messages) if (text := runs.text_of(message))]
        structured = state.get("structured_response") if isinstance(state, Mapping) else None
        return self._answer(messages, [*texts, *([] if structured is None else [_structured(structured)])])

    def _answer(self, messages: Sequence[Any], parts: Sequence[str], copies: Sequence[str] = ()) -> FinalAnswer | None:
        from langgraph.config import get_config

        if not self._guard.judges_answers:
            return None
        user_message = next((message for message in reversed(messages) if message.type == "human"), None)
        conversation = runs.conversation_of(self._guard, get_config())
        return FinalAnswer(conversation, str(user_message.text) if user_message is not None else "", parts, copies)


def without_answer(response: Any, verdict: Verdict) -> Any:
    """Replaces the answer in a model's response with the reason why it is withheld."""
    from langchain_core.messages import AIMessage

    first = next((ai_message for ai_message in response.result if ai_message.type == "ai"), None)
    message = AIMessage(content=withheld(verdict), id=first.id if first else None)
    return replace(response, result=[message], structured_response=None)


def without_ending(state: Any, verdict: Verdict, key: str = "messages") -> dict[str, Any]:
    """Returns the state update that replaces a run's answer with the reason why it is withheld.

    Raises:
        InputError: a message has no id, so that the host would keep it.
    """
    from langchain_core.messages import AIMessage, ToolMessage

    instead: list[Any] = []
    for message in runs.last_of(runs.messages_of(state, key)):
        if message.id is None:
            raise InputError("an answer that is withheld cannot be taken back: its message has no id; use add_messages")
        if message.type == "tool":
            call = {"tool_call_id": message.tool_call_id, "name": message.name, "status": "error"}
            instead.append(ToolMessage(content=withheld(verdict), id=message.id, **call))
        else:
            instead.append(
                AIMessage(content=withheld(verdict), id=message.id, tool_calls=getattr(message, "tool_calls", []))
            )
    structured = isinstance(state, Mapping) and state.get("structured_response") is not None
    return {key: instead, **({"structured_response": None} if structured else {})}


def without_result(call: Mapping[str, Any], verdict: Verdict) -> Any:
    """Builds the message that replaces a withheld answer of a tool."""
    from langchain_core.messages import ToolMessage

    return ToolMessage(content=withheld(verdict), tool_call_id=call.get("id") or "", name=call["name"], status="error")


def _structured(value: Any) -> str:
    return json.dumps(plain_value(value, "the structured response"), default=str)


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


# --- calls

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
        self.shared, self._answers = runs.state_of(guard), Answers(guard)
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
            if not runs.is_answer(request.tool, response):
                return proposal.end(response)
            verdict = yield from self._answers.denial(self._answers.of_tool(proposal.messages, response))
            return proposal.end(response if verdict is None else without_result(request.tool_call, verdict))
        except Exception as error:  # noqa: BLE001 - classified in `_message_for`
            return _message_for(error, proposal)
        finally:
            task.running.discard(key)

    def _propose(self, request: Any) -> ToolCallProposal:
        config = getattr(request.runtime, "config", None) or {}
        runs.require_uncached(config)
        if self._nested:
            runs.require_nested(self.guard, config)
        inside = runs.enclosing_tool(self.guard, config)
        conversation = runs.thread_of(config) if inside is None else inside.conversation
        messages = runs.messages_of(request.state, self._messages_key)
        has_reviewer(self, config)
        namespace = (config.get("configurable") or {}).get("checkpoint_ns")
        task = self.shared.tasks.of((conversation, namespace)) if namespace else runs.Task()
        source = _proposing_message(messages, request.tool_call.get("id"))
        if inside is None:
            self._turn(conversation, messages)
        seen, alone = self._seen(messages), _is_alone(config, messages)
        return ToolCallProposal(self, conversation, request.tool_call, task, config, messages, seen, source, alone)

    def _guarded(self, request: Any, proposal: ToolCallProposal, handler: Handler) -> Any:
        """Returns the request with the guarded copy of its tool."""
        if not _runs_the_tool(handler):
            refuse_substitutes(proposal, proposal.config)  # type: ignore[arg-type]
        runs.mark_running(proposal.config, proposal.running_tool)  # type: ignore[arg-type]
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
    for message in runs.returned_messages(response):
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
    if isinstance(error, ToolDenied) and not isinstance(error, runs.RunStopped):
        return proposal.deny(error.verdict)
    if isinstance(error, InputError) and not proposal.used:  # else it is the tool's own
        return proposal.refuse(str(error))
    raise error
