"""The columns of MCP in docs/conformance.md."""

from __future__ import annotations

from tests.testing.reasons import OWN_TOOLS

UNSEEN_ANSWERS = "cannot occur because an MCP server does not see its client's answers; its client's host judges them"
UNSEEN_MESSAGES = "cannot occur because an MCP server does not see its client's messages"
ANOTHER_CONNECTION = "cannot be closed because another connection is another session, without a link to the first"

ONE_REQUEST = (
    "cannot occur because the client's form names no call: its answer belongs to the request that the form came with"
)

_ALL = {
    "repeated ids": "cannot occur because a call of MCP has no id of a model",
    "contradicting approval": ONE_REQUEST,
    "forged history": UNSEEN_MESSAGES,
    "streaming": UNSEEN_ANSWERS,
    "stopped while streaming": UNSEEN_ANSWERS,
    "final answer": UNSEEN_ANSWERS,
    "rules about the answer": UNSEEN_ANSWERS,
    "sub-agent under another id": ANOTHER_CONNECTION,
    "sub-agent in a thread of its own": ANOTHER_CONNECTION,
}
CANNOT = {
    "MCP proxy": _ALL,
    "FastMCP middleware": _ALL,
    "mcp middleware": {
        **_ALL,
        "late tools of a server": OWN_TOOLS,
        "retry": "cannot be closed because the library turns every exception of a tool, also a time-out, into a failed "
        "result before its middlewares see it; return the outcome from the tool instead",
    },
}
BREAKS = {
    "MCP proxy": {
        "the transport sends a judged call again": "test_http_front.py::test_a_call_that_ran_is_never_sent_again",
        "a serializer hides the value that the tool receives": (
            "cannot occur because the server receives exactly the judged JSON"
        ),
        "members of a message that clients read in any case": (
            "test_proxy.py::test_ambiguous_messages_do_not_reach_the_client"
        ),
        "another spelling of a resource's URI": "test_proxy.py::test_no_spelling_of_a_uri_gets_past_the_rules",
        "endless input costs memory and time": "test_proxy.py::test_a_message_without_end_ends_it",
    },
    "FastMCP middleware": {
        "a serializer hides the value that the tool receives": "test_middleware.py::test_a_serializer_hides_nothing",
        "another spelling of a resource's URI": (
            "/enforcement/test_uri.py::test_a_rule_about_a_resource_holds_for_its_other_spellings"
        ),
        "a cache answers in place of the guard": (
            "test_middleware.py::test_a_cache_answers_nothing_in_place_of_the_guard "
            "test_middleware.py::test_a_client_caches_nothing_that_it_reads"
        ),
        "tools run before the guard is attached": (
            "test_middleware.py::test_calls_before_the_first_request_are_judged"
        ),
    },
}
