"""The columns of LlamaIndex in docs/conformance.md."""

from __future__ import annotations

from tests.testing.reasons import THREADS

CANNOT = {"LlamaIndex": {"sub-agent in a thread of its own": THREADS}}
BREAKS = {
    "LlamaIndex": {
        "a serializer hides the value that the tool receives": (
            "test_adapter.py::test_what_cannot_be_guarded_is_refused"
        )
    }
}
