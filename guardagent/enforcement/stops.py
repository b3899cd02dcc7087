"""Stops: calls that no agent may make until a person lifts the stop, whatever the rules say.

A stop names a tenant, an agent, a session and a tool, or some of them, and covers the calls that fit all that it names.
A guard looks at the stops before the rules, and again before a call that was allowed runs. In one process, or in
several on one machine, a `StopFile` has them; a server shares its own among all that use its state.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from guardagent._support.files import folder_lock, read_bytes, save_text
from guardagent._support.json_values import loads
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.names import Aliases
from guardagent.enforcement.wire import dumps
from guardagent.errors import GuardError, InputError
from guardagent.policy.dispatch import UnreadableCallError, called_tools
from guardagent.policy.policies import Policies
from guardagent.types import EMPTY, Decision, Verdict, unchecked_verdict

MAX_REASON = 1_000  # characters
_MAX_BYTES = 10_000_000
_LAG_SECONDS = 60.0  # after a reload, in which other servers may still open sessions under the version before
_NAMES = ("tenant", "agent", "session", "tool", "policy", "version")


class NoSuchStopError(InputError):
    """No stop has this id, or it was lifted."""


@dataclass(frozen=True, slots=True)
class CallPlace:
    """A call as stops see it.

    Attributes:
        tenant: whose agent makes it; None in a guard that has no tenants.
        agents: the names of the agent: its caller on a server, and its name in its framework.
        session: the id of the session, or of the conversation.
        tools: the host's name and the rules' name of the tool, those of tools that it calls, and their tags with `@`.
        policy, version, created: of a session on a server: the name and the digest of its policy, and its beginning.
    """

    tenant: str | None
    agents: frozenset[str]
    session: str
    tools: frozenset[str]
    policy: str | None = None
    version: str | None = None
    created: float = 0.0


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop.

    Attributes:
        id: its id.
        reason: why.
        by: the id of the person, or of what made it.
        since, until: in seconds since the epoch; without an end it lasts until it is lifted.
        tenant, agent, session, tool: the calls that it covers; None covers all. A tool may be a tag such as `@money`.
        policy, version: if named, sessions of a policy that were opened before the stop, or soon after it by a server
            that did not know the version yet, and run under another version.
        migrates: whether such a session may go on, once its history was replayed under the version.
    """

    id: str
    reason: str
    by: str
    since: float
    until: float | None = None
    tenant: str | None = None
    agent: str | None = None
    session: str | None = None
    tool: str | None = None
    policy: str | None = None
    version: str | None = None
    migrates: bool = False

    @classmethod
    def of(cls, values: Any) -> Stop:
        """Reads a stop from JSON.

        Raises:
            InputError: it is not one.
        """
        try:
            stop = cls(**values)
            texts = (stop.id, stop.reason, stop.by, *(value for value in stop.named.values()))
            numbers = (stop.since, 0 if stop.until is None else stop.until)
            is_valid = all(isinstance(text, str) and text for text in texts) and type(stop.migrates) is bool
            is_valid = is_valid and all(type(number) in (int, float) for number in numbers)
        except TypeError:
            is_valid = False
        if not is_valid:
            raise InputError("a stop is invalid; expected an object with 'id', 'reason', 'by' and 'since'")
        return stop

    @property
    def named(self) -> dict[str, str]:
        """The names in it."""
        return {name: value for name in _NAMES if (value := getattr(self, name)) is not None}

    @property
    def json(self) -> dict[str, Any]:
        """The stop as JSON."""
        content = asdict(self)
        if not self.migrates:  # so that servers of an earlier release can read it
            del content["migrates"]
        return content

    def covers(self, place: CallPlace, now: float) -> bool:
        """Whether a call falls under it at a time."""
        return (
            (self.until is None or now < self.until)
            and self.tenant in (None, place.tenant)
            and (self.agent is None or self.agent in place.agents)
            and self.session in (None, place.session)
            and (self.tool is None or self.tool in place.tools)
            and (self.policy is None or self.is_of_earlier(place.policy, place.version, place.created))
        )

    def is_of_earlier(self, policy: str | None, version: str | None, created: float) -> bool:
        """Whether a session runs under an earlier version of the policy that it names."""
        return self.policy == policy and self.version != version and created < self.since + _LAG_SECONDS

    @property
    def verdict(self) -> Verdict:
        """The verdict on a call that it covers. If it names no tool, no other call of the agent would pass either."""
        decision = Decision.HALT if self.tool is None else Decision.DENY
        return Verdict(decision, reasons=(self.text,), checked_by="policy", details={"stop": self.id})

    @property
    def text(self) -> str:
        """The reason, for the model and for people."""
        named = ", ".join(f"{name} {value}" for name, value in self.named.items()) or "everything"
        end = "a person has to lift the stop" if self.until is None else "it ends by itself later"
        return f"stopped by {self.by} ({named}): {self.reason}; {end}"


