"""The columns of LangChain and LangGraph in docs/conformance.md."""

from __future__ import annotations

from tests.testing.reasons import NO_SERVER_NAME, THREADS

CANNOT = {
    "LangChain, LangGraph": {"sub-agent in a thread of its own": THREADS, "late tools of a server": NO_SERVER_NAME}
}
BREAKS = {
    "LangChain, LangGraph": {
        "a serializer hides the value that the tool receives": (
            "test_adapter_values.py::test_no_serializer_hides_a_value"
        ),
        "a cache answers in place of the guard": (
            "test_adapter_traps.py::test_a_cached_node_does_not_answer_in_place_of_the_guard"
        ),
    }
}
