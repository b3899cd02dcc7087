"""Asks the model again, in the proxy, with the reasons of the denials."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Any

from litellm.proxy import proxy_server
from litellm.proxy.route_llm_request import route_request

_log = logging.getLogger("guardagent")

_OF_THE_FIRST = frozenset(
    {"litellm_logging_obj", "litellm_call_id", "stream", "stream_options", "deployment", "guardrail_to_apply"}
)
_METADATA = ("metadata", "litellm_metadata")


async def ask_again(data: Mapping[str, Any], auth: Any, call_type: str) -> Any:
    """Returns another response to a request, from the same model group; None if there is none."""
    request = {name: value for name, value in data.items() if name not in _OF_THE_FIRST}
    request |= {name: dict(request[name]) for name in _METADATA if isinstance(request.get(name), dict)}
    request |= {"litellm_call_id": str(uuid.uuid4()), "stream": False}
    if not isinstance(request.get("tool_choice", "auto"), str) or request.get("tool_choice") == "required":
        request["tool_choice"] = {"type": "auto"} if call_type == "anthropic_messages" else "auto"
    try:
        answering = await route_request(
            data=request,
            llm_router=proxy_server.llm_router,
            user_model=proxy_server.user_model,
            route_type=call_type,  # type: ignore[arg-type, unused-ignore]  # the host's own name of it
            user_api_key_dict=auth,
        )
        return await answering
    except Exception:  # noqa: BLE001 - whatever the host raises, the denial stands
        _log.exception("the model could not be asked again, so the client gets the reasons of the denials")
        return None