def new_stop(
    reason: str,
    by: str,
    named: Mapping[str, str | None] = EMPTY,
    *,
    seconds: float | None = None,
    clock: Callable[[], float] = time.time,
    migrates: bool = False,
) -> Stop:
    """Returns a stop that begins now.

    Args:
        reason: why, up to 1,000 characters.
        by: who makes it.
        named: `tenant`, `agent` and the like, as of `Stop`.
        seconds: after how many it ends; None for a person to lift it.
        clock: returns the seconds since the epoch.
        migrates: as of `Stop`.

    Raises:
        InputError: the reason is missing or too long, a name is empty, or the seconds are not a positive number.
    """
    if seconds is not None and not (type(seconds) in (int, float) and 0 < seconds < math.inf):
        raise InputError(
            f"the stop lasts {seconds!r} seconds; expected a positive number, or nothing until it is lifted"
        )
    if not reason.strip() or len(reason) > MAX_REASON:
        raise InputError(f"the reason has {len(reason):,} characters; expected a reason of up to {MAX_REASON:,}")
    for name, value in named.items():
        if value is not None and not value.strip(" @"):
            raise InputError(f"'{name}' is {value!r}; expected a name, or nothing to stop all")
    now = clock()
    stop_id = f"st_{secrets.token_hex(8)}"
    until = None if seconds is None else now + seconds
    return Stop(stop_id, reason.strip(), by, now, until, **named, migrates=migrates)


class Stops(Protocol):
    """The source of a guard's stops."""

    def covering(self, call: HostCall, tools: Callable[[], frozenset[str]]) -> Stop | None:
        """Returns a stop that covers a call; `tools` returns the tool's names and tags.

        Raises:
            GuardError: the stops are unknown.
        """

    def halt_tool(self, call: HostCall, tool: str, why: str) -> Stop:
        """Stops a tool, by the rules' name, for all sessions of the tenant that makes a call. Returns the stop.

        Raises:
            GuardError: it cannot be stopped now.
        """


GUARD = "the guard"  # makes the stops of rules


