"""Human approval of escalated calls: it shows every argument, and covers one call once.

Any error of an approver rejects the call.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import unicodedata
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from guardagent.enforcement.calls import HostCall
from guardagent.errors import error_text
from guardagent.types import EMPTY, Decision, Verdict, call_text, freeze, thaw

Choice = Literal["approve", "reject", "edit"]
_NONE = "the answer is not an approval"
_COLUMNS = 60
_MAX_MARKS = 2  # per character; Thai and Vietnamese need two
_CONTINUATION = "    ... "
_VIEW_LINES = 40  # of a view; the arguments stay in sight
VIEW_TITLES = {"policy": "The policy shows it as:", "host": "The agent's host shows it, unchecked, as:"}

BY_HOST = "unknown: the host let it run"
"""The approver of a call where only the host's program is known to have answered."""
CHANGED_FACTS = (
    "the facts are other ones than a reviewer saw, or the policy is; the answer does not count, and approval is "
    "requested again"
)


def shown_digest(call: HostCall, ledger: str = "") -> str:
    """Returns what identifies a call as a reviewer sees it: its digest, the ledger of the request, and the facts."""
    facts = f"+{call.facts_digest}" if call.facts else ""
    return f"{call.digest}.{ledger}{facts}" if ledger or facts else call.digest


def names_call(of: str | None, call: HostCall) -> bool:
    """Whether the digest of an answer is that of a call, whatever the facts were."""
    return (of or "").partition(".")[0] == call.digest


def with_changed_facts(verdict: Verdict) -> Verdict:
    """Returns the verdict on a call whose answer was refused, with the reason for the model and the next reviewer."""
    more = (CHANGED_FACTS,) if verdict.decision is Decision.ESCALATE else ()
    return replace(verdict, reasons=(*verdict.reasons, *more), errors=(*verdict.errors, *more))


def saw_other_facts(of: str | None, call: HostCall) -> bool:
    """Whether the digest of an answer has other facts than a call."""
    facts = (of or "").partition("+")[2]
    return bool(facts) and facts != call.facts_digest


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """An approval request for a reviewer.

    Attributes:
        tool: the tool's name in the host.
        args: all arguments, as the tool would get them.
        verdict: the escalation that needs approval.
        digest: identifies this request by the call's digest, the ledger's name and the facts. An answer repeats it as
            `of`.
        facts: the host's facts about the call; an approval counts only while they stay as they are.
        views: the call as the `policy` and the `host` show it, as text; never in place of the arguments.
    """

    tool: str
    args: Mapping[str, Any]
    verdict: Verdict
    conversation: str = ""
    id: str = ""
    agent: str | None = None
    digest: str = ""
    facts: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    views: Mapping[str, str] = field(default_factory=lambda: EMPTY)

    def text(self) -> str:
        """Returns the request as text, escaped so that an argument cannot imitate or hide a line.

        Lines have at most 60 columns, so that narrow displays do not wrap them; a continuation begins with a mark.
        """
        who = f" (agent {quoted_name(self.agent)})" if self.agent else ""
        lines = [f"Approve {quoted_name(self.tool)}{who} in conversation {quoted_name(self.conversation)}?"]
        lines += [f"  {quoted_name(name)} = {escaped(value)}" for name, value in self.args.items()]
        lines += [f"The host knows: {quoted_name(name)} = {escaped(value)}" for name, value in self.facts.items()]
        for source, text in self.views.items():
            shown = text.splitlines()
            lines += [VIEW_TITLES[source], *(f"  | {visible(line)}" for line in shown[:_VIEW_LINES])]
            lines += [f"  ({len(shown) - _VIEW_LINES} more lines)"] if len(shown) > _VIEW_LINES else []
        lines += [f"Why you are asked: {escaped(reason)}" for reason in self.verdict.reasons]
        return "\n".join(part for line in lines for part in wrapped_line(line))

    def to_dict(self) -> dict[str, Any]:
        return {
            "tool": self.tool,
            "args": thaw(self.args),
            "conversation": self.conversation,
            "id": self.id,
            "agent": self.agent,
            "reasons": list(self.verdict.reasons),
            "rules": list(self.verdict.rules),
            "text": self.text(),
            "digest": self.digest,
            **({"facts": thaw(self.facts)} if self.facts else {}),
            **({"views": dict(self.views)} if self.views else {}),
        }


