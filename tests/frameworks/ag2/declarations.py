"""The columns of AG2 in docs/conformance.md."""

from __future__ import annotations

from tests.testing.reasons import APPROVED_WITHIN_CALL, THREADS

CANNOT = {
    "AG2": {
        "another call than was shown": APPROVED_WITHIN_CALL,
        "hand-off": "cannot occur because agents do not hand a conversation over; an agent as a tool is a sub-agent",
        "sub-agent in a thread of its own": THREADS,
    }
}
BREAKS = {
    "AG2": {
        "a serializer hides the value that the tool receives": (
            "test_adapter.py::test_a_serializer_hides_nothing_from_the_rules"
        )
    }
}
