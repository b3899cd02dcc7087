"""A route of the interface: its address, who may use it, and its request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from guardagent.server.access import AccessedOperation, Caller
from guardagent.server.service.guard_service import GuardService, HostRequest

Schema = Mapping[str, Any]
NO_FIELDS: Schema = {"type": "object", "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request of a known caller.

    Attributes:
        path: the parts of the address.
        query: the options of the address.
        body: the JSON value of the body; an empty mapping without one.
        key: the header `Idempotency-Key`.
        server: the application, with its metrics and its document.
    """

    caller: Caller
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    key: str | None = None
    server: Any = None

    @property
    def of_host(self) -> HostRequest:
        """The request for the operations of agents' hosts."""
        return HostRequest(self.caller, self.body, self.key)


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """A route.

    Attributes:
        path: its address, with parts in braces.
        operation: what it does, which determines the roles that may use it.
        handle: does it; the result is the JSON of the answer.
        summary: a line for the documentation.
        body: the schema of the request's body; None if it has none.
        query: the options of the address, with their descriptions.
        status: the status of the answer.
        journaled: whether the history itself recognizes a repeated request.
        secret: whether the answer is not kept for a repeated request.
        kind: the type of the answer.
    """

    method: str
    path: str
    operation: AccessedOperation
    handle: Callable[[GuardService, ApiRequest], Any]
    summary: str
    body: Schema | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
    journaled: bool = False
    secret: bool = False
    kind: str = "application/json"

    @property
    def has_verdict(self) -> bool:
        """Whether the answer has a verdict, so that an error is a denial."""
        judges = self.operation in (AccessedOperation.CALL, AccessedOperation.JUDGE)
        return judges and self.path.rpartition("/")[2] in ("check", "refuse", "resolve", "answer", "finish", "guard")


def shape(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> Schema:
    """Returns the schema of an object with these fields and no others."""
    fields = {**required, **(optional or {})}
    return {
        "type": "object",
        "properties": {name: {"type": one} if isinstance(one, str) else one for name, one in fields.items()},
        "required": list(required),
        "additionalProperties": False,
    }
