"""The columns of Google ADK in docs/conformance.md."""

from __future__ import annotations

from tests.testing.reasons import THREADS

CANNOT = {"Google ADK": {"sub-agent in a thread of its own": THREADS}}
BREAKS = {
    "Google ADK": {
        "a serializer hides the value that the tool receives": (
            "test_adapter.py::test_what_cannot_be_guarded_is_refused"
        )
    }
}
