"""Calls, outcomes, verdicts, tools and approvals as JSON, as `guardagent serve` and `RemoteGuard` exchange them.

A reader accepts exactly what its writer writes. Anything else, such as an unknown field, a duplicate key or a number
that is not finite, is a `WireError` that names its place. Values that JSON lacks are tagged; see `wire.values`.
"""

from guardagent.enforcement.wire.approvals import read_approval, read_request, write_approval, write_request
from guardagent.enforcement.wire.calls import read_call, write_call
from guardagent.enforcement.wire.fields import Fields, WireError
from guardagent.enforcement.wire.messages import MAX_BYTES, dumps, loads
from guardagent.enforcement.wire.outcomes import read_outcome, write_outcome
from guardagent.enforcement.wire.tools import read_tool, write_tool
from guardagent.enforcement.wire.values import MAX_DEPTH, read_value, write_value
from guardagent.enforcement.wire.verdicts import read_verdict, write_verdict

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "Fields",
    "WireError",
    "dumps",
    "loads",
    "read_approval",
    "read_call",
    "read_outcome",
    "read_request",
    "read_tool",
    "read_value",
    "read_verdict",
    "write_approval",
    "write_call",
    "write_outcome",
    "write_request",
    "write_tool",
    "write_value",
    "write_verdict",
]
