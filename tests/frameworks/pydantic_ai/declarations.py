"""The columns of Pydantic AI in docs/conformance.md."""

from __future__ import annotations

from tests.testing.reasons import THREADS

CANNOT = {"Pydantic AI": {"sub-agent in a thread of its own": THREADS}}
BREAKS = {
    "Pydantic AI": {
        "a serializer hides the value that the tool receives": (
            "test_adapter.py::test_a_serializer_hides_nothing_from_the_rules"
        )
    }
}
