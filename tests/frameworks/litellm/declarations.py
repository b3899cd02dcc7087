"""The columns of LiteLLM's proxy in docs/conformance.md."""

from __future__ import annotations

from tests.testing.reasons import APPROVED_WITHIN_CALL, NO_SERVER_NAME

CANNOT = {
    "LiteLLM proxy": {
        "another call than was shown": APPROVED_WITHIN_CALL,
        "edited call is told": "cannot occur because the client gets the edited call as the model's own",
        "late tools of a server": NO_SERVER_NAME,
        "stopped between parallel calls": (
            "cannot be closed because the client has all calls of a message before it runs the first"
        ),
        "too long": "cannot be closed because the client runs the tools, and the proxy cannot cancel them",
        "sub-agent under another id": (
            "cannot be closed because the proxy knows a run only by the id that its client sends; send the same id for "
            "all agents of a run"
        ),
    }
}
BREAKS = {
    "LiteLLM proxy": {
        "a serializer hides the value that the tool receives": (
            "test_adapter.py::test_no_spelling_gets_past_a_limit "
            "test_adapter.py::test_the_client_gets_the_judged_defaults"
        ),
        "a cache answers in place of the guard": "test_adapter.py::test_a_cached_response_runs_once",
    }
}
