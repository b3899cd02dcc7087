"""A host of coding agents: the base of the plug-ins in `hosts/`."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from guardagent._support.plugins import Plugins
from guardagent.errors import InputError
from guardagent.hooks.hook_event import HookAnswer, HookDecision, HookEvent, HookKind, HookOutput

HOSTS = Plugins("coding agent with hooks", "guardagent.hooks.hosts", ("Host",), group="guardagent.hook_hosts")


class HookHost(ABC):
    """One host.

    Attributes:
        title: its name.
        documentation: the version of its documentation that was read.
        events: host's name of an event -> its kind; these are installed.
        asks: whether its users can be asked about a call before it runs.
        seconds: the host's limit for a hook, as it is installed.
        caveats: in which cases the host runs a tool although its hook did not answer, for `status` and `doctor`.
    """

    title: ClassVar[str]
    documentation: ClassVar[str]
    events: ClassVar[Mapping[str, HookKind]]
    asks: ClassVar[bool]
    seconds: ClassVar[int] = 30
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
    def settings_file(self, project: Path | None) -> Path:
        """Returns the file with the hooks: of a project, or of the user."""

    @abstractmethod
    def install(self, settings: dict[str, Any], commands: Mapping[str, str]) -> None:
        """Adds hooks to settings: event -> command. Hooks of others stay."""

    @abstractmethod
    def remove(self, settings: dict[str, Any]) -> int:
        """Removes the hooks of this package from settings. Returns how many there were."""

    def agent_files(self, project: Path | None) -> tuple[Path, ...]:
        """Returns the files that no agent of this host may change: all settings that can switch hooks off."""
        return (self.settings_file(None), *([] if project is None else [self.settings_file(project)]))

    def answer_for(self, answer: HookAnswer) -> HookAnswer:
        """Returns the answer that the host can express: a host that cannot ask denies."""
        if answer.decision is HookDecision.ASK and not self.asks:
            more = "This host cannot ask its user here. The user can approve the call with 'guardagent watch'."
            return HookAnswer(HookDecision.DENY, f"{answer.reason}\n{more}", answer.note)
        return answer


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
    """As `text_field`, for an object; a string may hold it as JSON."""
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
