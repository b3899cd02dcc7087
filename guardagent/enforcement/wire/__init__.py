"""Calls, outcomes, verdicts, tools and approvals as JSON, as `guardagent serve` and `RemoteGuard` exchange them.

A reader accepts exactly what its writer writes. Anything else, such as an unknown field, a duplicate key or a number
that is not finite, is a `WireError` that names its place. Values that JSON lacks are tagged; see `wire.values`.
"""

from guardagent.enforcement.wire.messages import (
    MAX_BYTES,
    dumps,
    loads,
    read_approval,
    read_call,
    read_outcome,
    read_tool,
    read_verdict,
    write_approval,
    write_call,
    write_outcome,
    write_tool,
    write_verdict,
)
from guardagent.enforcement.wire.values import MAX_DEPTH, WireError, read_value, write_value

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "WireError",
    "dumps",
    "loads",
    "read_approval",
    "read_call",
    "read_outcome",
    "read_tool",
    "read_value",
    "read_verdict",
    "write_approval",
    "write_call",
    "write_outcome",
    "write_tool",
    "write_value",
    "write_verdict",
]
