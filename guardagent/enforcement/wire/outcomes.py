"""An `Outcome` as JSON."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from guardagent.enforcement.calls import Outcome
from guardagent.enforcement.wire.fields import Fields, WireError
from guardagent.enforcement.wire.values import read_value, write_value
from guardagent.types.values import readable_copy

_log = logging.getLogger("guardagent")


def write_outcome(outcome: Outcome, where: str = "outcome") -> dict[str, Any]:
    """Returns an outcome as JSON: its output as rules read it, with null for each part that JSON does not have.

    The call has run, so its outcome is never refused. If a string of the output is lost, the status that the host
    states is not certain any more, since the policy may recognize failures by their text: it becomes unknown.
    """
    lost: list[WireError] = []

    def drop(part: Any, error: WireError) -> None:
        if isinstance(part, str | Mapping | list | tuple):
            lost.append(error)

    def written_output(output: Any) -> Any:
        try:
            return write_value(readable_copy(output), f"{where}.output", replace=drop)
        except RecursionError:
            return drop((), WireError(f"{where}.output", "is nested too deep, or contains itself"))

    outputs = [written_output(one) for one in (outcome.output, *outcome.other_outputs)]
    failed = outcome.failed if isinstance(outcome.failed, bool | None) else None
    if lost:
        _log.warning("an outcome is sent without a part of its output, so it counts as unknown: %s", lost[0])
        failed = failed or None
    written = {"output": outputs[0], "failed": failed, "ended": bool(outcome.ended)}
    return {**written, "other_outputs": outputs[1:]} if outputs[1:] else written


def read_outcome(value: Any, where: str = "outcome") -> Outcome:
    """Returns the outcome of a JSON value.

    Raises:
        WireError: it is not of this form.
    """
    fields = Fields(value, where)
    outcome = Outcome(
        read_value(fields.value("output"), fields.place("output")),
        fields.value("failed"),
        fields.boolean("ended"),
        fields.items("other_outputs", read_value, ()),
    )
    if not isinstance(outcome.failed, bool | None):
        raise WireError(fields.place("failed"), "expected true, false or null")
    fields.end()
    return outcome
