"""Past breaks by attacks, and the tests that prevent them: for the second table of docs/conformance.md.

A cell names the tests, as FILE::TEST under tests/; the scenario that is played there, as `=SCENARIO`; or the reason why
there is no such test.
"""

from __future__ import annotations

from tests.testing.conformance_cannot import CANNOT

PYTHON, LANGGRAPH, OPENAI, PROXY, FASTMCP, COMMANDS = (
    "Plain Python",
    "LangChain, LangGraph",
    "OpenAI Agents SDK",
    "MCP proxy",
    "FastMCP middleware",
    "commands",
)
HOSTS = (PYTHON, LANGGRAPH, OPENAI, PROXY, FASTMCP, COMMANDS)
RUN_NOTHING = "cannot occur because a command runs no agent's tools"
NOTHING_IS_SENT = "cannot occur because no message lies between the verdict and the tool"
NO_PROOF = "cannot occur because an adapter uses no proofs; sessions do, and accept only proofs for every run"
OWN_POLICIES = "cannot occur because attaching a guard runs its policies on purpose; they are the operator's own"
NO_JSON_RPC = "cannot occur because this host has no JSON-RPC message that two readers could read in two ways"
NO_RESOURCES = "cannot occur because resources are not events in this host"
READ_BY_HOST = "cannot occur because the host reads the input, with its own limits"
WHEN_MADE = "cannot occur because the adapter guards a tool before the agent receives it"

CASE = "_support/test_arguments.py::test_names_that_some_reader_treats_as_equal_deny_everywhere"
APPROVAL = "enforcement/test_approval.py::test_no_value_leaves_its_line"
PROOFS = (
    "workflow/analysis/test_proofs.py::test_a_report_is_no_proof "
    "frameworks/langgraph/test_sessions.py::test_no_session_breaks_what_is_proved_for_every_run"
)


def _everywhere(cell: str, **others: str) -> dict[str, str]:
    named = {"python": PYTHON, "langgraph": LANGGRAPH, "openai": OPENAI, "proxy": PROXY, "fastmcp": FASTMCP}
    return {**dict.fromkeys(HOSTS[:-1], cell), COMMANDS: RUN_NOTHING, **{named[one]: others[one] for one in others}}


BREAKS: dict[str, dict[str, str]] = {
    "the transport sends a judged call again": _everywhere(
        NOTHING_IS_SENT, proxy="frameworks/mcp/test_http_front.py::test_a_call_that_ran_is_never_sent_again"
    ),
    "a session relies on a proof for the graph as drawn": {**_everywhere(NO_PROOF), COMMANDS: PROOFS},
    "one approval, several executions": _everywhere("=approve twice"),
    "an answer approves another call than was shown": _everywhere("=another call than was shown"),
    "a serializer hides the value that the tool receives": _everywhere(
        "",
        python="frameworks/python/test_adapter.py::test_what_is_no_json_value_is_denied",
        langgraph="frameworks/langgraph/test_values.py::test_no_serializer_hides_a_value",
        openai="frameworks/openai_agents/test_adapter_arguments.py::test_no_serializer_hides_what_a_tool_gets",
        proxy="cannot occur because the server receives exactly the judged JSON",
        fastmcp="frameworks/mcp/test_middleware.py::test_a_serializer_hides_nothing",
    ),
    "a failure beside other content counts as success": _everywhere("=failed output"),
    "reading a policy or a prompt runs the files that it names": {
        **_everywhere(OWN_POLICIES),
        COMMANDS: "cli/test_workflow.py::test_nothing_of_a_policy_is_run "
        "models/test_prompts.py::test_an_invalid_template_denies_with_its_location",
    },
    "the guard accepts tools that a server adds or changes later": _everywhere("=late tools of a server"),
    "names that differ in case only, at any depth": _everywhere(CASE),
    "members of a message that clients read in any case": _everywhere(
        NO_JSON_RPC, proxy="frameworks/mcp/test_proxy.py::test_ambiguous_messages_do_not_reach_the_client"
    ),
    "another spelling of a resource's URI": _everywhere(
        NO_RESOURCES,
        proxy="frameworks/mcp/test_proxy.py::test_no_spelling_of_a_uri_gets_past_the_rules",
        fastmcp="enforcement/test_uri.py::test_a_rule_about_a_resource_holds_for_its_other_spellings",
    ),
    "an argument draws a line of its own in the approval request": _everywhere(APPROVAL),
    "a native module beside a locked file": {
        **_everywhere(OWN_POLICIES),
        COMMANDS: "programs/runtime/test_lock.py::test_nothing_takes_the_place_of_a_locked_file "
        "programs/runtime/test_lock.py::test_what_no_import_shows_is_not_imported",
    },
    "the guard does not judge a final answer from a tool": _everywhere("=final answer"),
    "a sub-agent under another id has a fresh history": _everywhere("=sub-agent under another id"),
    "a sub-agent in a thread that a tool starts has a fresh history": _everywhere("=sub-agent in a thread of its own"),
    "endless input costs memory and time": {
        **_everywhere(READ_BY_HOST, proxy="frameworks/mcp/test_proxy.py::test_a_message_without_end_ends_it"),
        COMMANDS: "batch/test_lines.py::test_a_line_that_is_too_long_is_one_error",
    },
    "tools run before the guard is attached": _everywhere(
        WHEN_MADE, fastmcp="frameworks/mcp/test_middleware.py::test_calls_before_the_first_request_are_judged"
    ),
}
"""Break -> host -> cell."""


def cells() -> dict[str, dict[str, str]]:
    """Host -> break -> why it has no test; as `matrix` takes it."""
    return {
        host: {row: reason for row, of_hosts in BREAKS.items() if (reason := _reason(of_hosts[host], host))}
        for host in HOSTS
    }


def tests() -> list[str]:
    """All test names in the table."""
    named = (one for of_hosts in BREAKS.values() for cell in of_hosts.values() for one in cell.split())
    return sorted({one for one in named if "::" in one})


def _reason(cell: str, host: str) -> str | None:
    """None if a test holds it."""
    if cell.startswith("="):
        return CANNOT[host].get(cell[1:])
    return None if "::" in cell else cell
