"""Messages of MCP, the calls and outcomes in them as rules judge them, approval through a form, and denials.

Both sides are parsed strictly: a repeated name, a name in another case, or `NaN` may mean different things to the guard
and to the recipient. The judged message is written anew. The client shows the form (elicitation).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from typing import Any

from guardagent._support import json_values
from guardagent.enforcement import Approval, ApprovalRequest, HostCall, Outcome
from guardagent.enforcement.schema import read_object
from guardagent.enforcement.tool_guard import gave_up
from guardagent.enforcement.uri import normalised
from guardagent.errors import InputError
from guardagent.types import Decision, Verdict

# --- messages of JSON-RPC 2.0, one object each

Message = dict[str, Any]

CLOSED = -32000  # the connection ended before an answer came
DENIED = -32010  # from the range that JSON-RPC reserves for implementations; otherwise unused in MCP
INVALID = -32600
PARSE_ERROR = -32700
METHOD_NOT_FOUND = -32601

# Since 2026-07-28 the `_meta` of every request carries the data of the former handshake.
REVISION = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
NEWEST = "2026-07-28"
"""The newest revision that the proxy speaks."""
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"

_KINDS = ({"jsonrpc", "id", "method", "params"}, {"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})


def require_plain(value: Mapping[str, Any], names: Collection[str], place: str) -> None:
    """Refuses names that another reader may take for one of `names`.

    Raises:
        InputError: there is such a name.
    """
    others = value.keys() - set(names)
    meant = {folded(name): name for name in names} if others else {}
    for name in others:
        if folded(name) in meant:
            raise InputError(f"{place} has {name!r}; expected {meant[folded(name)]!r}, spelled exactly")


def folded(name: str) -> str:
    """Returns a name as a lenient reader takes it: normalized, case-folded and stripped."""
    return unicodedata.normalize("NFKC", name).casefold().strip()


def write_message(message: Mapping[str, Any]) -> bytes:
    """Returns a message as one line of ASCII."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def lenient(line: bytes | str) -> Message | None:
    """Returns a refused message as one possible parser reads it."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def id_of(line: bytes | str) -> Any:
    """Returns the id of a refused message, if it is readable."""
    message_id = (lenient(line) or {}).get("id")
    return message_id if is_id(message_id) else None


def is_id(value: Any) -> bool:
    return type(value) in (str, int)


def is_request(message: Mapping[str, Any]) -> bool:
    return "method" in message and "id" in message


def is_notification(message: Mapping[str, Any]) -> bool:
    return "method" in message and "id" not in message


def params_of(message: Mapping[str, Any]) -> Mapping[str, Any]:
    params = message.get("params")
    return params if isinstance(params, Mapping) else {}


def envelope_of(params: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the client's metadata of a request since 2026-07-28; None for an older request."""
    meta = params.get("_meta")
    return meta if isinstance(meta, Mapping) and VERSION_KEY in meta else None


def request(request_id: Any, method: str, params: Any = None) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, **({} if params is None else {"params": params})}


def notification(method: str, params: Any = None) -> Message:
    return {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}


def result(request_id: Any, value: Mapping[str, Any]) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "result": value}


def error(request_id: Any, code: int, message: str, data: Any = None) -> Message:
    fields = {"code": code, "message": message, **({} if data is None else {"data": data})}
    return {"jsonrpc": "2.0", "id": request_id, "error": fields}


# --- calls and outcomes

ToolCall = Callable[[str, Mapping[str, Any], str | None], HostCall]

TOOL = "tools/call"
OF_CLIENT = {TOOL: "", "resources/read": "resource.read", "prompts/get": "prompt.get"}
"""The judged methods of a client, with their names in the rules; a tool has its own name."""

OF_SERVER = {"sampling/createMessage": "sampling.create", "elicitation/create": "elicitation.create"}
"""The judged methods of a server, with their names in the rules."""

