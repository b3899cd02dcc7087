"""An `Approval` and an `ApprovalRequest` as JSON."""

from __future__ import annotations

from typing import Any

from guardagent.enforcement.approval import Approval, ApprovalRequest
from guardagent.enforcement.wire.calls import read_mapping
from guardagent.enforcement.wire.fields import Fields, WireError
from guardagent.enforcement.wire.values import complete, write_value
from guardagent.enforcement.wire.verdicts import read_verdict, write_verdict
from guardagent.types import EMPTY, freeze

_CHOICES = ("approve", "reject", "edit")


def write_approval(approval: Approval, where: str = "approval") -> dict[str, Any]:
    """Returns an approval as JSON; fields without a value are left out.

    Raises:
        WireError: a part of it has no JSON form.
    """
    written: dict[str, Any] = {"choice": approval.choice}
    if approval.choice == "edit":
        written["args"] = write_value(approval.args, f"{where}.args")
    for name in ("reason", "by", "of"):
        if value := getattr(approval, name):
            written[name] = complete(value, f"{where}.{name}")
    return written


def read_approval(value: Any, where: str = "approval") -> Approval:
    """Returns the approval of a JSON value.

    Raises:
        WireError: it is not of this form; or an edit has no arguments, or another choice has some.
    """
    fields = Fields(value, where)
    choice, args = fields.choice("choice", _CHOICES), fields.object("args", None)
    if (choice == "edit") is (args is None):
        raise WireError(fields.place("args"), f"expected the new arguments for 'edit', and none for {choice!r}")
    approval = Approval(
        choice,
        EMPTY if args is None else read_mapping(args, fields.place("args")),
        fields.string("reason", ""),
        fields.string("by", None),
        fields.string("of", None),
    )
    fields.end()
    return approval


def write_request(request: ApprovalRequest, where: str = "request") -> dict[str, Any]:
    """Returns an approval request as JSON.

    Raises:
        WireError: a part of it has no JSON form.
    """
    names = ("tool", "conversation", "id", "agent", "digest")
    written = {name: write_value(getattr(request, name), f"{where}.{name}") for name in names}
    args = write_value(request.args, f"{where}.args")
    return {**written, "args": args, "verdict": write_verdict(request.verdict)}


def read_request(value: Any, where: str = "request") -> ApprovalRequest:
    """Returns the approval request of a JSON value.

    Raises:
        WireError: it is not of this form.
    """
    fields = Fields(value, where)
    request = ApprovalRequest(
        fields.string("tool"),
        freeze(read_mapping(fields.value("args"), fields.place("args"))),
        read_verdict(fields.value("verdict"), fields.place("verdict")),
        fields.string("conversation"),
        fields.string("id"),
        fields.string("agent", None),
        fields.string("digest"),
    )
    fields.end()
    return request
