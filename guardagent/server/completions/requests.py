"""A request for a chat completion. Options that would change the answer, and are not supported, are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from guardagent.errors import InputError

JSON = dict[str, Any]
_IGNORED = frozenset(
    "user metadata store service_tier safety_identifier prompt_cache_key prompt_cache_retention reasoning_effort "
    "verbosity".split()
)
"""Options that do not change what may be answered."""

_NEUTRAL: Mapping[str, Any] = {
    "n": 1,
    "logprobs": False,
    "top_logprobs": 0,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "stop": [],
    "logit_bias": {},
    "response_format": {"type": "text"},
    "parallel_tool_calls": True,
}
"""Options that are supported with one value only, in which they change nothing."""

_ROLES = ("system", "developer", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A call that the client's messages show.

    Attributes:
        id: its id.
        tool: its tool.
        args: its arguments.
    """

    id: str
    tool: str
    args: Any


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request.

    Attributes:
        model: the name of the model.
        messages: the messages for the chat template: texts, and arguments as mappings.
        tools: the tools that may be called.
        tool_choice: as of `TurnRequest`.
        max_tokens: the most tokens; None for the server's limit.
        sampling: `do_sample`, `temperature`, `top_p` and `seed` of `TurnRequest`.
        is_stream: whether the answer is streamed.
        has_usage: whether a stream ends with the numbers of tokens.
        calls: the calls of the assistant's messages, in order.
        results: the ids of calls -> their results.
        is_new_turn: whether the last message is the user's.
    """

    model: str
    messages: list[JSON]
    tools: list[JSON]
    tool_choice: Literal["auto", "required", "none"] = "auto"
    max_tokens: int | None = None
    sampling: JSON = field(default_factory=dict)
    is_stream: bool = False
    has_usage: bool = False
    calls: tuple[ShownCall, ...] = ()
    results: JSON = field(default_factory=dict)

    @property
    def is_new_turn(self) -> bool:
        return bool(self.messages) and self.messages[-1]["role"] == "user"


def read_chat_request(body: Any) -> ChatRequest:
    """Reads the JSON of a request.

    Raises:
        InputError: it is invalid, or asks for something that is not supported.
    """
    if not isinstance(body, Mapping):
        raise InputError("the body is not a JSON object; expected one with 'model' and 'messages'")
    options = {name: value for name, value in body.items() if value is not None and name not in _IGNORED}
    _refuse_unsupported(options)
    calls: list[ShownCall] = []
    results: JSON = {}
    messages = [_message(at, message, calls, results) for at, message in enumerate(_list(options, "messages"))]
    if not messages:
        raise InputError("'messages' is empty; expected at least one message")
    tools, choice = _tools(options)
    stream_options = options.get("stream_options", {})
    return ChatRequest(
        _text(options, "model"),
        messages,
        tools,
        choice,
        _whole(options, "max_completion_tokens", _whole(options, "max_tokens")),
        _sampling(options),
        options.get("stream", False) is True,
        isinstance(stream_options, Mapping) and stream_options.get("include_usage") is True,
        tuple(calls),
        results,
    )


_KNOWN = frozenset(
    "model messages tools tool_choice max_tokens max_completion_tokens temperature top_p seed stream "
    "stream_options".split()
)


def _refuse_unsupported(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name in _NEUTRAL and value != _NEUTRAL[name]:
            raise InputError(f"{name!r} is {value!r}, which is not supported; expected it to be left out")
        if name not in _KNOWN and name not in _NEUTRAL:
            raise InputError(f"the option {name!r} is not supported; expected it to be left out")


# --- messages


def _message(at: int, message: Any, calls: list[ShownCall], results: JSON) -> JSON:
    where = f"messages[{at}]"
    if not isinstance(message, Mapping) or message.get("role") not in _ROLES:
        raise InputError(f"{where!r} is not a message; expected an object with a role of {', '.join(_ROLES)}")
    role, content = str(message["role"]), _content(where, message.get("content"))
    read: JSON = {"role": "system" if role == "developer" else role, "content": content}
    if role == "tool":
        call_id = message.get("tool_call_id")
        if not isinstance(call_id, str) or call_id in results:
            raise InputError(f"'{where}.tool_call_id' is {call_id!r}; expected the id of a call, with one result")
        results[call_id] = content
        read["tool_call_id"] = call_id
    elif role == "assistant" and message.get("tool_calls"):
        shown = [
            _shown_call(f"{where}.tool_calls[{n}]", tool_call)
            for n, tool_call in enumerate(_list(message, "tool_calls"))
        ]
        calls += shown
        read["tool_calls"] = [
            {
                "type": "function",
                "id": shown_call.id,
                "function": {"name": shown_call.tool, "arguments": shown_call.args},
            }
            for shown_call in shown
        ]
    return read


def _content(where: str, content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [None]
    texts = [part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise InputError(f"'{where}.content' has parts that are not text; expected a string or parts of type 'text'")
    return "".join(map(str, texts))


def _shown_call(where: str, call: Any) -> ShownCall:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(call.get("id"), str):
        raise InputError(f"{where!r} is not a call; expected an object with 'id' and 'function'")
    try:
        args = json.loads(_text(function, "arguments") or "{}")
    except ValueError:
        args = None
    if not isinstance(args, dict):
        raise InputError(f"'{where}.function.arguments' is not a JSON object; expected the answered arguments")
    return ShownCall(call["id"], _text(function, "name"), args)


# --- tools and options


def _tools(options: Mapping[str, Any]) -> tuple[list[JSON], Literal["auto", "required", "none"]]:
    tools: list[Any] = [*_list(options, "tools")] if "tools" in options else []
    choice = options.get("tool_choice", "auto")
    if isinstance(choice, Mapping):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, Mapping) else None
        named = [dict(tool) for tool in tools if isinstance(tool, Mapping) and _name(tool) == name]
        if len(named) != 1:
            raise InputError(f"'tool_choice' names {name!r}; expected the name of one of 'tools'")
        return named, "required"
    if choice not in ("auto", "required", "none"):
        raise InputError(f"'tool_choice' is {choice!r}; expected 'auto', 'required', 'none' or a function of 'tools'")
    if choice == "required" and not tools:
        raise InputError("'tool_choice' is 'required' without 'tools'; expected at least one tool")
    return tools, choice


def _name(tool: Mapping[str, Any]) -> Any:
    function = tool.get("function")
    return function.get("name") if isinstance(function, Mapping) else None


def _sampling(options: Mapping[str, Any]) -> JSON:
    temperature, top_p = _number(options, "temperature", 0, 2), _number(options, "top_p", 0, 1)
    json: JSON = {"seed": _whole(options, "seed", least=-(2**63)), "top_p": top_p or None}
    if temperature == 0:
        return {**json, "do_sample": False}
    return {**json, "temperature": temperature, "do_sample": None if temperature is None else True}


def _list(of: Mapping[str, Any], name: str) -> list[Any]:
    if not isinstance(value := of.get(name), list):
        raise InputError(f"{name!r} is {_kind(value)}; expected a list")
    return value


def _text(of: Mapping[str, Any], name: str) -> str:
    if not isinstance(value := of.get(name), str):
        raise InputError(f"{name!r} is {_kind(value)}; expected a string")
    return value


def _whole(of: Mapping[str, Any], name: str, default: int | None = None, least: int = 1) -> int | None:
    value = of.get(name, default)
    if value is not None and (type(value) is not int or not least <= value < 2**63):
        raise InputError(f"{name!r} is {str(value)[:40]!r}; expected an integer of at least {least}")
    return value


def _number(of: Mapping[str, Any], name: str, least: float, most: float) -> float | None:
    value = of.get(name)
    if value is not None and (type(value) not in (int, float) or not least <= value <= most):
        raise InputError(f"{name!r} is {str(value)[:40]!r}; expected a number from {least} to {most}")
    return value


def _kind(value: Any) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"
