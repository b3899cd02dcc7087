"""The columns of AutoGen in docs/conformance.md."""

from __future__ import annotations

from tests.testing.reasons import APPROVED_WITHIN_CALL, THREADS

CANNOT = {"AutoGen": {"another call than was shown": APPROVED_WITHIN_CALL, "sub-agent in a thread of its own": THREADS}}
BREAKS = {
    "AutoGen": {
        "a serializer hides the value that the tool receives": (
            "test_adapter.py::test_a_serializer_hides_nothing_from_the_rules"
        )
    }
}
