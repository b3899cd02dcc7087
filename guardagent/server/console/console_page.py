"""A page of the console, and what its handler gets and returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from guardagent.server.access import AccessedOperation, Caller
from guardagent.server.access.caller import EVERY_TENANT
from guardagent.server.service.guard_service import GuardService
from guardagent.server.service.service_errors import UnknownItemError

PREFIX = "/console"


@dataclass(frozen=True, slots=True)
class ConsoleRequest:
    """A request of a person who is signed in.

    Attributes:
        path: the parts of the address.
        query: the options of the address, and the fields of a form.
        form: the fields of a form.
    """

    caller: Caller
    path: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)

    @property
    def tenant(self) -> str:
        """The tenant that the person looks at.

        Raises:
            UnknownItemError: it is another one than theirs, or an admin of all tenants has not named it yet.
        """
        named = self.query.get("tenant", "")
        if self.caller.tenant != EVERY_TENANT:
            if named not in ("", self.caller.tenant):
                raise UnknownItemError("there is no such tenant")
            return self.caller.tenant
        if not named:
            raise UnknownItemError("choose a tenant first: enter its name at the top")
        return named


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A page as an answer.

    Attributes:
        template: the name of its template.
        values: what the template shows.
    """

    template: str
    values: Mapping[str, Any]
    status: int = 200


@dataclass(frozen=True, slots=True)
class GoTo:
    """Another page as an answer to a form; `path` begins after the prefix of the console."""

    path: str


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG picture as an answer."""

    svg: str


Answer = ShownPage | GoTo | Picture


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """A page.

    Attributes:
        path: its address below the prefix, with parts in braces.
        operation: what it shows or does, which determines the roles that may see it.
        handle: makes the answer.
        title: its name in the navigation; empty if it is not there.
        place: its place in the navigation.
        method: POST for a form.
    """

    path: str
    operation: AccessedOperation
    handle: Callable[[GuardService, ConsoleRequest], Answer]
    title: str = ""
    place: int = 0
    method: str = "GET"
