"""The columns of Strands in docs/conformance.md."""

from __future__ import annotations

from tests.testing.reasons import THREADS

CANNOT = {"Strands": {"sub-agent in a thread of its own": THREADS}}
BREAKS = {
    "Strands": {
        "a serializer hides the value that the tool receives": (
            "test_adapter.py::test_a_tool_gets_exactly_the_judged_values"
        )
    }
}