_MEMBERS = {
    TOOL: ("name", "arguments"),
    "resources/read": ("uri",),
    "prompts/get": ("name", "arguments"),
}
_PROTOCOL_MEMBERS = ("_meta", "inputResponses", "requestState", "task")
_KNOWN_MEMBERS = {method: {*names, *_PROTOCOL_MEMBERS} for method, names in _MEMBERS.items()}
_SUBSCRIPTIONS = ("resources/subscribe", "resources/unsubscribe")
_OTHER_METHODS = ("initialize", "tools/list", "completion/complete", "roots/list")
_METHODS = {
    folded(subscription): subscription for subscription in (*OF_CLIENT, *OF_SERVER, *_SUBSCRIPTIONS, *_OTHER_METHODS)
}
_PARAMS = ("name", "arguments", "uri", "ref", "argument", "cursor", "requestId", "progressToken", *_PROTOCOL_MEMBERS)
_SERVER_PARAMS = ("message", "requestedSchema", "mode", "url", "elicitationId", "messages", "systemPrompt", "tools")
_RESULT_MEMBERS = ("content", "structuredContent", "isError", "resultType", "inputRequests", "requestState", "action")


def client_call(method: str, params: Mapping[str, Any], conversation: str | None, tool_call: ToolCall) -> HostCall:
    """Returns the call of a client's request.

    Args:
        method: one of `OF_CLIENT`.
        params: its parameters.
        conversation: its conversation.
        tool_call: validates a tool's arguments, and returns the call.

    Raises:
        InputError: the request is malformed, or does not match its tool.
    """
    if extra := params.keys() - _KNOWN_MEMBERS[method]:
        expected = ", ".join(_MEMBERS[method])
        raise InputError(f"{method!r} has {min(extra)!r}; expected only {expected}, spelled exactly")
    if method == "resources/read":
        return HostCall(OF_CLIENT[method], {"uri": normalised(_text(params, "uri", method))}, conversation)
    name, args = _text(params, "name", method), params.get("arguments")
    if args is not None and not isinstance(args, Mapping):
        raise InputError(f"the arguments of {name!r} are a {type(args).__name__}; expected an object")
    if method == TOOL:
        return tool_call(name, args or {}, conversation)
    return HostCall(OF_CLIENT[method], {"name": name, "arguments": dict(args or {})}, conversation)


def server_event(method: str, params: Mapping[str, Any], conversation: str | None) -> HostCall:
    """Returns the event of a server's request."""
    return HostCall(
        OF_SERVER[method], {name: parameter for name, parameter in params.items() if name != "_meta"}, conversation
    )


def with_args(message: Mapping[str, Any], args: Mapping[str, Any]) -> Message:
    """Returns a request with the judged arguments."""
    method, params = message["method"], dict(params_of(message))
    if method == TOOL:
        params["arguments"] = dict(args)
    elif method == "prompts/get":
        params |= args if args.get("arguments") or "arguments" in params else {"name": args["name"]}
    elif method in OF_SERVER:
        params = {**({"_meta": params["_meta"]} if "_meta" in params else {}), **args}
    else:
        params |= args
    return {**message, "params": params}


def outcome_of(message: Mapping[str, Any]) -> Outcome:
    """Returns a call's outcome from its response."""
    if "error" in message:
        error = message["error"]
        return Outcome(error.get("message") if isinstance(error, Mapping) else error, failed=True)
    answer = message.get("result")
    if not isinstance(answer, Mapping):
        return Outcome(answer, failed=None)
    if unfinished(answer):
        return Outcome(answer, failed=None, ended=False)
    return outcome_of_result(answer)


def outcome_of_result(answer: Mapping[str, Any]) -> Outcome:
    """Returns the outcome of a finished call from its result."""
    beside = answer.get("content"), answer.get("structuredContent")
    return Outcome(output_of(answer), failed=answer.get("isError") is True, other_outputs=beside)


