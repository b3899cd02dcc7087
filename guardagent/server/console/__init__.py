"""The console: pages about a server for its approvers, auditors and admins, in a browser.

Here is what a page is, what its handler gets and returns, and how it is rendered; `pages` has all pages, and
`application` serves them. The templates show strings that agents, tools and policies chose. The
template engine escapes each of them, and characters that control the text around them, or are invisible, become a
replacement mark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from guardagent._terminal import printable
from guardagent.server.access import EVERY_TENANT, PERMITTED, AccessedOperation, Caller
from guardagent.server.approvals import clock_text
from guardagent.server.service import UnknownItemError
from guardagent.server.service.guard_service import GuardService

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

PREFIX = "/console"
_SHORT = 160  # characters
_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60))


@dataclass(frozen=True, slots=True)
class ConsoleRequest:
    """A request of a person who is signed in.

    Attributes:
        path: the parts of the address.
        query: the options of the address, and the fields of a form.
        form: the fields of a form.
        address: the server's address, as the person's browser names it.
    """

    caller: Caller
    path: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)
    address: str = ""

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
    """Another page as an answer to a form; `path` begins after the prefix of the console, `query` has its options."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG picture as an answer."""

    svg: str


@dataclass(frozen=True, slots=True)
class DownloadedFile:
    """A file as an answer, which a browser saves under a name."""

    name: str
    kind: str
    text: str


Answer = ShownPage | GoTo | Picture | DownloadedFile


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
        is_part: whether it is a part that pages refresh; callers who differ in nothing but their id share it.
    """

    path: str
    operation: AccessedOperation
    handle: Callable[[GuardService, ConsoleRequest], Answer]
    title: str = ""
    place: int = 0
    method: str = "GET"
    is_part: bool = False


def navigation(table: tuple[ConsolePage, ...], caller: Caller) -> list[ConsolePage]:
    """Returns the pages that a person may open from everywhere, in order."""
    navigation = [
        console_page
        for console_page in table
        if console_page.title and caller.roles & PERMITTED[console_page.operation]
    ]
    return sorted(navigation, key=lambda console_page: console_page.place)


# --- rendering


def render(template: str, values: Mapping[str, Any]) -> str:
    """Returns a page."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("guardagent.server.console"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"time": time_text, "moment": moment, "left": left, "pretty": pretty, "segment": segment}
    environment.filters |= {"clock": clock_text, "options": options, "words": words, "short": short, "paired": paired}
    environment.filters |= {"lasting": lasting, "line": line}
    environment.filters["json"] = partial(json.dumps, ensure_ascii=False, default=str)
    return environment


def _shown(value: Any) -> Any:
    return printable(value) if type(value) is str else value


def moment(value: float | str, precision: str = "seconds") -> str:
    """Returns a time as a machine reads it: seconds since the epoch, or the text of a log entry."""
    return value if isinstance(value, str) else datetime.fromtimestamp(value, UTC).isoformat(timespec=precision)


def time_text(value: float | str) -> str:
    """Returns a time as a person reads it, such as `2026-05-04 12:30:05 UTC`."""
    return f"{moment(value)[:19].replace('T', ' ')} UTC"


def left(seconds: float) -> str:
    """Returns a duration in its largest unit, such as `12 minutes`; below three, with the rest: `1 hour 59 minutes`."""
    seconds = max(0, int(seconds))
    unit, size = next((unit for unit in _UNITS if seconds >= unit[1]), ("second", 1))
    count, rest = divmod(seconds, size)
    below = next((of_rest for of_rest in _UNITS if of_rest[1] < size), ("second", 1))
    further = f" {left(rest - rest % below[1])}" if count < 3 and rest >= below[1] else ""
    return f"{count} {unit}{'' if count == 1 else 's'}{further}"


def lasting(seconds: float) -> str:
    """Returns a duration as a policy states it, such as `30m`."""
    unit, size = next((unit for unit in _UNITS if seconds % unit[1] == 0), ("second", 1))
    return f"{seconds / size:g}{unit[0]}"


def pretty(value: Any) -> str:
    """Returns a value as JSON on several lines."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def short(value: Any, most: int = _SHORT) -> str:
    """Returns a value as JSON on one line, cut to a readable length of at most some characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= most else f"{text[:most]}…"


def line(value: str) -> str:
    """Returns a string on one line."""
    return " ".join(value.splitlines())


def paired(timeline: Iterable[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
    """Returns the steps of a time line, a verdict with the outcome of its call if that is the next step."""
    pairs: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]] = []
    for step in timeline:
        verdict, outcome = pairs[-1] if pairs else ({}, None)
        is_next = (step["kind"], verdict.get("kind"), outcome) == ("outcome", "verdict", None)
        if is_next and step.get("call_id") == verdict.get("call_id"):
            pairs[-1] = (verdict, step)
        else:
            pairs.append((step, None))
    return pairs


def words(value: str) -> Markup:
    """Returns a rule in words; what stands between backquotes is code."""
    from markupsafe import Markup, escape

    parts = printable(value).split("`")
    if len(parts) % 2 == 0:
        return escape(printable(value))
    shown = [Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)]
    return Markup("").join(shown)


def segment(value: str) -> str:
    """Returns a string as one part of an address."""
    return quote(value, safe="")


def options(value: Mapping[str, Any]) -> str:
    """Returns options of an address, without those that are empty; with `?` if there are any."""
    text = urlencode({name: option for name, option in value.items() if option not in (None, "")})
    return f"?{text}" if text else ""