@dataclass(frozen=True, slots=True)
class Approval:
    """A reviewer's answer.

    Attributes:
        choice: `approve` the call as it was shown, `reject` it, or `edit` it, so that it is judged again.
        args: for `edit`, the complete new arguments.
        reason: for `reject`, the feedback to the agent.
        by: the reviewer, for the log.
        grant: what the reviewer grants by rule, on a server; then grants allow the call, and the approval nothing.
        of: the digest of the request or call that was shown. Approvals and edits without it count only from the
            guard's own approver. An answer that names another call is refused, whoever gives it.
    """

    choice: Choice
    args: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    reason: str = ""
    by: str | None = None
    of: str | None = None
    grant: Mapping[str, Any] | None = None

    @classmethod
    def read(cls, answer: Any) -> Approval:
        """Reads a host's answer: an Approval, a bool, a choice or a mapping with `choice`. Anything else rejects."""
        if isinstance(answer, Approval) and (answer.choice != "edit" or isinstance(answer.args, Mapping)):
            return answer if answer.choice in ("approve", "reject", "edit") else cls("reject", reason=_NONE)
        if isinstance(answer, Mapping):
            return cls._of_mapping(answer)
        if answer is True or (isinstance(answer, str) and answer == "approve"):
            return cls("approve")
        refused = answer is False or (isinstance(answer, str) and answer == "reject")
        return cls("reject", reason="" if refused else _NONE)

    @classmethod
    def _of_mapping(cls, answer: Mapping[str, Any]) -> Approval:
        choice, args, by, of = (answer.get(name) for name in ("choice", "args", "by", "of"))
        by, of = (value if isinstance(value, str) else None for value in (by, of))
        if choice == "approve" and args is None:
            return cls("approve", by=by, of=of)
        if choice == "edit" and isinstance(args, Mapping):
            return cls("edit", args, by=by, of=of)
        wording = answer.get("reason")
        reason = (wording if isinstance(wording, str) else "") if choice == "reject" else _NONE
        return cls("reject", reason=reason, by=by, of=of)

    def validated(self, validate: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None) -> Approval:
        """Validates edited arguments. Returns a rejection if they do not fit the tool."""
        if self.choice != "edit":
            return self
        try:
            return replace(self, args=freeze(self.args if validate is None else validate(self.args)))
        except Exception as error:  # noqa: BLE001 - a host's validation
            problem = f"the edited arguments do not fit: {error_text(error)}"
            return Approval("reject", reason=problem, by=self.by, of=self.of)


def with_edits(call: HostCall, approval: Approval) -> HostCall:
    """Returns the call with the reviewer's edits."""
    return replace(call, args=approval.args, view=None) if approval.choice == "edit" else call


def edit_note(proposed: HostCall, args: Mapping[str, Any]) -> str:
    """Returns what ran, in one line for the model; empty if it is what the model has proposed."""
    if freeze(args) == proposed.args:
        return ""
    return f"A reviewer changed this call. This ran: {call_text(proposed.tool, args)}"


Approver = Callable[[ApprovalRequest], "Approval | bool | Awaitable[Approval | bool]"]
"""Decides on approval requests. Asynchronous hosts also accept a coroutine function."""


def terminal_approver(request: ApprovalRequest) -> Approval:
    """Asks at the terminal: `y` approves, anything else rejects. Without a terminal the call is rejected."""
    if not (sys.stdin and sys.stdin.isatty()):
        return Approval("reject", reason="there is no terminal for the approval")
    sys.stderr.write(f"{request.text()}\n[y/N] ")
    sys.stderr.flush()
    reply = sys.stdin.readline().strip().lower()
    return Approval("approve") if reply in ("y", "yes") else Approval("reject")


def escaped(value: Any) -> str:
    """Returns a value as one line of JSON, with invisible characters escaped."""
    return visible(json.dumps(thaw(value), ensure_ascii=False, default=repr))


def visible(text: str) -> str:
    """Returns a text with invisible characters escaped, so that it stays on its line."""
    drawn, marks = "", 0
    for character in text:
        marks = (
            marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        )  # a pile of marks covers other lines
        shows = character.isprintable() and character not in _INVISIBLE and marks <= _MAX_MARKS
        drawn += character if shows else _code(character)
    return drawn


def wrapped_line(line: str) -> Iterator[str]:
    """Splits a line into parts that fit the columns: before a space, or within a word that fills half of the line.

    The space stays, so that the next part of a word can be told from the next word.
    """
    part, columns = "", 0
    for character in line:
        width = _width(character)
        if columns + width > _COLUMNS:
            at = len(part) if character == " " else part.rfind(" ")
            at = at if 2 * _width(part[at:]) <= _COLUMNS else len(part)
            yield part[:at]
            part = _CONTINUATION + part[at:]
            columns = _width(part)
        part, columns = part + character, columns + width
    yield part


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WFA" else 1 for character in text)


def quoted_name(name: Any) -> str:
    """Returns a plain identifier as it is; quotes and escapes any other name."""
    return name if isinstance(name, str) and name.isascii() and name.isidentifier() else escaped(name)


def _code(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


# Characters that Unicode calls printable but displays do not show: joiners, fillers, variation selectors.
_INVISIBLE = frozenset(
    map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2800, 0x3164))
).union(map(chr, (*range(0xFE00, 0xFE10), 0xFFA0, *range(0xE0100, 0xE01F0))))


def ask(approver: Approver, request: ApprovalRequest) -> Approval:
    """Calls an approver in this thread."""
    try:
        answer = approver(request)
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            return Approval(
                "reject", reason="the approver is a coroutine function, but these tools are called without await"
            )
        return Approval.read(answer)
    except Exception as error:  # noqa: BLE001 - any error rejects
        return _failed(error)


async def aask(approver: Approver, request: ApprovalRequest) -> Approval:
    """Asks without blocking the event loop: a plain function is called in a thread."""
    try:
        if inspect.iscoroutinefunction(approver):
            return Approval.read(await approver(request))
        answer = await asyncio.to_thread(approver, request)
        return Approval.read(await answer if inspect.isawaitable(answer) else answer)
    except Exception as error:  # noqa: BLE001 - as above
        return _failed(error)


def _failed(error: Exception) -> Approval:
    return Approval("reject", reason=f"the approval request failed: {error_text(error)}")
