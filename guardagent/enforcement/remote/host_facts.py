"""The context of a call that the host sends: facts, the state, and the user."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.wire import write_value
from guardagent.errors import InputError, error_text
from guardagent.types import thaw

_log = logging.getLogger("guardagent")


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The options of the host.

    Attributes:
        facts: the facts, or a function that returns them for a call.
        sent_state: the state, or a function that returns it for a conversation; None if the server has its own.
        on_behalf_of: the user, or a function that returns one for a conversation; None for the caller of the token.
    """

    facts: Mapping[str, Any] | Callable[[HostCall], Mapping[str, Any]]
    sent_state: Any
    on_behalf_of: Mapping[str, Any] | Callable[[str], Mapping[str, Any] | None] | None

    def of_call(self, call: HostCall) -> Mapping[str, Any]:
        """Returns the facts of a call.

        Raises:
            InputError: the host's function failed.
        """
        found = _result("facts", self.facts, call)
        if not isinstance(found, Mapping):
            raise InputError(f"the facts are a {type(found).__name__}; expected a mapping of names to values")
        return found

    def state(self, conversation: str) -> dict[str, Any]:
        """Returns the field of a request with the state; empty if the server has its own.

        Raises:
            InputError: the host's function failed, or the state is not JSON.
        """
        found = _result("state", self.sent_state, conversation)
        return {} if self.sent_state is None else {"state": write_value(thaw(found), "state")}

    def user(self, conversation: str) -> dict[str, Any]:
        """Returns the field of a request with the user; empty for the caller of the token.

        Raises:
            InputError: the host's function failed, or the user is not JSON.
        """
        found = _result("user", self.on_behalf_of, conversation)
        return {} if found is None else {"on_behalf_of": write_value(found, "on_behalf_of")}


def _result(name: str, value: Any, about: Any) -> Any:
    if not callable(value):
        return value
    try:
        return value(about)
    except Exception as error:  # noqa: BLE001 - a host's function
        _log.error("the %s of the host is unavailable: %s", name, error_text(error))
        raise InputError(f"the {name} is unavailable: {type(error).__name__}") from None  # the model sees no more
