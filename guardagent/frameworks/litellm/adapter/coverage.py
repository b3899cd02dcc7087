"""The requests of the proxy whose tool calls are judged; all others that may lead to tool calls are refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from litellm.litellm_core_utils.litellm_logging import Logging

from guardagent.errors import InputError
from guardagent.frameworks.litellm.adapter.formats.chat import ChatApi
from guardagent.frameworks.litellm.adapter.formats.messages import MessagesApi
from guardagent.frameworks.litellm.adapter.formats.model_api import ModelApi
from guardagent.frameworks.litellm.adapter.formats.responses import ResponsesApi

_APIS: dict[str, ModelApi] = {one.call_type: one for one in (ChatApi(), ResponsesApi(), MessagesApi())}
_NO_CALLS = frozenset(
    "embedding aembedding moderation amoderation rerank arerank image_generation aimage_generation image_edit "
    "aimage_edit transcription atranscription speech aspeech ocr aocr search asearch atext_completion text_completion "
    "afile_list afile_retrieve afile_delete acreate_file vector_store_search avector_store_search".split()
)
"""Requests whose responses have no tool calls, unless they declare tools."""

_CALLS = ("tool_calls", "function_call", "functionCall", "toolUse")
_TOOLS = ("tools", "functions", "function_call", "tool_choice", "toolConfig", "tool_config", "mcp_servers")


def api_of(data: Mapping[str, Any], call_type: str, unguarded: Collection[str]) -> ModelApi | None:
    """Returns the API of a request; None if its response has no tool calls, or nobody judges them.

    Args:
        data: the request.
        call_type: the host's name of the kind of request.
        unguarded: the kinds of requests that the operator lets pass.

    Raises:
        InputError: its tool calls could not be judged.
    """
    api = _APIS.get(call_type)
    if api is not None and _judged_later(data):
        return api
    if call_type in unguarded or (call_type in _NO_CALLS and not declares_tools(data)):
        return None
    raise InputError(
        f"no guard sees the tool calls of a request of the kind {call_type!r}"
        f"{' in a socket, a batch or a nested request' if api is not None else ''}; expected chat completions, "
        f"responses or messages over HTTP, or 'unguarded: [{call_type}]' in the guardrail's options"
    )


def declares_tools(data: Mapping[str, Any]) -> bool:
    """Whether a request declares tools, in the words of any API."""
    return any(data.get(name) for name in _TOOLS)


def _judged_later(data: Mapping[str, Any]) -> bool:
    """Whether the host calls the guardrail again with the response: it does for requests over HTTP."""
    return isinstance(data.get("litellm_logging_obj"), Logging) and "proxy_server_request" in data


def carries_calls(response: Any) -> bool:
    """Whether a response of an unknown request may have tool calls."""
    dump = getattr(response, "model_dump", None)
    value = dump() if callable(dump) else response
    if isinstance(value, Mapping):
        named = any(value.get(name) for name in _CALLS) or str(value.get("type")).endswith(("tool_use", "_call"))
        return named or any(map(carries_calls, value.values()))
    return isinstance(value, list | tuple) and any(map(carries_calls, value))
