"""The properties of a call in rules: `output(f)`, `args(f)`, `tool(f)`, `failed(f)` and `time(f)`."""

from __future__ import annotations

from typing import Any

from guardagent.policy.language.instants import seconds_of
from guardagent.policy.language.values import Truth, Unknown


def output_of(call: Any) -> Any:
    if type(call) is Unknown:
        return call
    if call.status is None:
        return Unknown(f"the outcome of {call.tool!r} (call {call.place}) is not recorded yet")
    return Unknown(f"{call.tool!r} (call {call.place}) has no output") if call.output is None else call.output


def args_of(call: Any) -> Any:
    return call if type(call) is Unknown else call.args


def tool_of(call: Any) -> Any:
    return call if type(call) is Unknown else call.tool


def time_of(call: Any) -> Any:
    if type(call) is Unknown:
        return call
    if call.time is None:
        return Unknown(f"the time of {call.tool!r} (call {call.place}) is unknown")
    return seconds_of(call.time)


def failed(call: Any) -> Truth:
    if type(call) is Unknown:
        return call
    status = call.status or call.assumed_status
    if status == "ok":
        return False
    if status == "failed":
        return True
    return Unknown(f"it is unknown whether {call.tool!r} (call {call.place}) failed")
