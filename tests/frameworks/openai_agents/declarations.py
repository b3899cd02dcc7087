"""The columns of the OpenAI Agents SDK in docs/conformance.md."""

from __future__ import annotations

from tests.testing.reasons import THREADS

CANNOT = {
    "OpenAI Agents SDK": {
        "repeated ids": (
            "cannot occur because the SDK runs equal calls with one id once, and ends a run with different ones before "
            "any of them runs"
        ),
        "sub-agent in a thread of its own": THREADS,
    }
}
BREAKS = {
    "OpenAI Agents SDK": {
        "a serializer hides the value that the tool receives": (
            "test_adapter_arguments.py::test_no_serializer_hides_what_a_tool_gets"
        )
    }
}
