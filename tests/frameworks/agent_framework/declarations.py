"""The columns of the Microsoft Agent Framework in docs/conformance.md."""

from __future__ import annotations

from tests.testing.reasons import THREADS

CANNOT = {"Agent Framework": {"sub-agent in a thread of its own": THREADS}}
BREAKS = {
    "Agent Framework": {
        "the transport sends a judged call again": "test_adapter.py::test_a_broken_connection_repeats_no_call",
        "a serializer hides the value that the tool receives": (
            "test_adapter.py::test_what_a_serializer_hides_is_judged_as_the_tool_receives_it"
        ),
    }
}
