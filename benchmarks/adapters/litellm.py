"""The cost of a guard per response with a tool call in LiteLLM's proxy, and per stream of one.

Measured are the proxy's hooks around the model: they admit the request that brings the result of the last call, and
judge the response with the next call. The unguarded ones pass an empty guardrail, since the host itself has costs for
each guardrail, such as counting the tokens of a stream.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # the price list is not fetched

_SCHEMA = {"type": "object", "properties": {"order_id": {"type": "string"}, "amount": {"type": "integer"}}}
_TOOL = {"type": "function", "function": {"name": "refund", "parameters": _SCHEMA}}
Taken = tuple[list[float], list[float]]


class _Exchange:
    """A request with the result of the last call, and the response with the next one."""

    def __init__(self, at: int) -> None:
        from litellm.litellm_core_utils.litellm_logging import Logging
        from litellm.types.utils import ModelResponse

        self.at, conversation = at, f"c{at % 10}"
        messages: list[dict[str, Any]] = [{"role": "user", "content": "please"}]
        if at >= 10:
            messages += [_spoken(at - 10), {"role": "tool", "tool_call_id": f"call_{at - 10}", "content": "refunded"}]
        about = {"model": "m", "messages": messages, "call_type": "acompletion", "start_time": None}
        logging = Logging(**about, stream=False, litellm_call_id=str(at), function_id="1")
        request = {"url": "http://proxy/v1/chat/completions", "headers": {"x-guardagent-conversation": conversation}}
        self.data: dict[str, Any] = {"model": "m", "messages": messages, "tools": [_TOOL], "metadata": {}}
        self.data |= {"litellm_logging_obj": logging, "proxy_server_request": request}
        choice = {"index": 0, "message": _spoken(at), "finish_reason": "tool_calls"}
        self.response = ModelResponse(id="answer", created=0, model="m", choices=[choice])

    async def chunks(self) -> AsyncIterator[Any]:
        from litellm.llms.base_llm.base_model_iterator import convert_model_response_to_streaming

        yield convert_model_response_to_streaming(self.response)


def _spoken(at: int) -> dict[str, Any]:
    function = {"name": "refund", "arguments": f'{{"order_id": "W{at}", "amount": 50}}'}
    call = {"id": f"call_{at}", "type": "function", "index": 0, "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


async def _whole(proxy: Any, auth: Any, exchange: _Exchange) -> Any:
    data = await proxy.pre_call_hook(user_api_key_dict=auth, data=exchange.data, call_type="acompletion")
    response = await proxy.post_call_success_hook(data=data, response=exchange.response, user_api_key_dict=auth)
    return response.choices[0].message.tool_calls


async def _stream(proxy: Any, auth: Any, exchange: _Exchange) -> Any:
    data = await proxy.pre_call_hook(user_api_key_dict=auth, data=exchange.data, call_type="acompletion")
    hook = proxy.async_post_call_streaming_iterator_hook
    chunks = hook(response=exchange.chunks(), user_api_key_dict=auth, request_data=data)
    return [call async for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]


def _empty_guardrail() -> Any:
    from litellm.integrations.custom_guardrail import CustomGuardrail

    class EmptyGuardrail(CustomGuardrail):
        async def async_pre_call_hook(self, data: Any, **_: Any) -> Any:
            return data

        async def async_post_call_success_hook(self, response: Any, **_: Any) -> Any:
            return response

        async def async_post_call_streaming_iterator_hook(self, response: Any, **_: Any) -> AsyncIterator[Any]:
            for chunk in [chunk async for chunk in response]:
                yield chunk

    return EmptyGuardrail(guardrail_name="empty", event_hook=["pre_call", "post_call"], default_on=True)


async def _measured(calls: int, step: Callable[[Any, Any, _Exchange], Awaitable[Any]]) -> Taken:
    """Seconds per response, alternating unguarded and guarded."""
    import litellm
    from litellm.proxy._types import UserAPIKeyAuth
    from litellm.proxy.proxy_server import proxy_logging_obj

    from benchmarks.limit_guard import limit_guard
    from guardagent.frameworks.litellm import Guardrail

    guard = limit_guard()
    empty = _empty_guardrail()
    guardrail, auth = Guardrail("guard", ["pre_call", "post_call"], guard=guard), UserAPIKeyAuth(api_key="sk-1")
    taken: Taken = ([], [])
    for at in range(calls + 20):
        for callbacks, seconds in zip(([empty], [guardrail]), taken, strict=True):
            litellm.callbacks, exchange = callbacks, _Exchange(at)
            started = time.perf_counter()
            made = await step(proxy_logging_obj, auth, exchange)
            seconds.append(time.perf_counter() - started)
            if [call.id for call in made] != [f"call_{at}"]:
                raise SystemExit(f"a call that is in order was not made: {made}")
    return taken[0][20:], taken[1][20:]  # the first ones load and compile


def measure_whole(calls: int) -> Taken:
    return asyncio.run(_measured(calls, _whole))


def measure_stream(calls: int) -> Taken:
    return asyncio.run(_measured(calls, _stream))


MEASURES = {"LiteLLM proxy, a response": measure_whole, "LiteLLM proxy, a stream": measure_stream}
