"""Which messages are calls that rules speak of, and what came of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guardagent.adapters.mcp.wire import Message, params_of, require_plain
from guardagent.enforcement import HostCall, Outcome
from guardagent.enforcement.uri import normalised
from guardagent.errors import InputError

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
_OF_THE_PROTOCOL = ("_meta", "inputResponses", "requestState", "task")


def proposed(method: str, params: Mapping[str, Any], conversation: str | None) -> HostCall:
    """The call that a request of a client is; the arguments of a tool are not held to its schema yet.

    Raises:
        InputError: it has not the form of one.
    """
    require_plain(params, (*_MEMBERS[method], *_OF_THE_PROTOCOL), method)
    if method == "resources/read":
        return HostCall(OF_CLIENT[method], {"uri": normalised(_text(params, "uri", method))}, conversation)
    name, args = _text(params, "name", method), params.get("arguments")
    if args is not None and not isinstance(args, Mapping):
        raise InputError(f"the arguments of {name} are a {type(args).__name__}; expected an object")
    args = dict(args or {})
    if method == TOOL:
        return HostCall(name, args, conversation)
    return HostCall(OF_CLIENT[method], {"name": name, "arguments": args}, conversation)


def asked(method: str, params: Mapping[str, Any], conversation: str | None) -> HostCall:
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
        said = message["error"]
        return Outcome(said.get("message") if isinstance(said, Mapping) else said, failed=True)
    answer = message.get("result")
    if not isinstance(answer, Mapping):
        return Outcome(answer, failed=None)
    if unfinished(answer):
        return Outcome(answer, failed=None, ended=False)
    return Outcome(output_of(answer), failed=answer.get("isError") is True)


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


def require_known_kind(message: Message) -> None:
    """Refuses what a server may take for a call, and this proxy for something else.

    Raises:
        InputError: it is such a message.
    """
    if "method" not in message:
        return
    method = message["method"]
    if not isinstance(method, str):
        raise InputError(f"the method is a {type(method).__name__}; expected a text")
    folded = method.strip().casefold()
    meant = next((one for one in (*OF_CLIENT, "initialize", "tools/list") if one.casefold() == folded), method)
    if meant != method:
        raise InputError(f"the method is {method!r}; expected {meant!r}, spelt so")
    if "id" not in message and not method.startswith("notifications/"):
        raise InputError(f"{method} has no id; expected one: only notifications have none")
    if "params" in message and not isinstance(message["params"], Mapping):
        raise InputError(f"the params of {method} are a {type(message['params']).__name__}; expected an object")
    if "result" in message or "error" in message:
        raise InputError(f"{method} is a request and an answer in one; expected one of them")
