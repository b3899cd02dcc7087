"""The setup of one run: its conversation, and the tools and middlewares of its request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent_framework import AgentSession

from guardagent._support.execution import adrive
from guardagent._support.requirements import require_parts
from guardagent.enforcement import Approval, HostCall
from guardagent.enforcement.calls import plain_arguments
from guardagent.enforcement.hosts import proposed_ids
from guardagent.errors import InputError
from guardagent.frameworks.agent_framework.adapter.answers import ClientAnswers
from guardagent.frameworks.agent_framework.adapter.approvals import ANSWER, call_shown, decision_in
from guardagent.frameworks.agent_framework.adapter.host_names import IN_WORKFLOW, OWN_SESSION
from guardagent.frameworks.agent_framework.adapter.messages import call_ids, chat
from guardagent.frameworks.agent_framework.adapter.middleware import InnerMiddleware, ModelMiddleware, OuterMiddleware
from guardagent.frameworks.agent_framework.adapter.runs import ClientRun, ClientScope, surroundings

_HANDOFFS, _HANDS_OVER = "_handoff_functions", "_AutoHandoffMiddleware"


class RunSetup:
    """Sets up one run of a guarded client.

    Args:
        attachment: the guard and the tools.
        config: the host's configuration of function invocation.
        agent: the name of the agent.

    Attributes:
        around: the surroundings of the run.
        answers: judges its answers.
    """

    def __init__(
        self,
        attachment: Any,
        config: Mapping[str, Any],
        agent: str | None,
        messages: Iterable[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        self._attachment, self._config, self._messages, self._kwargs = attachment, config, messages, kwargs
        self.around, self._run = self._begin(agent)
        self.answers = ClientAnswers(attachment.guard, self.around, self._run)

    def options(self, options: Mapping[str, Any] | None, middleware: Sequence[Any] | None) -> dict[str, Any]:
        """Returns the options of the request, with guarded tools, and the guard's middlewares around the others.

        Raises:
            InputError: a tool cannot be guarded.
        """
        attachment, run, options = self._attachment, self._run, dict(options or {})
        if options.get("tools") or attachment.servers:
            if not self._config.get("enabled", True):
                raise InputError("function invocation is not enabled, so the program runs the calls; expected the host")
            tools = attachment.tools(options.get("tools"), run.handoffs)
            options |= {"tools": tools} if tools else {}
            attachment.check_tools()
        others = [*_listed(self._kwargs.get("middleware")), *_listed(middleware)]
        own = [InnerMiddleware(attachment, run), ModelMiddleware(attachment, run, self.answers)]
        ordered = [OuterMiddleware(attachment, self.around, run), *others, *own]
        return {"options": options, "client_kwargs": {**self._kwargs, "middleware": ordered}}

    async def note_rejections(self) -> None:
        """Records the rejections in the messages, so that nobody can approve the same request later."""
        for content in (one for message in self._messages for one in message.contents):
            decided = decision_in(content) if content.type == "function_approval_response" else None
            if decided is None or content.approved is True or not self.around.conversation:
                continue
            if (call := self._rejected(content.function_call, decided)) is not None:
                await adrive(self._attachment.guard.lifecycle.resolve(call, Approval.read(decided[ANSWER])))

    def _begin(self, agent: str | None) -> tuple[ClientScope, ClientRun]:
        guard, session = self._attachment.guard, self._kwargs.get("session")
        handoffs, id_of_session, asks = _handoffs(self._kwargs.get("middleware")), None, False
        if isinstance(session, AgentSession) and self._kwargs.get(OWN_SESSION, True) is not False:
            asks = True
            id_of_session = None if handoffs or IN_WORKFLOW in session.state else session.session_id
        around = surroundings(self._attachment.name(), id_of_session, agent)
        run = around.run or ClientRun()
        run.handoffs, run.messages = handoffs, chat(self._messages)
        if around.conversation:
            if around.call is None:
                guard.turn(around.conversation)
            run.proposed = proposed_ids(guard, around.conversation)
        run.seen = [one for one in call_ids(self._messages, "function_result") if one not in run.proposed]
        asks = asks or bool(self._config.get("disable_approval_response_binding", False))
        return ClientScope(around.conversation, run, around.call, agent, asks=asks), run

    def _rejected(self, function_call: Any, decided: Mapping[str, Any]) -> HostCall | None:
        """Returns the call that a rejection names; None if it is not the call that was shown."""
        arguments = self._attachment.arguments.get(getattr(function_call, "name", None) or "")
        if arguments is None:
            return None
        try:
            prepared = arguments.tool._prepare_arguments(function_call.parse_arguments() or {})  # noqa: SLF001
            args, named = plain_arguments(arguments.bind(prepared)[0]), arguments.spec.name
            around = self.around
            call = HostCall(named, args, around.conversation, id=function_call.call_id, agent=around.agent)
            call = call_shown(call, decided)
            return call if call.digest == str(decided.get("digest")).partition(".")[0] else None
        except Exception:  # noqa: BLE001 - what a client sends; the host has rejected the call in any case
            return None


def _listed(middleware: Any) -> list[Any]:
    if middleware is None:
        return []
    return list(middleware) if isinstance(middleware, Sequence) else [middleware]


def _handoffs(middleware: Any) -> dict[str, str]:
    """Returns the hand-off tools that a middleware of the host's workflows carries out, with their targets."""
    for one in _listed(middleware):
        if type(one).__name__ == _HANDS_OVER:
            require_parts(one, _HANDOFFS)
    return {name: to for one in _listed(middleware) for name, to in (getattr(one, _HANDOFFS, None) or {}).items()}
