"""The console: pages about a server for its approvers, auditors and admins, in a browser.

Here is what a page is, what its handler gets and returns, how it is rendered, and the evidence for a reviewer; `pages`
has all pages, and `application` serves them. The templates show strings that agents, tools and policies chose. The
template engine escapes each of them, and characters that control the text around them, or are invisible, become a
replacement mark.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from guardagent._terminal import printable
from guardagent.server.access import EVERY_TENANT, PERMITTED, AccessedOperation, Caller
from guardagent.server.service import UnknownItemError
from guardagent.server.service.guard_service import GuardService
from guardagent.types import call_text

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
    environment.filters |= {"options": options, "words": words, "short": short, "paired": paired}
    return environment


def _shown(value: Any) -> Any:
    return printable(value) if type(value) is str else value


def moment(value: float | str) -> str:
    """Returns a time as a machine reads it: seconds since the epoch, or the text of a log entry."""
    return value if isinstance(value, str) else datetime.fromtimestamp(value, UTC).isoformat(timespec="seconds")


def time_text(value: float | str) -> str:
    """Returns a time as a person reads it, such as `2026-05-04 12:30:05 UTC`."""
    return f"{moment(value)[:19].replace('T', ' ')} UTC"


def left(seconds: float) -> str:
    """Returns a duration in its largest unit, such as `12 minutes`."""
    seconds = max(0, int(seconds))
    unit, size = next((unit for unit in _UNITS if seconds >= unit[1]), ("second", 1))
    count = seconds // size
    return f"{count} {unit}{'' if count == 1 else 's'}"


def pretty(value: Any) -> str:
    """Returns a value as JSON on several lines."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def short(value: Any) -> str:
    """Returns a value as JSON on one line, cut to a readable length."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


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


# --- the evidence for a reviewer: what the host knows, what earlier calls returned, and where a call differs from it

_MOST = 3  # values that are marked for one argument


@dataclass(frozen=True, slots=True)
class EvidenceItem:
    """The facts of the host, or the output of a call with its arguments."""

    title: str
    value: Any
    args: Mapping[str, Any]

    @property
    def fields(self) -> dict[str, Any]:
        """The plain values in it by their paths, such as `items[0].price`."""
        return dict(_fields(self.value))


def evidence_of(facts: Any, calls: Sequence[Mapping[str, Any]]) -> list[EvidenceItem]:
    """Returns the facts of the host, then the outputs of the earlier calls of the session, the newest first."""
    evidence = [EvidenceItem("Facts from the host", facts, {})] if facts else []
    for call in reversed(calls):
        output, args = call["output"], call["args"]
        if isinstance(output, str):
            with contextlib.suppress(ValueError):  # plain text
                output = json.loads(output)
        if output is not None:
            evidence.append(EvidenceItem(f"{call['id']}: {call_text(call['tool'], args)}", output, args))
    return evidence


def differences(args: Mapping[str, Any], evidence: Sequence[EvidenceItem]) -> dict[str, list[tuple[str, str, Any]]]:
    """Returns the titles, paths and values in the evidence that differ from an argument, by its path.

    A field with the name of an argument differs if none with this name has its value. A number that is nowhere in the
    evidence differs from the numbers in the facts and in the outputs of calls that share a value with the call; those
    in lists count only if there are few.
    """
    own = dict(_fields(args))
    compared = {name: _differing(name, own, evidence) for name in own}
    return {name: fields[:_MOST] for name, fields in compared.items() if fields}


def _differing(name: str, own: Mapping[str, Any], evidence: Sequence[EvidenceItem]) -> list[tuple[str, str, Any]]:
    value = own[name]
    fields = [(item.title, *field) for item in evidence for field in item.fields.items()]
    alike = [field for field in fields if _last(field[1]) == _last(name)]
    if any(other == value or str(other) == str(value) for _, _, other in alike or fields):
        return []
    if alike or type(value) not in (int, float):
        return alike
    others = {str(other) for path, other in own.items() if path != name}
    related = {item.title for item in evidence if not item.args or others & {*map(str, item.args.values())}}
    numbers = [field for field in fields if field[0] in related and type(field[2]) in (int, float)]
    return [field for field in numbers if "[" not in field[1]] or (numbers if len(numbers) <= _MOST else [])


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, part in value.items():
            yield from _fields(part, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list | tuple) and value:
        for at, part in enumerate(value):
            yield from _fields(part, f"{path}[{at}]")
    else:
        yield path, value


def _last(path: str) -> str:
    return path.rpartition(".")[2].partition("[")[0].casefold()
