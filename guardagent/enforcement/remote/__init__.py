"""A guard whose decisions a server makes: `guardagent serve`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from guardagent._support.execution import Operation, Procedure, combine, verdict_or_denial
from guardagent.enforcement.approval import Approver
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.enforcement.conversations import NotBegunError
from guardagent.enforcement.enforcement_point import EnforcementPoint
from guardagent.enforcement.lifecycle import DeadlinePool
from guardagent.enforcement.names import AcceptedTools, Aliases, Coverage, ToolSpec, read_tools_lock
from guardagent.enforcement.remote.client import (
    ServerClient,
    SessionClient,
    checked_address,
    checked_token,
    token_source,
)
from guardagent.enforcement.remote.guard import HostFacts, RemoteConversations, ReviewerWait, wait_for_reviewers
from guardagent.enforcement.remote.lifecycle import RemoteLifecycle, sendable_outcome
from guardagent.enforcement.tool_guard import check_options
from guardagent.errors import InputError, RemoteError
from guardagent.policy.language import ANSWER, answer_arguments
from guardagent.policy.views import HostView
from guardagent.session.calls import ClaimConflictError, NotClaimedError
from guardagent.types import EMPTY, Verdict, unchecked_verdict
from guardagent.types.values import read_principal

if TYPE_CHECKING:
    from guardagent.guard import GuardAgent

__all__ = ["RemoteGuard", "wait_for_reviewers"]

TIMEOUT_SECONDS = 10.0
_REQUESTS = 512  # that can be under way at the same time
_WAITERS = 256  # calls that can wait for reviewers at the same time
_log = logging.getLogger("guardagent")


class RemoteGuard(EnforcementPoint):
    """Asks a server, `guardagent serve`, about each call of an agent's tools; every adapter takes it like a ToolGuard.

    The server has the rules, the history, the approvals and the log. This side validates arguments, holds the permit of
    an allowed call, and denies each call on which it gets no usable verdict. Threads may share a guard, and forked
    processes may inherit it.

    Args:
        url: the address of the server.
        token: the agent's token. Without it and `token_file`, the variable `GUARDAGENT_TOKEN` has it.
        token_file: the file with the token, read again for each request.
        policy: the name of the policy on the server.
        state: the state for `state(...)`, if the server has no function for it: a mapping, or a callable that returns
            it for a conversation's id. It is sent with each check.
        facts: the host's facts: a mapping, or a callable that returns one for a call (`HostCall`).
        on_behalf_of: the user on whose behalf the agent acts, if the policy's settings on the server allow the host to
            name one: a mapping with `id`, `roles` and `tenant`, or a callable that returns it for a conversation's id.
        aliases: a tool's name in the host -> its name in the rules.
        absent: tools that rules name and this agent is known not to have.
        tools_lock: the lock file of the tools that servers may list; without it the first list of each is accepted.
        approver: decides on escalated calls, in place of the host's own approval mechanism: `wait_for_reviewers()` for
            the reviewers of the server, or a function, whose answers need `approver_token`.
        views: a tool -> a function that shows its calls to reviewers, as for `ToolGuard`; its result is sent with each
            check of the tool.
        approver_token: the token of a reviewer, with which the answers of the host's reviewers are sent. Without it no
            answer of the host approves a call: only the reviewers of the server do.
        answers: judges the agent's final answers in this process, before the rules on the server do.
        timeout: the limit on each request, with its repetitions, in seconds.
        outcome_delay: for how many seconds an outcome may wait for the next check of its conversation, and go with it
            in one request; up to 1. By default `after` returns once the server has the outcome. A process that is
            killed in this time, or that goes on with the same conversation, does not have the outcome on the server.
        ca: a file with the certificates of the authorities that the server's may come from.
        allow_http: whether the token may be sent without encryption to another machine.

    Raises:
        InputError: an argument is invalid.
    """

    lifecycle: RemoteLifecycle

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        token_file: Path | str | None = None,
        policy: str = "default",
        state: Mapping[str, Any] | Callable[[str], Any] | None = None,
        facts: Mapping[str, Any] | Callable[[HostCall], Mapping[str, Any]] = EMPTY,
        on_behalf_of: Mapping[str, Any] | Callable[[str], Mapping[str, Any] | None] | None = None,
        aliases: Mapping[str, str] = EMPTY,
        absent: Collection[str] = (),
        tools_lock: Path | str | None = None,
        approver: Approver | None = None,
        approver_token: str | None = None,
        views: Mapping[str, HostView] = EMPTY,
        answers: GuardAgent | None = None,
        timeout: float = TIMEOUT_SECONDS,
        outcome_delay: float = 0.0,
        ca: Path | str | None = None,
        allow_http: bool = False,
    ) -> None:
        address = checked_address(url, allow_http=allow_http)
        check_options(
            state=state,
            facts=facts,
            principal=on_behalf_of,
            aliases=aliases,
            absent=absent,
            tools_lock=tools_lock,
            approver=approver,
            views=views,
            answers=answers,
            deadline=timeout,
        )
        if not isinstance(policy, str) or not policy:
            raise InputError(f"policy is {policy!r}; expected the name of a policy on the server")
        if type(outcome_delay) not in (int, float) or not 0 <= outcome_delay <= 1:
            raise InputError(f"outcome_delay is {outcome_delay!r}; expected seconds from 0 to 1")
        if isinstance(on_behalf_of, Mapping):
            read_principal(on_behalf_of)  # a mistake shows before the first call
        if approver_token is not None:
            checked_token(approver_token, "the approver's token")
        elif approver is not None and not isinstance(approver, ReviewerWait):
            raise InputError("the answers of 'approver' need 'approver_token'; an agent's token cannot approve")
        client = ServerClient(address, token_source(token, token_file), ca)
        self.names, self.approver, self.coverage = Aliases(aliases), approver, Coverage()
        self.answers = answers
        self.accepted = AcceptedTools(None if tools_lock is None else read_tools_lock(tools_lock))
        self._host = HostFacts(facts, state, on_behalf_of, views)
        self._sessions = SessionClient(client, policy, aliases, absent, self._host, approver_token)
        self._conversations, self._seconds, self._address = RemoteConversations(), timeout, address
        self.lifecycle = RemoteLifecycle(
            self._sessions,
            self._conversations,
            self.names,
            self.accepted,
            DeadlinePool(_REQUESTS),
            DeadlinePool(_WAITERS),
            timeout,
            approver,
            outcome_delay,
        )

    def __repr__(self) -> str:
        return f"RemoteGuard({self._address!r})"

    # --- attaching

    def attach(self, tools: Iterable[ToolSpec]) -> Coverage:
        """Has the server compare the agent's tools with the rules; see `ToolGuard.attach`.

        If the server does not answer, this only logs an error: the tools are compared before the first call then, and
        each call is denied until they are.

        Raises:
            InputError: the server refuses the tools or the token; or the declaration of a tool is not JSON.
        """
        self._sessions.set_tools(tools)
        try:
            self.coverage = self._sessions.attach(self._deadline()).coverage
        except RemoteError as error:
            if error.status is not None and error.status < 500 and not error.retried:
                raise InputError(str(error)) from None
            _log.error("the agent's tools are not attached yet: %s", error)
            return self.coverage
        for line in self.coverage.lines():
            _log.warning("attached: %s", line)
        return self.coverage

    @property
    def reloadable(self) -> bool:
        """True: the server can load another version of the policy at any time."""
        return True

    @property
    def may_escalate(self) -> bool:
        """True: only the server knows the rules."""
        return True

    def has_request(self, call: HostCall) -> bool:
        conversation = self._conversations.of(call.conversation)
        return call.digest in conversation.approvals or call.digest in conversation.host_requests

    # --- a conversation

    def notes(self, conversation: str) -> dict[Any, Any]:
        return self._conversations.of(conversation).notes

    def turn(self, conversation: str) -> None:
        """Resets the replan counter after a new user message; the next check tells the server."""
        self._conversations.of(conversation).add_turn()

    def end(self, conversation: str) -> Verdict:
        """Ends a conversation and forgets it; see `ToolGuard.end`.

        If the server does not answer, the verdict says so, and the conversation can be ended again.
        """
        known = self._conversations.of(conversation)
        try:
            verdict = self._sessions.finish(known, self._deadline())
        except RemoteError as error:
            if error.status == 404:
                self._conversations.drop(conversation)
                raise NotBegunError(f"no conversation {conversation!r} has begun on the server") from None
            return unchecked_verdict(f"the pending obligations are unknown: {error}", checked_by="policy")
        self._conversations.drop(conversation)
        return verdict

    @property
    def judges_answers(self) -> bool:
        """Whether final answers are judged; assumed true until the server reports otherwise."""
        attached = self._sessions.attached
        return self.answers is not None or attached is None or attached.judges_answers

    def _answered(
        self, conversation: str, agent_input: str, output: str, facts: Mapping[str, Any] | None
    ) -> Procedure[Verdict]:
        if self.answers is None:
            return (yield from self.lifecycle.answer_run(conversation, agent_input, output, facts))
        judge = partial(verdict_or_denial, partial(self.answers.guard, agent_input, output, facts))
        verdict: Verdict = yield Operation(judge, partial(asyncio.to_thread, judge))
        if verdict.label:  # for the server's log
            call = HostCall(ANSWER, answer_arguments(output), conversation)
            yield from self.lifecycle.refuse(call, "; ".join([*verdict.reasons, *verdict.errors]))
            return verdict
        return combine(verdict, (yield from self.lifecycle.answer_run(conversation, agent_input, output, facts)))

    def settle(self, conversation: str, call_id: str, outcome: Outcome) -> None:
        """Records the outcome of a call that any process of this agent has checked, once.

        For hosts whose tools run in another program. The same outcome may be recorded again.

        Raises:
            NotClaimedError: no call with this id was allowed.
            ClaimConflictError: the call has another outcome.
            RemoteError: the server does not answer.
        """
        known = self._conversations.of(conversation)
        try:
            self._sessions.record(known, call_id, sendable_outcome(outcome), self._deadline())
        except RemoteError as error:
            kinds = {404: NotClaimedError, 409: ClaimConflictError}
            if error.retried or error.status not in kinds:
                raise
            raise kinds[error.status](str(error)) from None

    # --- the connections

    def close(self) -> None:
        """Sends the outcomes that wait, and closes the connections to the server. Later calls are denied."""
        for conversation in self._conversations.all() if self.lifecycle.outcome_delay else ():
            self.lifecycle.flush(conversation)
        self._sessions.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _deadline(self) -> float:
        return time.monotonic() + self._seconds
