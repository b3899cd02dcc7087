"""The calls that the guard allowed: claimed when they are judged, and settled by the client's results."""

from __future__ import annotations

import hashlib
import secrets
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from guardagent._support.execution import adrive, drive
from guardagent.enforcement import EnforcementPoint, HostCall, Outcome, ToolGuard
from guardagent.enforcement.conversations import NotBegunError
from guardagent.enforcement.enforcement_point import JudgedCall
from guardagent.enforcement.remote import RemoteGuard
from guardagent.errors import InputError
from guardagent.session.calls import ClaimConflictError, NotClaimedError
from guardagent.types import sorted_json, unchecked_verdict


class UnknownCallError(InputError):
    """The guard allowed no call with this id."""


@dataclass(slots=True)
class DeliveredCall:
    """A call that the guard allowed in this process.

    Attributes:
        call: the call; None if another process judged it.
        args: its arguments, as text.
        result: the digest of its result; None while it is in flight.
    """

    call: HostCall | None
    args: str = ""
    result: str | None = None


class CallRecords(ABC):
    """Judges the calls of responses, and records the results that clients send.

    Args:
        guard: decides.
    """

    def __init__(self, guard: EnforcementPoint) -> None:
        self.guard = guard

    def allowed(self, conversation: str) -> dict[str, DeliveredCall]:
        """Returns the allowed calls of a conversation by their ids, as far as this process knows them."""
        found: dict[str, DeliveredCall] = self.guard.notes(conversation).setdefault("litellm", {})
        return found

    async def judge(self, call: HostCall) -> JudgedCall:
        """Judges a call. One that is allowed is in flight, until its result comes."""
        known = self.allowed(call.conversation or "")
        if call.id in known:
            problem = f"the id {call.id!r} belongs to another call of this conversation; expected a new id"
            return await self.guard.arefuse(call, problem), call
        known[call.id] = DeliveredCall(call)  # before anything is awaited: a parallel request may have the same id
        allowed = False
        try:
            verdict, judged = await self._judged(call)
            allowed = verdict.label == 0
        finally:
            if not allowed:
                known.pop(call.id, None)
        if allowed:
            known[call.id] = DeliveredCall(judged, sorted_json(judged.args))
        return verdict, judged

    def check_shown(self, conversation: str, call_id: str, name: str, args: Any) -> None:
        """Compares a call in a client's messages with the one that was judged.

        Raises:
            InputError: it is another one.
        """
        known = self.allowed(conversation).get(call_id)
        if known is None:
            found = self._found(conversation, call_id)
        elif known.call is None:
            return  # the guard's server knows it, and has recorded its result
        else:
            found = known.call.tool, known.args
        if found is None:
            raise UnknownCallError(
                f"the messages show the call {call_id!r} of {name!r}, which this guard never allowed"
            )
        tool, judged = found
        if tool not in (name, self.guard.names.resolve(name)) or judged != sorted_json(args):
            raise InputError(
                f"the messages show the call {call_id!r} of {name!r} with other arguments than the judged ones"
            )

    def settle(self, conversation: str, call_id: str, outcome: Outcome) -> None:
        """Records the result of a call, once. The same result may be shown again.

        Raises:
            UnknownCallError: no such call was allowed.
            InputError: the call has another result.
        """
        known, result = self.allowed(conversation).get(call_id), _digest(outcome)
        if known is not None and known.result is not None:
            if known.result != result:
                raise InputError(f"the call {call_id!r} has another result already; expected that one")
            return
        try:
            self._settle(conversation, call_id, outcome, known)
        except (NotClaimedError, NotBegunError):
            raise UnknownCallError(f"this guard allowed no call {call_id!r}, so it has no result") from None
        except ClaimConflictError:
            raise InputError(f"the call {call_id!r} has another result already; expected that one") from None
        if (settled := self.allowed(conversation).get(call_id)) is not None:
            settled.result = result

    async def withdraw(self, call: HostCall, why: str) -> None:
        """Withdraws an allowed call that no client gets."""
        self.allowed(call.conversation or "").pop(call.id, None)
        await self._withdraw(call, why)

    # --- implemented for each kind of guard

    def new_claim(self) -> str | None:
        """Returns the claim of a new call: another response with its id is another call. None without claims."""
        return None

    @abstractmethod
    async def _judged(self, call: HostCall) -> JudgedCall:
        """Judges a call, and marks it as started."""

    @abstractmethod
    def _found(self, conversation: str, call_id: str) -> tuple[str, str] | None:
        """Returns the tool and the arguments, as text, of a call of another process; None if they are unknown."""

    @abstractmethod
    def _settle(self, conversation: str, call_id: str, outcome: Outcome, known: DeliveredCall | None) -> None:
        """Records a result.

        Raises:
            NotClaimedError, NotBegunError: no such call was allowed.
            ClaimConflictError: the call has another result.
        """

    @abstractmethod
    async def _withdraw(self, call: HostCall, why: str) -> None:
        """Withdraws a call that never ran."""


class LocalRecords(CallRecords):
    """Records in the ledger of a ToolGuard: any process that shares it can settle a call."""

    guard: ToolGuard

    def new_claim(self) -> str:
        return secrets.token_hex(16)

    async def _judged(self, call: HostCall) -> JudgedCall:
        return await adrive(self.guard.lifecycle.judge(call))

    def _found(self, conversation: str, call_id: str) -> tuple[str, str] | None:
        found = self.guard.claimed_calls.session(conversation).claimed(call_id)
        return None if found is None or found.status == "withdrawn" else (found.tool, sorted_json(found.args))

    def _settle(self, conversation: str, call_id: str, outcome: Outcome, known: DeliveredCall | None) -> None:  # noqa: ARG002 - one interface
        self.guard.claimed_calls.record(conversation, call_id, outcome)

    async def _withdraw(self, call: HostCall, why: str) -> None:
        self.guard.claimed_calls.withdraw(str(call.conversation), call.id, why)


class OtherRecords(CallRecords):
    """Records of any other guard, such as a RemoteGuard, whose permits this process holds."""

    async def _judged(self, call: HostCall) -> JudgedCall:
        verdict, judged = await adrive(self.guard.lifecycle.judge(call))
        if verdict.label == 0:
            try:
                await self.guard.ause(judged)
            except InputError as error:
                return unchecked_verdict(str(error), checked_by="policy"), judged
        return verdict, judged

    def _found(self, conversation: str, call_id: str) -> tuple[str, str] | None:  # noqa: ARG002 - one interface
        return None

    def _settle(self, conversation: str, call_id: str, outcome: Outcome, known: DeliveredCall | None) -> None:
        if known is not None and known.call is not None:
            drive(self.guard.lifecycle.after(known.call, outcome))
            return
        if not isinstance(self.guard, RemoteGuard):
            raise NotClaimedError
        self.guard.settle(conversation, call_id, outcome)  # another process of the proxy judged it
        self.allowed(conversation).setdefault(call_id, DeliveredCall(None))

    async def _withdraw(self, call: HostCall, why: str) -> None:
        await self.guard.awithdraw(call, why, used=True)


def records_of(guard: EnforcementPoint) -> CallRecords:
    """Returns the records of a guard's calls."""
    return LocalRecords(guard) if isinstance(guard, ToolGuard) else OtherRecords(guard)


def _digest(outcome: Outcome) -> str:
    text = sorted_json([outcome.output, outcome.failed, list(outcome.other_outputs)])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
