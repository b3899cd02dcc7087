"""Pending requests between a client and a server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol

from guardagent.enforcement import Approver, HostCall
from guardagent.frameworks.mcp.adapter.wire import Message


class ToClient(Protocol):
    """Sends a line to the client."""

    def __call__(self, line: bytes, related: Any, *, last: bool) -> None:
        """Sends a line that belongs to the client's request `related`, if any; `last` marks its answer.

        An empty line means that there will be no answer.
        """


@dataclass(slots=True)
class Pending:
    """A request of the client without an answer from the server.

    Attributes:
        message: the form that the server receives.
        call: the judged call, if it is one.
        proposed: the call as the client proposed it, in case it is repeated.
        work: the task that judges it, while it runs.
        sent: the server may have received it.
        repeated: it was sent a second time; it is not sent again.
        cancelled: the client no longer waits.
    """

    message: Message
    call: HostCall | None = None
    proposed: HostCall | None = None
    work: asyncio.Task[None] | None = None
    sent: bool = False
    repeated: bool = False
    cancelled: bool = False


@dataclass(slots=True)
class ServerRequest:
    """A request of the server without an answer from the client: its id at the server, and the event, if it is one."""

    id: Any
    generation: int
    call: HostCall | None = None


@dataclass(frozen=True, slots=True)
class Escalation:
    """The recipients of approval requests: the client if it can show a form, then an approver."""

    client: bool = True
    approver: Approver | None = None
