"""The columns of plain Python in docs/conformance.md."""

from __future__ import annotations

from tests.testing.reasons import APPROVED_WITHIN_CALL, OWN_TOOLS, THREADS

CANNOT = {
    "Plain Python": {
        "another call than was shown": APPROVED_WITHIN_CALL,
        "late tools of a server": OWN_TOOLS,
        "sub-agent in a thread of its own": THREADS,
        **dict.fromkeys(("streaming", "stopped while streaming"), "cannot occur because `run_agent` does not stream"),
    }
}
BREAKS = {
    "Plain Python": {
        "a serializer hides the value that the tool receives": "test_adapter.py::test_what_is_no_json_value_is_denied"
    }
}
