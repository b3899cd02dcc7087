"""The columns of the Claude Agent SDK in docs/conformance.md."""

from __future__ import annotations

from tests.testing.reasons import APPROVED_WITHIN_CALL, THREADS

CANNOT = {
    "Claude Agent SDK": {
        "contradicting approval": (
            "cannot occur because `can_use_tool` is asked about one call, and its answer names none"
        ),
        "another call than was shown": APPROVED_WITHIN_CALL,
        "hand-off": "cannot occur because a session is not handed over; a sub-agent runs within it",
        "sub-agent in a thread of its own": THREADS,
    }
}
BREAKS = {
    "Claude Agent SDK": {
        "a serializer hides the value that the tool receives": (
            "test_adapter.py::test_a_tool_gets_exactly_the_judged_arguments"
        ),
        "the transport sends a judged call again": (
            "test_adapter_protocol.py::test_a_tool_runs_only_what_was_released_and_once"
        ),
    }
}
