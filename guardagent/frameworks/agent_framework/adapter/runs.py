"""The runs of chat clients, the conversation that each belongs to, and results and messages as rules read them.

If a private name of the host that the adapter relies on is missing, importing the adapter fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent_framework import Content, MiddlewareFailure, MiddlewareTermination, _mcp, _sessions, _tools
from agent_framework.exceptions import ToolExecutionException, UserInputRequiredException

from guardagent._support.requirements import require_parts
from guardagent.enforcement import Outcome
from guardagent.enforcement.host_adapter import plain_or_text
from guardagent.enforcement.host_runs import HostScope, HostSurroundings, ModelRun
from guardagent.errors import ToolDenied, error_text
from guardagent.types import EMPTY

require_parts(_tools, "_APPROVAL_SESSION_IS_AUTHORITATIVE_KEY", "_APPROVAL_REQUEST_ID_KEY")
require_parts(_sessions, "_WORKFLOW_DEFER_COMPUTER_FUNCTION_RESULTS_KEY")
require_parts(_mcp, "MCPTool", "_MCP_REMOTE_NAME_KEY", "_MCP_NORMALIZED_NAME_KEY", "_MCP_FRAMEWORK_DENYLIST")

OWN_SESSION: str = _tools._APPROVAL_SESSION_IS_AUTHORITATIVE_KEY  # noqa: SLF001 - false if the host made the session
REQUEST_ID: str = _tools._APPROVAL_REQUEST_ID_KEY  # noqa: SLF001 - of a repeated approval request
IN_WORKFLOW: str = _sessions._WORKFLOW_DEFER_COMPUTER_FUNCTION_RESULTS_KEY  # noqa: SLF001 - in a workflow's session
SERVER_MARKS = (_mcp._MCP_REMOTE_NAME_KEY, _mcp._MCP_NORMALIZED_NAME_KEY)  # noqa: SLF001 - of the tools of a server
KEPT_FROM_SERVERS = frozenset(_mcp._MCP_FRAMEWORK_DENYLIST)  # noqa: SLF001 - arguments that no server gets
MCPTool = _mcp.MCPTool


# --- runs

UNNAMED = (
    "this run names no conversation: pass session=... to it, run it inside 'with conversation(id):', or attach the "
    "guard with conversation=...; the sessions of a workflow's own agents do not count"
)


class AgentFrameworkHalted(ToolDenied, MiddlewareFailure):
    """A rule has halted the run: awaiting it raises this. `verdict` says why."""


@dataclass(slots=True)
class ClientRun(ModelRun):
    """One request to a chat client, with the tool calls that it leads to.

    Attributes:
        proposed: the ids of the calls that models proposed in this conversation.
        handoffs: the host's names of the tools that hand the conversation over -> the agent that takes over.
        handed_over: whether one of these was called.
        hands_over: whether the model's last message calls one.
    """

    halt_error = AgentFrameworkHalted

    proposed: set[str] = field(default_factory=set)
    handoffs: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    handed_over: bool = False
    hands_over: bool = False


@dataclass(frozen=True, slots=True)
class ClientScope(HostScope):
    """The surroundings of a run or a call.

    Attributes:
        agent: the name of the agent.
        answered: the host's answer to the approval request of the call; None if there is none.
        asks: whether the host can ask a reviewer, and continue later.
    """

    run: ClientRun | None = None
    agent: str | None = None
    answered: Mapping[str, Any] | None = None
    asks: bool = False

    def of_call(self, tool_id: str | None, answered: Mapping[str, Any] | None) -> ClientScope:
        """Returns the surroundings of a tool's call. Within another call it has neither the host's id nor an answer."""
        if self.call is not None:
            tool_id = answered = None
        return replace(self, tool_id=tool_id, answered=answered)


SURROUNDINGS = HostSurroundings("agent_framework", ClientScope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation


# --- results

_LOST = (408, -32001, -32000)
"""The codes with which MCP's client reports a time-out or a closed connection: the server did not answer."""


class ServerAnswerLostError(ToolExecutionException):
    """The connection to a server broke during a call, which may have done its work."""


def outcome_of(result: Any) -> Outcome:
    """Returns a call's outcome from what its tool has returned: a value, or contents of the host."""
    parts = result if isinstance(result, list) else [result]
    if not any(isinstance(part, Content) for part in parts):
        return Outcome(plain_or_text(result))
    texts = [_text(part) for part in parts]
    failed = any(isinstance(part, Content) and part.type == "error" for part in parts)
    return Outcome(texts[0] if len(texts) == 1 else "\n".join(map(str, texts)), failed=failed, other_outputs=(texts,))


def outcome_of_error(error: BaseException) -> Outcome:
    """Returns the outcome of a tool that raised; one that ends or pauses the run may have done its work."""
    signal = isinstance(error, MiddlewareTermination | MiddlewareFailure | UserInputRequiredException)
    return Outcome(error_text(error), failed=None) if signal else Outcome.of_error(error)


def outcome_of_server_error(error: BaseException) -> Outcome:
    """Returns the outcome of a call to an MCP server: only an answer of the server tells that it failed."""
    cause = error.__cause__
    code = getattr(getattr(cause, "error", None), "code", None)
    answered = cause is None or (code is not None and code not in _LOST)
    if isinstance(error, ToolExecutionException) and (isinstance(error, ServerAnswerLostError) or not answered):
        return Outcome(error_text(error), failed=None)
    return outcome_of_error(error)


def _text(part: Any) -> Any:
    if not isinstance(part, Content):
        return plain_or_text(part)
    if part.type == "text":
        return part.text or ""
    return part.message or "" if part.type == "error" else f"({part.type})"


# --- messages


def chat(messages: Iterable[Any]) -> list[dict[str, str]]:
    """Returns role and text of each message."""
    return [{"role": str(message.role), "content": message.text or ""} for message in messages]


def call_ids(messages: Iterable[Any], kind: str) -> list[str]:
    """Returns the ids of the calls in the contents of one type, such as `function_result`."""
    call_ids = (content.call_id for message in messages for content in message.contents if content.type == kind)
    return [call_id for call_id in call_ids if isinstance(call_id, str)]
