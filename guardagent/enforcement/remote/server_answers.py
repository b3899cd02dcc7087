"""The answers of a guard's server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from guardagent.enforcement.names import Coverage
from guardagent.enforcement.wire import Fields, WireError, read_value, read_verdict
from guardagent.types import Verdict, freeze


@dataclass(frozen=True, slots=True)
class ServerCoverage(Coverage):
    """The comparison of rules and tools that the server made.

    Attributes:
        reported: its warnings, a line each.
    """

    reported: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        return list(self.reported)


@dataclass(frozen=True, slots=True)
class AttachedTools:
    """The tools of this agent on the server.

    Attributes:
        id: names them in a new session.
        coverage: the comparison of rules and tools.
        reads_messages: whether a rule reads the messages of the conversation.
        judges_answers: whether final answers are judged.
    """

    id: str
    coverage: ServerCoverage
    reads_messages: bool
    judges_answers: bool


@dataclass(frozen=True, slots=True)
class JudgedByServer:
    """A verdict of the server.

    Attributes:
        in_flight: whether the call is in flight there, so that it may run here.
        approval: the id of the approval that the call waits for; None if it waits for none.
        args: the arguments that a reviewer has put in place of the call's; None if there are none.
    """

    verdict: Verdict
    in_flight: bool = False
    approval: str | None = None
    args: Mapping[str, Any] | None = None


def read_attached(value: Any) -> AttachedTools:
    """Reads the answer to an attachment; a later version of the server may say more.

    Raises:
        WireError: it has not the expected form.
    """
    fields = Fields(value)
    return AttachedTools(
        fields.string("id"),
        ServerCoverage(reported=fields.strings("coverage")),
        fields.boolean("reads_messages"),
        fields.boolean("judges_answers"),
    )


def read_judged(value: Any) -> JudgedByServer:
    """Reads the answer to a check or to an approval. An unknown field could be a condition, so it is refused.

    Raises:
        WireError: it has not the expected form.
    """
    fields = Fields(value)
    verdict, in_flight = read_verdict(fields.value("verdict"), "verdict"), fields.boolean("in_flight")
    approval, args = fields.value("approval", None), fields.object("args", None)
    fields.end()
    if in_flight and verdict.label:
        raise WireError("in_flight", "is true for a call that may not run")
    args = None if args is None else freeze(read_value(args, "args"))
    return JudgedByServer(verdict, in_flight, _approval_id(approval), args)


def read_only_verdict(value: Any) -> Verdict:
    """Reads an answer that has only a verdict.

    Raises:
        WireError: it has not the expected form.
    """
    fields = Fields(value)
    verdict = read_verdict(fields.value("verdict"), "verdict")
    fields.end()
    return verdict


def _approval_id(value: Any) -> str | None:
    """The id of an approval, which the server gives alone or with the approval's other fields."""
    found = value.get("id") if isinstance(value, dict) else value
    if found is not None and not isinstance(found, str):
        raise WireError("approval", "has no id; expected a string")
    return found