def withheld(answer: Mapping[str, Any], problem: str) -> Message:
    """Returns an error of the tool in place of its result."""
    modern = {name: answer[name] for name in ("resultType",) if name in answer}
    return {"content": [{"type": "text", "text": problem}], "isError": True, **modern}


def with_note(answer: Any, line: str) -> Any:
    """Returns a finished result with a line for the model. Structured content stays as its schema has it."""
    if not isinstance(answer, Mapping) or unfinished(answer) or not isinstance(answer.get("content"), list):
        return answer
    return {**answer, "content": [*answer["content"], {"type": "text", "text": line}]}


def uncached(answer: Any) -> Any:
    """Returns the result of a judged request without its permission to cache it.

    A cache would answer the next request in place of the guard, and a public one would answer other callers.
    """
    never = {"ttlMs": 0, "cacheScope": "private"}
    if not isinstance(answer, Mapping) or not never.keys() & answer.keys() or never.items() <= answer.items():
        return answer
    return {**answer, **never}


def unfinished(answer: Mapping[str, Any]) -> bool:
    """Whether a result is not final: it requests input, or a task has started."""
    return answer.get("resultType", "complete") != "complete" or (
        isinstance(answer.get("task"), Mapping) and "content" not in answer
    )


def output_of(answer: Mapping[str, Any]) -> Any:
    """Returns a tool's output as rules see it: its structured content, else its text.

    FastMCP and mcp wrap a non-object value as `{"result": value}`, which is unwrapped.
    """
    structured = answer.get("structuredContent")
    if structured is not None:
        alone = isinstance(structured, Mapping) and list(structured) == ["result"]
        return structured["result"] if alone else structured
    content = answer.get("content")
    if not isinstance(content, list):
        return {name: value for name, value in answer.items() if name != "_meta"}
    texts = [part.get("text") for part in content if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str)) if all(texts) else content


def _text(params: Mapping[str, Any], name: str, method: str) -> str:
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise InputError(f"{method!r} has the {name} {value!r}; expected a string")
    return value


def read(line: bytes | str) -> Message:
    """Reads an unambiguous message.

    Raises:
        InputError: the message is ambiguous or malformed.
    """
    try:
        value = json_values.loads(line)
    except ValueError as error:
        raise InputError(f"this is not JSON: {error}; expected one JSON-RPC object in a line") from None
    if not isinstance(value, dict):
        raise InputError(f"this is a {type(value).__name__}; expected one JSON-RPC object (batches are not passed on)")
    if not any(value.keys() <= kind for kind in _KINDS) or len(value.keys() - {"jsonrpc", "id"}) == 0:
        names = ", ".join(repr(name[:40]) for name in list(value)[:9])
        raise InputError(f"the message has {names}; expected method and params, a result or an error, spelled exactly")
    if "method" in value:
        require_known_kind(value)
    elif isinstance(value.get("result"), Mapping):
        require_plain(value["result"], (*_RESULT_MEMBERS, "tools", "nextCursor", "task", "_meta"), "the result")
    if value.get("method") in _SUBSCRIPTIONS:
        uri = normalised(_text(params_of(value), "uri", value["method"]))
        return {**value, "params": {**value["params"], "uri": uri}}
    return value


def require_known_kind(message: Mapping[str, Any]) -> None:
    """Refuses a message that another reader may take for a different kind of message.

    Raises:
        InputError: the message is ambiguous or malformed.
    """
    method = message["method"]
    if not isinstance(method, str):
        raise InputError(f"the method is a {type(method).__name__}; expected a string")
    if _METHODS.get(folded(method), method) != method:
        raise InputError(f"the method is {method!r}; expected {_METHODS[folded(method)]!r}, spelled exactly")
    if "id" not in message and not method.startswith("notifications/"):
        raise InputError(f"{method!r} has no id; only notifications may omit it")
    if "id" in message and not is_id(message["id"]):
        raise InputError(f"the id of {method!r} is invalid; expected a string or an integer")
    params = message.get("params")
    if params is None:
        return
    if not isinstance(params, Mapping):
        raise InputError(f"the params of {method!r} are a {type(params).__name__}; expected an object")
    require_plain(params, _SERVER_PARAMS if method in OF_SERVER else _PARAMS, method)


