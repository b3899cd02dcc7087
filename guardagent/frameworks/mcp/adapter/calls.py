"""Which messages are calls that rules speak of, and what came of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guardagent.enforcement import HostCall, Outcome
from guardagent.enforcement.uri import normalised
from guardagent.errors import InputError
from guardagent.frameworks.mcp.adapter.wire import Message, folded, is_id, params_of, read_message, require_plain

TOOL = "tools/call"
OF_CLIENT = {TOOL: "", "resources/read": "resource.read", "prompts/get": "prompt.get"}
"""What a client asks of a server and is judged: method -> the name in the rules; a tool has its own."""

OF_SERVER = {"sampling/createMessage": "sampling.create", "elicitation/create": "elicitation.create"}
"""What a server asks of a client and is judged."""

_MEMBERS = {
    TOOL: ("name", "arguments"),
    "resources/read": ("uri",),
    "prompts/get": ("name", "arguments"),
}
_PROTOCOL_MEMBERS = ("_meta", "inputResponses", "requestState", "task")
_SUBSCRIPTIONS = ("resources/subscribe", "resources/unsubscribe")
_OTHER_METHODS = ("initialize", "tools/list", "completion/complete", "roots/list")
_METHODS = {folded(one): one for one in (*OF_CLIENT, *OF_SERVER, *_SUBSCRIPTIONS, *_OTHER_METHODS)}
_PARAMS = ("name", "arguments", "uri", "ref", "argument", "cursor", "requestId", "progressToken", *_PROTOCOL_MEMBERS)
_SERVER_PARAMS = ("message", "requestedSchema", "mode", "url", "elicitationId", "messages", "systemPrompt", "tools")
_RESULT_MEMBERS = ("content", "structuredContent", "isError", "resultType", "inputRequests", "requestState", "action")


def client_call(method: str, params: Mapping[str, Any], conversation: str | None) -> HostCall:
    """The call that a request of a client is; the arguments of a tool are not held to its schema yet.

    Raises:
        InputError: it has not the form of one.
    """
    if extra := params.keys() - {*_MEMBERS[method], *_PROTOCOL_MEMBERS}:
        expected = ", ".join(_MEMBERS[method])
        raise InputError(f"{method} has {min(extra)!r}; expected nothing but {expected}, spelt so")
    if method == "resources/read":
        return HostCall(OF_CLIENT[method], {"uri": normalised(_text(params, "uri", method))}, conversation)
    name, args = _text(params, "name", method), params.get("arguments")
    if args is not None and not isinstance(args, Mapping):
        raise InputError(f"the arguments of {name} are a {type(args).__name__}; expected an object")
    args = dict(args or {})
    if method == TOOL:
        return HostCall(name, args, conversation)
    return HostCall(OF_CLIENT[method], {"name": name, "arguments": args}, conversation)


def server_event(method: str, params: Mapping[str, Any], conversation: str | None) -> HostCall:
    """The event that a request of a server is."""
    return HostCall(OF_SERVER[method], {name: one for name, one in params.items() if name != "_meta"}, conversation)


def with_args(message: Mapping[str, Any], args: Mapping[str, Any]) -> Message:
    """A request with the arguments that were judged."""
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
    """What came of a call, from the answer to it."""
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
    """What came of a call that ran to its end, from its result."""
    beside = answer.get("content"), answer.get("structuredContent")
    return Outcome(output_of(answer), failed=answer.get("isError") is True, other_outputs=beside)


def unfinished(answer: Mapping[str, Any]) -> bool:
    """Whether an answer only says that there is more to come: input is asked for, or a task has begun."""
    return answer.get("resultType", "complete") != "complete" or (
        isinstance(answer.get("task"), Mapping) and "content" not in answer
    )


def output_of(answer: Mapping[str, Any]) -> Any:
    """What a tool gave back, as rules see it: its structured content, else its text.

    FastMCP and mcp wrap a value that is no object as `{"result": value}`, which is undone.
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
        raise InputError(f"{method} has the {name} {value!r}; expected a text")
    return value


def read(line: bytes | str) -> Message:
    """A message that can be taken for one thing only, whoever reads it.

    Raises:
        InputError: it is none.
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
    """Refuses what others may take for a call, and this proxy for something else.

    Raises:
        InputError: it is such a message.
    """
    method = message["method"]
    if not isinstance(method, str):
        raise InputError(f"the method is a {type(method).__name__}; expected a text")
    if _METHODS.get(folded(method), method) != method:
        raise InputError(f"the method is {method!r}; expected {_METHODS[folded(method)]!r}, spelt so")
    if "id" not in message and not method.startswith("notifications/"):
        raise InputError(f"{method} has no id; expected one: only notifications have none")
    if "id" in message and not is_id(message["id"]):
        raise InputError(f"the id of {method} is none; expected a text or a whole number")
    params = message.get("params")
    if params is None:
        return
    if not isinstance(params, Mapping):
        raise InputError(f"the params of {method} are a {type(params).__name__}; expected an object")
    require_plain(params, _SERVER_PARAMS if method in OF_SERVER else _PARAMS, method)
