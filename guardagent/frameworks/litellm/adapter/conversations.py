"""The callers of the proxy, their conversations, and the calls that the guard allowed in these.

A call is claimed when it is judged, and settled by the client's results. After denials, the proxy can ask the model
again with their reasons. A caller is a key, with its conversation and the principal that policies read.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import uuid
import weakref
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from litellm.integrations.custom_guardrail import get_session_id_from_request_data
from litellm.proxy import proxy_server
from litellm.proxy.route_llm_request import route_request

from guardagent._support.execution import adrive, drive
from guardagent.enforcement import EnforcementPoint, HostCall, Outcome, ToolGuard
from guardagent.enforcement.conversations import NotBegunError
from guardagent.enforcement.lifecycle import JudgedCall
from guardagent.enforcement.remote import RemoteGuard
from guardagent.errors import InputError
from guardagent.session.calls import ClaimConflictError, NotClaimedError
from guardagent.types import sorted_json, unchecked_verdict

_log = logging.getLogger("guardagent")


# --- allowed calls


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
        delivered_calls: dict[str, DeliveredCall] = self.guard.notes(conversation).setdefault("litellm", {})
        return delivered_calls

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
            recorded = self._recorded_call(conversation, call_id)
        elif known.call is None:
            return  # the guard's server knows it, and has recorded its result
        else:
            recorded = known.call.tool, known.args
        if recorded is None:
            raise UnknownCallError(
                f"the messages show the call {call_id!r} of {name!r}, which this guard never allowed"
            )
        tool, judged = recorded
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
    def _recorded_call(self, conversation: str, call_id: str) -> tuple[str, str] | None:
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

    def _recorded_call(self, conversation: str, call_id: str) -> tuple[str, str] | None:
        call = self.guard.claimed_calls.session(conversation).claimed(call_id)
        return None if call is None or call.status == "withdrawn" else (call.tool, sorted_json(call.args))

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

    def _recorded_call(self, conversation: str, call_id: str) -> tuple[str, str] | None:  # noqa: ARG002 - one interface
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


# --- open conversations

_MOST = 1000


class OpenConversations:
    """Forgets conversations that are idle, if a ledger keeps them: the next request reads them again.

    Args:
        guard: has the conversations.
        most: the number of conversations in memory.
    """

    def __init__(self, guard: EnforcementPoint, most: int = _MOST) -> None:
        self._guard, self._most = guard, most
        self._order: OrderedDict[str, None] = OrderedDict()
        self._users: Counter[str] = Counter()
        self._left: deque[str] = deque()

    def enter(self, conversation: str, user: object) -> None:
        """Keeps a conversation as long as its user lives."""
        self._users[conversation] += 1
        self._order[conversation] = None
        self._order.move_to_end(conversation)
        weakref.finalize(user, self._left.append, conversation)  # no lock: the collector may run anywhere
        self._forget_idle()

    def _forget_idle(self) -> None:
        while self._left:
            self._users[self._left.popleft()] -= 1
        for conversation in list(self._order) if len(self._order) > self._most else ():
            if self._users[conversation] <= 0 and len(self._order) > self._most:
                del self._order[conversation], self._users[conversation]
                if isinstance(self._guard, ToolGuard):
                    self._guard.release(conversation)


# --- another response of the model

_OF_THE_FIRST = frozenset(
    {"litellm_logging_obj", "litellm_call_id", "stream", "stream_options", "deployment", "guardrail_to_apply"}
)
_METADATA = ("metadata", "litellm_metadata")


async def ask_again(data: Mapping[str, Any], auth: Any, call_type: str) -> Any:
    """Returns another response to a request, from the same model group; None if there is none."""
    request = {name: value for name, value in data.items() if name not in _OF_THE_FIRST}
    request |= {name: dict(request[name]) for name in _METADATA if isinstance(request.get(name), dict)}
    request |= {"litellm_call_id": str(uuid.uuid4()), "stream": False}
    if not isinstance(request.get("tool_choice", "auto"), str) or request.get("tool_choice") == "required":
        request["tool_choice"] = {"type": "auto"} if call_type == "anthropic_messages" else "auto"
    try:
        answering = await route_request(
            data=request,
            llm_router=proxy_server.llm_router,
            user_model=proxy_server.user_model,
            route_type=call_type,  # type: ignore[arg-type, unused-ignore]  # the host's own name of it
            user_api_key_dict=auth,
        )
        return await answering
    except Exception:  # noqa: BLE001 - whatever the host raises, the denial stands
        _log.exception("the model could not be asked again, so the client gets the reasons of the denials")
        return None


# --- the caller

HEADER = "x-guardagent-conversation"
RolesFrom = Literal["team", "key"]
_MAX_ID = 512

_caller: ContextVar[tuple[Any, RolesFrom] | None] = ContextVar("guardagent_litellm_caller", default=None)


def conversation_of(data: Mapping[str, Any], auth: Any, header: str = HEADER) -> str | None:
    """Returns the id of a request's conversation, within the scope of its key; None if the request names none.

    The header comes first, then the session id of the host.

    Raises:
        InputError: the id is too long.
    """
    request = data.get("proxy_server_request") or {}
    headers = {str(name).lower(): header for name, header in (request.get("headers") or {}).items()}
    name = headers.get(header.lower()) or get_session_id_from_request_data(data)
    if not isinstance(name, str) or not name.strip():
        return None
    if len(name) > _MAX_ID:
        raise InputError(f"the id of the conversation has {len(name)} characters; expected at most {_MAX_ID}")
    return f"{scope_of(auth)}:{name.strip()}"


def scope_of(auth: Any) -> str:
    """Returns the scope of a key's conversations: no other key can name one of them."""
    key = getattr(auth, "api_key", None) or getattr(auth, "token", None)
    named = ["key", str(key)] if key else ["user", str(getattr(auth, "user_id", None) or "")]
    named += [str(getattr(auth, name, None) or "") for name in ("team_id", "org_id")]
    return hashlib.sha256("\0".join(named).encode("utf-8", "surrogatepass")).hexdigest()[:32]


@contextmanager
def calling(auth: Any, roles_from: RolesFrom) -> Iterator[None]:
    """Checks inside are on behalf of this caller."""
    token = _caller.set((auth, roles_from))
    try:
        yield
    finally:
        _caller.reset(token)


def principal(conversation: str) -> dict[str, Any] | None:  # noqa: ARG001 - as a ToolGuard calls it
    """Returns the principal of the caller whose request is judged, for `ToolGuard(principal=...)`.

    Its `id` is the user of the key, or the alias of the key; its `tenant` is the team. Its `roles` are those in the
    metadata of the team, or, with `roles_from: key`, of the key and the team.
    """
    principal = _caller.get()
    if principal is None:
        return None
    auth, roles_from = principal
    name = getattr(auth, "user_id", None) or getattr(auth, "key_alias", None) or f"key {scope_of(auth)[:12]}"
    team, roles = getattr(auth, "team_id", None), _roles(auth, roles_from)
    return {"id": str(name)} | ({"tenant": str(team)} if team else {}) | ({"roles": roles} if roles is not None else {})


def _roles(auth: Any, roles_from: RolesFrom) -> list[str] | None:
    places = ("team_metadata", "metadata") if roles_from == "key" else ("team_metadata",)
    lists = [(getattr(auth, place, None) or {}).get("roles") for place in places]
    if all(role_list is None for role_list in lists):
        return None
    return sorted({str(role) for role_list in lists if isinstance(role_list, list | tuple) for role in role_list})