# --- approval

KEY = "guardagent.approval"
"""The key of the guard's request among the input requests of a result (protocol 2026-07-28)."""

_FORM = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "title": "Decision", "enum": ["reject", "approve", "edit"]},
        "arguments": {
            "type": "string",
            "title": "Edited arguments",
            "description": "Only with edit: all arguments, as a JSON object",
        },
        "reason": {"type": "string", "title": "Reason", "description": "Only with reject: feedback to the agent"},
    },
    "required": ["decision"],
}


def question(request: ApprovalRequest) -> dict[str, Any]:
    """Returns the parameters of `elicitation/create` for a call with all its arguments."""
    return {"mode": "form", "message": request.text(), "requestedSchema": _FORM}


def asking_result(request: ApprovalRequest, state: str) -> dict[str, Any]:
    """Builds the result that requests approval; the client calls again with the answer and the state."""
    elicitation = {"method": "elicitation/create", "params": question(request)}
    return {"resultType": "input_required", "inputRequests": {KEY: elicitation}, "requestState": state}


def answer_in(params: Mapping[str, Any]) -> Approval:
    """Reads the reviewer's answer from the parameters of the repeated call."""
    input_responses = params.get("inputResponses")
    return answer(input_responses.get(KEY) if isinstance(input_responses, Mapping) else None)


def asks_by_result(params: Mapping[str, Any]) -> bool:
    """Whether a call uses protocol 2026-07-28 or later, and its client shows forms."""
    envelope = envelope_of(params)
    return envelope is not None and can_ask(envelope.get(CAPABILITIES_KEY))


def can_ask(capabilities: Any) -> bool:
    """Whether a client shows forms; an empty `elicitation` capability means that it does."""
    elicitation = capabilities.get("elicitation") if isinstance(capabilities, Mapping) else None
    return isinstance(elicitation, Mapping) and (not elicitation or isinstance(elicitation.get("form"), Mapping))


def answer(response: Any) -> Approval:
    """Reads a filled-in form. Anything that is not an approval rejects."""
    if not isinstance(response, Mapping) or response.get("action") != "accept":
        action = response.get("action") if isinstance(response, Mapping) else None
        return Approval("reject", reason="the form was not filled in" if action in ("cancel", None) else "")
    content = response.get("content")
    if isinstance(content, Mapping) and content.get("decision") == "edit":
        return _edited(content.get("arguments"))
    decision = (
        {"choice": content.get("decision"), "reason": content.get("reason")} if isinstance(content, Mapping) else None
    )
    return Approval.read(decision)


def _edited(text: Any) -> Approval:
    try:
        return Approval("edit", read_object(text if isinstance(text, str) and text else "null", "the edited call"))
    except InputError as error:
        return Approval("reject", reason=str(error))


# --- denials


def denial_message(verdict: Verdict, *, client: bool = True) -> str:
    """Returns the feedback of a verdict, with the next step if the agent must not try again.

    Args:
        verdict: a denial.
        client: whether the client receives approval requests if it can show forms.
    """
    feedback = verdict.feedback()
    if verdict.decision is Decision.ESCALATE:
        why = "the client cannot show a form (elicitation)" if client else "approval requests do not go to the client"
        return f"{feedback}\nNo reviewer could be reached: {why}, and no approver is configured."
    if verdict.decision is Decision.HALT:
        return f"{feedback}\nEvery further call in this session is denied. Tell the user."
    if gave_up(verdict):
        return f"{feedback}\n{verdict.reasons[-1]}. Stop here, and tell the user why."
    return feedback
