"""Translates MCP messages into calls that rules judge, and answers into outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from guardagent.enforcement import HostCall, Outcome
from guardagent.enforcement.uri import normalised
from guardagent.errors import InputError
from guardagent.frameworks.mcp.adapter.wire import Message, folded, is_id, params_of, read_message, require_plain

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
_METHODS = {folded(one): one for one in (*OF_CLIENT, *OF_SERVER, *_SUBSCRIPTIONS, *_OTHER_METHODS)}
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
    return HostCall(OF_SERVER[method], {name: one for name, one in params.items() if name != "_meta"}, conversation)


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
        return {name: one for name, one in answer.items() if name != "_meta"}
    texts = [one.get("text") for one in content if isinstance(one, Mapping)]
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
    message = read_message(line)
    if "method" in message:
        require_known_kind(message)
    elif isinstance(message.get("result"), Mapping):
        require_plain(message["result"], (*_RESULT_MEMBERS, "tools", "nextCursor", "task", "_meta"), "the result")
    if message.get("method") in _SUBSCRIPTIONS:
        uri = normalised(_text(params_of(message), "uri", message["method"]))
        return {**message, "params": {**message["params"], "uri": uri}}
    return message


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
