"""Events of coding agents and the answers to them, in the words of no host, and the base of the plug-ins for hosts."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

from guardagent._support.plugins import Plugins
from guardagent.errors import InputError
from guardagent.hooks.calls import remove_hooks
from guardagent.types import EMPTY


class HookKind(StrEnum):
    """The kind of an event."""

    BEFORE = "before"  # a tool is about to run
    AFTER = "after"  # it has run
    PROMPT = "prompt"  # the user has written
    STOP = "stop"  # the agent is about to end its turn
    START = "start"  # a session begins, or goes on
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class HookEvent:
    """An event.

    Attributes:
        name: the host's name of the event.
        session: the host's id of the conversation.
        cwd: the working folder of the agent.
        tool, args, call_id: the tool call; the id is empty if the host has none.
        agent: the sub-agent that proposes the call, if there is one.
        output, failed: the outcome of the call; `failed` is None if the host does not say.
        ran: False if the host says that the call never ran.
        repeated: whether the agent goes on because of an earlier answer to such an event.
        resumed: whether a stored session goes on in a new process.
    """

    kind: HookKind
    name: str
    session: str
    cwd: str = ""
    tool: str = ""
    args: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    call_id: str = ""
    agent: str | None = None
    output: Any = None
    failed: bool | None = None
    repeated: bool = False
    resumed: bool = False
    ran: bool = True


class HookDecision(StrEnum):
    """An answer: `ALLOW` leaves the decision to the host's own permissions."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """The answer to an event.

    Attributes:
        reason: for the agent and its user; never empty unless the answer allows.
        note: shown to the user, whatever the decision is.
    """

    decision: HookDecision = HookDecision.ALLOW
    reason: str = ""
    note: str = ""

    def left_to_watch(self, why: str) -> HookAnswer:
        """Returns the denial of a call that a person can approve in `guardagent watch`."""
        more = f"{why} The user can approve the call with 'guardagent watch'."
        return HookAnswer(HookDecision.DENY, f"{self.reason}\n{more}", self.note)


@dataclass(frozen=True, slots=True)
class HookOutput:
    """The answer as the host reads it: what the hook prints, and its exit status."""

    stdout: str = ""
    stderr: str = ""
    status: int = 0


HOSTS = Plugins("coding agent with hooks", "guardagent.hooks.hosts", ("Host",), group="guardagent.hook_hosts")


class HookHost(ABC):
    """One host.

    Attributes:
        title: its name.
        events: host's name of an event -> its kind; these are installed.
        asks: whether its users can be asked about a call before it runs.
        settings_path: the file with the hooks, below the folder of a project or of the user.
        local_settings_path: that of a project which teams do not commit; empty if the host has none.
        off_switch: the setting that switches all hooks off; empty if the host has none.
        seconds: the host's limit for a hook, as it is installed.
        reports_edits: whether the outcome of a call has the arguments with which it ran, in the form of the proposal.
        prompt_events: the events of hooks that may answer in place of the asked user.
        caveats: in which cases the host runs a tool although its hook did not answer, for `status` and `doctor`.
    """

    title: ClassVar[str]
    events: ClassVar[Mapping[str, HookKind]]
    asks: ClassVar[bool]
    settings_path: ClassVar[str]
    local_settings_path: ClassVar[str] = ""
    off_switch: ClassVar[str] = ""
    seconds: ClassVar[int] = 30
    reports_edits: ClassVar[bool] = True
    prompt_events: ClassVar[tuple[str, ...]] = ()
    caveats: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def read(self, payload: Mapping[str, Any]) -> HookEvent:
        """Reads an event.

        Raises:
            InputError: a field is missing or has another type.
        """

    @abstractmethod
    def write(self, event: HookEvent, answer: HookAnswer) -> HookOutput:
        """Writes an answer as the host documents it."""

    @abstractmethod
    def install(self, settings: dict[str, Any], commands: Mapping[str, str]) -> None:
        """Adds hooks to settings: event -> command. Hooks of others stay."""

    def remove(self, settings: dict[str, Any]) -> int:
        """Removes the hooks of this package from settings. Returns how many there were."""
        return remove_hooks(settings)

    def settings_file(self, project: Path | None) -> Path:
        """Returns the file with the hooks: of a project, or of the user."""
        if project is None:
            return Path.home() / self.settings_path
        return project / (self.local_settings_path or self.settings_path)

    def common_fields(
        self, payload: Mapping[str, Any], *, session: str = "session_id", call_id: str = "tool_use_id"
    ) -> HookEvent:
        """Reads the fields that all hosts have.

        Args:
            payload: the event.
            session: the host's name of the field with the conversation.
            call_id: the host's name of the field with the id of the call; empty without one.

        Raises:
            InputError: a field is missing or has another type.
        """
        name = text_field(payload, "hook_event_name")
        kind = self.events.get(name, HookKind.OTHER)
        event = HookEvent(kind, name, text_field(payload, session), text_field(payload, "cwd", ""))
        if kind not in (HookKind.BEFORE, HookKind.AFTER):
            return event
        tool, args = text_field(payload, "tool_name"), object_field(payload, "tool_input")
        return replace(event, tool=tool, args=args, call_id=text_field(payload, call_id, ""))

    def agent_files(self, project: Path | None) -> tuple[Path, ...]:
        """Returns the files that no agent of this host may change: all settings that can switch hooks off."""
        return (self.settings_file(None), *([] if project is None else [self.settings_file(project)]))

    def asks_about(self, event: HookEvent) -> bool:  # noqa: ARG002 - hosts look at it
        """Whether the host can ask its user about this call before it runs."""
        return self.asks


def text_field(payload: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Returns a field of an event.

    Raises:
        InputError: it is missing, or no string.
    """
    value = payload.get(name, default)
    if not isinstance(value, str) or (not value and default is None):
        raise InputError(f"the event has no {name!r}; expected a string")
    return value


def object_field(payload: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Returns a field of an event that is an object; a string may hold it as JSON."""
    value = payload.get(name)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, Mapping):
        raise InputError(f"the event has no {name!r}; expected an object")
    return value


def denied(reason: str) -> HookOutput:
    """Returns the denial that every host takes: status 2, with the reason on standard error."""
    return HookOutput(stderr=reason or "denied", status=2)
