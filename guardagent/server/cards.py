"""Cards of approvals: what reviewers read about a call in the console, a chat or an e-mail, and how they answer there.

The texts are in the templates of the console. Each string that an agent or a tool chose stays on its line of a card,
without control and invisible characters, so that it cannot look like another line.

An answer that a button or a link carries is signed. It names the version of the approval and the digest of its call:
any change of the approval, such as an answer, leaves it without effect. It ends at the deadline.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal
from urllib.parse import quote

from guardagent._support import json_values
from guardagent.enforcement.wire import write_value
from guardagent.errors import ForbiddenError, GuardError, InputError
from guardagent.policy.views import RenderedView
from guardagent.server.access import Caller, CallerRole
from guardagent.server.approvals import ApprovalRecord
from guardagent.server.console import render
from guardagent.server.service import RequestConflictError
from guardagent.server.service.guard_service import GuardService
from guardagent.server.settings import AnswerSettings
from guardagent.types import call_text

JSON = Mapping[str, Any]

DifferingField = tuple[str, str, Any]
"""The title, the path and the value of a field of the evidence."""


@dataclass(frozen=True)
class ApprovalCard:
    """An approval with what its reviewers need to know.

    Attributes:
        one: the approval as its readers see it.
        args: the arguments as they would run, those that the rules read first.
        read: the arguments that the rules read; without any, all.
        session: the session of the call; None if it cannot be shown.
        evidence, differences: see `evidence_of` and `differences`.
        expected: see `preview`; None if the approval is decided.
        views: see `GuardService.views`.
    """

    one: JSON
    args: JSON
    read: JSON
    session: JSON | None
    evidence: Sequence[EvidenceItem]
    differences: Mapping[str, list[DifferingField]]
    expected: JSON | None
    views: Mapping[str, RenderedView]

    @property
    def marked(self) -> frozenset[tuple[str, str]]:
        """The titles and paths of the evidence from which an argument differs."""
        return frozenset(field[:2] for fields in self.differences.values() for field in fields)

    @property
    def title(self) -> str:
        """The line that says what is to be decided, or who decided it."""
        return self._rendered[0].strip()

    @property
    def sections(self) -> list[tuple[str, str]]:
        """The titles and the texts of its parts."""
        return [(title, text) for title, _, text in (part.partition("\n") for part in self._rendered[1:])]

    @property
    def _rendered(self) -> list[str]:
        return render("card.txt", vars(self)).rstrip().split("\n\n")


def card_of(service: GuardService, tenant: str, approval: JSON) -> ApprovalCard:
    """Returns the card of an approval."""
    session, expected = None, None
    with contextlib.suppress(GuardError):  # the session's policy may be unknown here; the request is shown all the same
        session = service.show_session(tenant, approval["session"])
    if approval["status"] == "pending":
        try:
            expected = service.preview_approval(tenant, approval["id"])
        except GuardError as error:
            none: dict[str, Any] = {"decision": "unknown", "reasons": [], "obligations": {}, "settles": {}}
            expected = {**none, "errors": [str(error)]}
    args = approval["call"]["args"] if approval["args"] is None else approval["args"]
    read = service.reports.shown_arguments(approval)
    evidence = evidence_of(approval["call"].get("facts"), session["calls"] if session else [])
    about = evidence, differences(args, evidence), expected, service.views(tenant, approval)
    return ApprovalCard(approval, {**read, **args}, read, session, *about)


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
            with contextlib.suppress(ValueError, InputError):  # plain text, or nested too deep to be shown
                output = write_value(json_values.loads(output))
        if output is not None:
            evidence.append(EvidenceItem(f"{call['id']}: {call_text(call['tool'], args)}", output, args))
    return evidence


def differences(args: Mapping[str, Any], evidence: Sequence[EvidenceItem]) -> dict[str, list[DifferingField]]:
    """Returns the titles, paths and values in the evidence that differ from an argument, by its path.

    A field with the name of an argument differs if none with this name has its value. A number that is nowhere in the
    evidence differs from the numbers in the facts and in the outputs of calls that share a value with the call; those
    in lists count only if there are few.
    """
    own = dict(_fields(args))
    fields = [(item.title, *field) for item in evidence for field in item.fields.items()]
    everywhere, by_name = _FieldValues(), defaultdict[str, _FieldValues](_FieldValues)
    for field in fields:
        everywhere.add(field)
        by_name[_last(field[1])].add(field)
    numbers = [field for field in fields if type(field[2]) in (int, float)]
    texts = Counter(map(str, own.values()))

    @cache
    def related(text: str) -> list[DifferingField]:
        """The numbers from which a number with this text, which the evidence lacks, differs."""
        others = texts - Counter([text])
        titles = {item.title for item in evidence if not item.args or others.keys() & {*map(str, item.args.values())}}
        near = [field for field in numbers if field[0] in titles]
        return [field for field in near if "[" not in field[1]] or (near if len(near) <= _MOST else [])

    differing: dict[str, list[DifferingField]] = {}
    for path, value in own.items():
        alike = by_name.get(_last(path))
        if not (alike or everywhere).has(value):
            is_number = type(value) in (int, float)
            differing[path] = alike.fields[:_MOST] if alike else related(str(value))[:_MOST] if is_number else []
    return {path: fields for path, fields in differing.items() if fields}


class _FieldValues:
    """Fields of the evidence, and the values that they have, also as texts."""

    def __init__(self) -> None:
        self.fields: list[DifferingField] = []
        self._values: set[Any] = set()

    def add(self, field: DifferingField) -> None:
        self.fields.append(field)
        value = field[2]
        self._values |= {str(value)} if isinstance(value, dict | list | tuple) else {value, str(value)}

    def has(self, value: Any) -> bool:
        return str(value) in self._values or (not isinstance(value, dict | list | tuple) and value in self._values)


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


# --- signed answers: what a button or a link carries, so that the server takes it for the call as it was shown, once

CHOICES: tuple[Literal["approve", "reject"], ...] = ("approve", "reject")
_ALGORITHM = "HS256"


@dataclass(frozen=True, slots=True)
class SignedAnswer:
    """An answer that somebody may give.

    Attributes:
        tenant, approval: the approval.
        requested: when it was requested; another request of the same call has another time.
        version, digest: what was shown.
        choice: `approve` or `reject`.
        via: the channel that shows it; no other one accepts it.
        by: the approver; empty if the channel knows who answers.
    """

    tenant: str
    approval: str
    requested: float
    version: int
    digest: str
    choice: str
    via: str
    by: str = ""


def tokens_of(
    settings: AnswerSettings, tenant: str, name: str, record: ApprovalRecord, version: int, via: str, by: str = ""
) -> Mapping[str, str]:
    """Returns the signed answers to an approval by their choices; none if it is decided, or not for this approver.

    Raises:
        InputError: the secrets cannot be read.
    """
    try:
        if by:
            record.require_open(by, time.time(), settings.groups_of(by))
    except (RequestConflictError, ForbiddenError):
        return {}
    if record.status != "pending":
        return {}
    about = tenant, name, record.created, version, record.digest
    ends = {"aud": via, "exp": int(record.deadline)}
    claims = {choice: {**asdict(SignedAnswer(*about, choice, via, by)), **ends} for choice in CHOICES}
    import jwt

    return {choice: jwt.encode(claims[choice], settings.secrets()[0], _ALGORITHM) for choice in CHOICES}


def read_token(settings: AnswerSettings, token: str, via: str) -> SignedAnswer:
    """Returns the answer that a token states.

    Raises:
        ForbiddenError: it has expired, or this server did not sign it for this channel.
        InputError: the secrets cannot be read.
    """
    import jwt

    for secret in settings.secrets():
        try:
            claims = jwt.decode(token, secret, [_ALGORITHM], audience=via, options={"require": ["aud", "exp"]})
            return SignedAnswer(**{name: value for name, value in claims.items() if name not in ("aud", "exp")})
        except jwt.ExpiredSignatureError:
            raise ForbiddenError("this answer has expired: the deadline of the approval has passed") from None
        except (jwt.PyJWTError, TypeError, ValueError):
            continue
    raise ForbiddenError("this answer is not valid; open the newest message about the approval")


def take(service: GuardService, answer: SignedAnswer, by: str, reason: str = "") -> Mapping[str, Any]:
    """Records a signed answer of an approver, as the API does, and returns the approval.

    Raises:
        InputError: a rejection has no reason.
        UnknownItemError: there is no such approval any more.
        RequestConflictError: it has changed since it was shown, or is decided.
        ForbiddenError: this approver may not decide on it.
    """
    if answer.choice == "reject" and not reason.strip():
        raise InputError("the reason is empty; the agent reads it, so say what it should do instead")
    record, _ = service.approvals.read(answer.tenant, answer.approval)
    if record.created != answer.requested:
        raise RequestConflictError("the call was requested again since; open the newest message about it")
    body = {"choice": answer.choice, "version": answer.version, "of": answer.digest}
    body |= {"reason": reason.strip()} if answer.choice == "reject" else {}
    assert service.settings.answers is not None  # as the channel requires
    caller = Caller(by, frozenset({CallerRole.APPROVER}), answer.tenant, service.settings.answers.groups_of(by))
    return service.answer_approval(caller, answer.approval, body, via=answer.via)


def page_address(service: GuardService, approval: str) -> str:
    """Returns the address of an approval's page in the console; without the server if its address is not known."""
    return f"{service.settings.console.address}/console/approvals/{quote(approval, safe='')}"
