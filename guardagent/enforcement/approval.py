"""A person's approval of a call that was escalated: it shows every argument, and covers that call, once."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from guardagent.types import EMPTY, Verdict, thaw

Choice = Literal["approve", "reject", "edit"]


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What a person is asked.

    Attributes:
        tool: the tool's name in the host.
        args: all arguments, as the tool would get them.
        verdict: why a person is asked.
    """

    tool: str
    args: Mapping[str, Any]
    verdict: Verdict
    conversation: str = ""
    id: str = ""
    agent: str | None = None

    def text(self) -> str:
        """The request in words. Whatever an argument holds, it cannot pass for a line of ours or hide a part of it."""
        who = f" (agent {escaped(self.agent)})" if self.agent else ""
        lines = [f"Approve {escaped(self.tool)}{who} in conversation {escaped(self.conversation)}?"]
        lines += [f"  {escaped(name)} = {escaped(value)}" for name, value in self.args.items()]
        lines += [f"Why you are asked: {escaped(reason)}" for reason in self.verdict.reasons]
        return "\n".join(lines)

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
        }


@dataclass(frozen=True, slots=True)
class Approval:
    """What a person said.

    Attributes:
        choice: `approve` the call as it was shown, `reject` it, or `edit` it: then it is judged again.
        args: of `edit`, the arguments instead, all of them.
        reason: of `reject`, what the agent is told.
        by: who said it, for the log.
    """

    choice: Choice
    args: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    reason: str = ""
    by: str | None = None

    @classmethod
    def read(cls, said: Any) -> Approval:
        """From what a host hands over: an Approval, a bool, a choice or a mapping with `choice`; all else rejects."""
        if isinstance(said, Approval) and said.choice in ("approve", "reject", "edit"):
            return said
        if said is True or said == "approve":
            return cls("approve")
        if isinstance(said, Mapping):
            return cls._of_mapping(said)
        return cls("reject", reason="" if said in (False, "reject") else "the answer was no approval")

    @classmethod
    def _of_mapping(cls, said: Mapping[str, Any]) -> Approval:
        choice, args, by = said.get("choice"), said.get("args"), said.get("by")
        by = by if isinstance(by, str) else None
        if choice == "approve" and args is None:
            return cls("approve", by=by)
        if choice == "edit" and isinstance(args, Mapping):
            return cls("edit", args, by=by)
        reason = str(said.get("reason") or "") if choice == "reject" else "the answer was no approval"
        return cls("reject", reason=reason, by=by)


Approver = Callable[[ApprovalRequest], "Approval | bool | Awaitable[Approval | bool]"]
"""Asks a person, or whoever decides for one. A coroutine function will do where the host is asynchronous."""


def terminal_approver(request: ApprovalRequest) -> Approval:
    """Asks at the terminal: `y` approves, anything else rejects. Without a terminal the call is rejected."""
    if not (sys.stdin and sys.stdin.isatty()):
        return Approval("reject", reason="there is no terminal to ask a person at")
    sys.stderr.write(f"{request.text()}\n[y/N] ")
    sys.stderr.flush()
    said = sys.stdin.readline().strip().lower()
    return Approval("approve") if said in ("y", "yes") else Approval("reject")


def escaped(value: Any) -> str:
    """A value as one line in which nothing is hidden: what does not print is shown as its code."""
    text = value if isinstance(value, str) and value.isprintable() and value.isidentifier() else _json(value)
    return "".join(one if one.isprintable() else _code(one) for one in text)


def _json(value: Any) -> str:
    return json.dumps(thaw(value), ensure_ascii=False, default=repr)


def _code(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
