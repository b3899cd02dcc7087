"""Running sessions go on under another version of their policy, which replays their histories.

The history of a session in the ledger has its calls with their outcomes, but not the state, the messages and the
counters at those times. A version with a rule that would have to remember something of that is not put into force for
the session, which then stays under a stop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from guardagent.batch.replay.conversation import STATE, LoggedCall, LogStep, ReplayedConversation, ReplayPolicy
from guardagent.errors import InputError, LedgerError
from guardagent.policy.dispatch import inner_call
from guardagent.policy.evaluation.call_outcomes import is_failure
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.language import ast
from guardagent.policy.language.values import MICROSECONDS
from guardagent.policy.policies import Policies
from guardagent.server.service.guards import GuardCache, HostSession, HostSessions
from guardagent.server.service.policies import PolicyCatalogue
from guardagent.server.service.stores import ServerStores
from guardagent.types import EMPTY, freeze

_OF_MESSAGES = (ast.Sources, ast.Seen, ast.MessagesText)


class SessionMigration:
    """Moves sessions to another version of their policy.

    Args:
        catalogue: the policies.
        stores: the ledger and the logs.
        sessions: the sessions.
        guards: the guards of the versions.
    """

    def __init__(
        self, catalogue: PolicyCatalogue, stores: ServerStores, sessions: HostSessions, guards: GuardCache
    ) -> None:
        self._catalogue, self._stores, self._sessions, self._guards = catalogue, stores, sessions, guards

    def move(self, session: HostSession, digest: str) -> HostSession:
        """Lets a session go on under a version, for all servers. Returns it as it is stored then.

        The entry that does this has its place in the history: no server adds to the history under another version
        after it. A server that is killed before it stores the session leaves that to the next one.

        Raises:
            GuardError: the version cannot take over the session, which stays as it is.
            HistoryChangedError: another server has added to the history.
        """
        version = self._catalogue.version(session.policy, digest)
        if version is None:
            raise LedgerError(f"this server does not have version {digest[:12]} of the policy {session.policy!r}")
        _require_same_messages(self._catalogue.version(session.policy, session.digest), version)
        self._guards.of(replace(session, digest=digest))  # its rules fit the tools
        journal = self._stores.ledger.journal(session.conversation, digest)
        recorded = journal.earlier()
        if recorded and recorded[-1][0] != digest:  # else another server was killed after this step
            zone = self._catalogue.settings(session.policy, session.tenant).zone
            memory = replayed_memory(version, (entry for _, entry in recorded), zone)
            journal.append({"migrated": session.digest, **memory})
        about = {"conversation": session.conversation, "policy": digest, "earlier": session.digest}
        self._stores.log(session.tenant).append({"kind": "policy", "name": session.policy, **about})
        return self._sessions.change(session, digest=digest)


def reads_messages(version: Policies) -> bool:
    """Whether the host has to send the messages of the conversation with its calls."""
    return version.sources is not None or version.asks_models


def _require_same_messages(earlier: Policies | None, later: Policies) -> None:
    """Requires that a host sends what a later version reads: it was told at the beginning what that is.

    Raises:
        InputError: the versions differ in it, or this server does not have the earlier one.
    """
    if reads_messages(later) and (earlier is None or not reads_messages(earlier) or earlier.sources != later.sources):
        raise InputError("the new version reads messages, or has labels, that the version before does not")
    if later.judges_answers and not (earlier is not None and earlier.judges_answers):
        raise InputError("the new version judges final answers, which the agent's host does not send")


def replayed_memory(version: Policies, entries: Iterable[Mapping[str, Any]], zone: str | None) -> dict[str, Any]:
    """Returns what the rules of a version remember of a recorded history, as its next entry has it.

    Raises:
        InputError: they would have to remember what the history does not hold.
    """
    candidate = ReplayPolicy(version)
    replayed, calls = ReplayedConversation(candidate, STATE, for_memory=True), list[LoggedCall]()
    for entry in entries:
        if "placed" in entry:
            call = SessionCall.loaded(len(calls) + 1, entry["placed"])
            _require_same_tool(version, call)
            calls.append(_logged(call, zone))
            _, judged = replayed.judge(calls[-1])
            replayed.reserve(judged)
            for number, _ in judged.call.applicability.stateful:
                rule = version.rule_of[number]
                if any(isinstance(node, _OF_MESSAGES) for read in rule.rules for node in ast.walk(read)):
                    raise InputError(f"rule {rule.id!r} would have to remember messages or labels of earlier calls")
        elif "settled" in entry:
            ended, status, output = calls[entry["settled"] - 1], entry["status"], freeze(entry["output"])
            if entry.get("lost"):
                raise InputError(f"the history does not hold the output of an earlier call of {ended.tool!r}")
            pattern = version.failed_output
            if pattern is not None and status in ("ok", "unknown") and is_failure(pattern, output):
                raise InputError(
                    f"'failed_output' of the new version alone matches an earlier output of {ended.tool!r}"
                )
            replayed.settle(LogStep("outcome", None, ended, status=status, output=output), final=True)
    return replayed.memory()


def _logged(call: SessionCall, zone: str | None) -> LoggedCall:
    """A call of a history as a replay takes it."""
    return LoggedCall(
        EMPTY,
        call.tool,
        call.args,
        call.facts,
        call.action,
        call.decision,
        call.tags,
        call.id,
        place=call.place,
        nonce=str(call.place),
        time=None if call.time is None else call.time / MICROSECONDS,
        zone=zone,
        principal=call.principal,
        agent=call.agent,
    )


def _require_same_tool(version: Policies, call: SessionCall) -> None:
    """Requires that a version sees the same call in what the host ran.

    Raises:
        InputError: it does not, since it reads tools that call others in another way.
    """
    if inner_call(version.dispatch, *call.runs) != (call.tool, call.args):
        raise InputError(f"the new version sees another call in an earlier one of {call.runs[0]!r} ('dispatch:')")
