"""Pending requests between a client and a server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol

from guardagent.enforcement import Approver, HostCall
from guardagent.frameworks.mcp.adapter.rounds import Key
from guardagent.frameworks.mcp.adapter.wire import Message


class ToClient(Protocol):
    """Gives a line to the client."""

    def __call__(self, line: bytes, related: Any, *, last: bool) -> None:
        """The line belongs to the client's request `related`, where there is one; `last` says that it is the answer.

        An empty line says that there will be no answer.
        """


@dataclass(slots=True)
class Pending:
    """A request of the client that the server has not answered.

    Attributes:
        message: as the server got it, or will get it.
        call: what was judged, where it is a call.
        proposed: stands for the call as the client proposed it, in case it has to come again.
        work: the judgement, while it lasts.
        sent: the server may have received it.
        repeated: it was sent a second time; there is no third.
        cancelled: the client no longer waits.
    """

    message: Message
    call: HostCall | None = None
    proposed: Key | None = None
    work: asyncio.Task[None] | None = None
    sent: bool = False
    repeated: bool = False
    cancelled: bool = False


@dataclass(slots=True)
class ServerRequest:
    """A request of the server that the client has not answered: its id at the server, and the event, if it is one."""

    id: Any
    generation: int
    call: HostCall | None = None


@dataclass(frozen=True, slots=True)
class Escalation:
    """The recipients of approval requests: the client if it can show a form, then an approver."""

    client: bool = True
    approver: Approver | None = None
