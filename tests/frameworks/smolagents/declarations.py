"""The columns of smolagents in docs/conformance.md."""

from __future__ import annotations

from tests.testing.reasons import APPROVED_WITHIN_CALL, NO_SERVER_NAME, PLAIN_TOOLS, THREADS

CANNOT = {
    "smolagents": {
        "another call than was shown": APPROVED_WITHIN_CALL,
        "late tools of a server": NO_SERVER_NAME,
        "hand-off": "cannot occur because agents do not hand a conversation over; a managed agent is a sub-agent",
        "sub-agent in a thread of its own": THREADS,
        "too long": PLAIN_TOOLS,
    }
}
BREAKS = {
    "smolagents": {
        "a serializer hides the value that the tool receives": "test_adapter.py::test_no_code_gets_past_the_guard"
    }
}
