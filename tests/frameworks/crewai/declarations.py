"""The columns of CrewAI in docs/conformance.md."""

from __future__ import annotations

from tests.testing.reasons import APPROVED_WITHIN_CALL, PLAIN_TOOLS, THREADS

CANNOT = {
    "CrewAI": {
        "another call than was shown": APPROVED_WITHIN_CALL,
        "sub-agent in a thread of its own": THREADS,
        "too long": PLAIN_TOOLS,
    }
}
BREAKS = {
    "CrewAI": {
        "a serializer hides the value that the tool receives": (
            "test_adapter.py::test_a_serializer_hides_no_value_from_the_rules"
        ),
        "a cache answers in place of the guard": "test_adapter.py::test_no_cached_result_gets_past_the_guard",
    }
}