class StopFile:
    """The stops in a file, which the processes of one machine share. Its absence denies, as do unreadable contents.

    Args:
        path: the path.
        create: whether a file that is missing is created, in an existing folder.
        clock: returns the seconds since the epoch.

    Raises:
        InputError: the file is missing, cannot be created, or is not one of stops.
    """

    def __init__(self, path: Path | str, *, create: bool = False, clock: Callable[[], float] = time.time) -> None:
        self.path, self._clock = Path(path).absolute(), clock
        self._seen: tuple[int, ...] = ()
        self._stops: tuple[Stop, ...] = ()
        self._lock = threading.Lock()
        if create and not self.path.exists():
            self._change(lambda stops: stops)
        self.stops()

    def covering(self, call: HostCall, tools: Callable[[], frozenset[str]]) -> Stop | None:
        """As of `Stops`."""
        if not (stops := self.stops()):
            return None
        agents = frozenset() if call.agent is None else frozenset({call.agent})
        place, now = CallPlace(None, agents, str(call.conversation), tools()), self._clock()
        return next((stop for stop in stops if stop.covers(place, now)), None)

    def stops(self) -> tuple[Stop, ...]:
        """Returns the stops that were not lifted.

        Raises:
            InputError: the file is missing or unreadable.
        """
        try:
            status = os.stat(self.path)  # noqa: PTH116 - faster, and for each call
        except OSError as error:
            raise InputError(
                f"{self.path}: the stop file cannot be read: {error.strerror}; guards with it let no call run; "
                "expected the file that a guard or 'guardagent mcp-proxy' created when it started"
            ) from None
        seen = status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size
        if seen != self._seen:
            with self._lock:
                self._stops, self._seen = self._read(), seen  # `seen` last: another thread may look at it first
        return self._stops

    def add(self, stop: Stop) -> None:
        """Adds a stop. From now on, no guard with this file allows a call that it covers.

        Raises:
            InputError: the file cannot be written.
        """
        if stop.tenant is not None:
            raise InputError("a stop file has no tenants; expected a stop without a tenant, or one on a server")
        self._change(lambda stops: (*stops, stop))

    def halt_tool(self, _call: HostCall, tool: str, why: str) -> Stop:
        """As of `Stops`."""
        stop = new_stop(why, GUARD, {"tool": tool}, clock=self._clock)
        self.add(stop)
        return stop

    def lift(self, name: str) -> Stop:
        """Lifts a stop, and returns it.

        Raises:
            NoSuchStopError: it has none with this id.
            InputError: the file cannot be written.
        """
        lifted = next((stop for stop in self._read() if stop.id == name), None)
        if lifted is None:
            raise NoSuchStopError(f"{self.path}: there is no stop {name!r}; 'guardagent stops list' shows them")
        self._change(lambda stops: tuple(stop for stop in stops if stop.id != name))
        return lifted

    def _change(self, change: Callable[[tuple[Stop, ...]], tuple[Stop, ...]]) -> None:
        try:
            with folder_lock(self.path.parent):
                stops = change(self._read() if self.path.exists() else ())
                text = dumps({"stops": [stop.json for stop in stops]}).decode()
                save_text(self.path, text + "\n", mode=0o600)
        except OSError as error:
            raise InputError(f"{self.path}: the stop file cannot be written: {error.strerror}") from None

    def _read(self) -> tuple[Stop, ...]:
        try:
            return _stops_in(loads(read_bytes(self.path, _MAX_BYTES)))
        except (ValueError, TypeError, KeyError, InputError) as error:
            raise InputError(
                f"{self.path}: the stop file is damaged, so no call may run: {error}; "
                "expected what 'guardagent stop --file' wrote"
            ) from None


def _stops_in(content: Any) -> tuple[Stop, ...]:
    stops = content.get("stops") if isinstance(content, dict) else None
    if not isinstance(stops, list):
        raise InputError("it has no list 'stops'")
    return tuple(map(Stop.of, stops))


def tools_of(call: HostCall, names: Aliases, policies: Policies) -> frozenset[str]:
    """Returns the names of a call's tool as `CallPlace` has them."""
    tool = names.resolve(call.tool)
    tools = {tool}
    with contextlib.suppress(UnreadableCallError):  # such a call is denied in any case
        tools.update(called_tools(getattr(policies, "dispatch", EMPTY), tool, call.args))
    tags: Mapping[str, frozenset[str]] = getattr(policies, "tags", {})
    tagged = {tag for tag, tagged_tools in tags.items() if not tools.isdisjoint(tagged_tools)}
    return frozenset({call.tool, *tools, *(f"@{tag.removeprefix('@')}" for tag in (*tagged, *call.tags))})


def stop_verdict(stops: Stops, call: HostCall, names: Aliases, policies: Policies) -> Verdict | None:
    """Returns the denial of a call that is stopped, or whose stops are unknown; None if it is not stopped."""
    try:
        stop = stops.covering(call, partial(tools_of, call, names, policies))
    except GuardError as error:
        return unchecked_verdict(str(error), checked_by="policy")
    return None if stop is None else stop.verdict


def stops_of(stop_file: Path | str | Stops | None) -> Stops | None:
    """Returns the stops of a guard's option.

    Raises:
        InputError: as for `StopFile`.
    """
    return StopFile(stop_file, create=True) if isinstance(stop_file, str | Path) else stop_file
