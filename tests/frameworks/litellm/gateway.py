"""The real proxy in this process, with a scripted model behind it, and guardrails that stand for its processes."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # the price list is not fetched

import httpx
import litellm
from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.proxy import proxy_server

from guardagent.frameworks.litellm import Guardrail
from tests.frameworks.litellm.upstream import Upstream, upstream

MODE = ["pre_call", "post_call"]
KEY = "sk-master"
_stack = contextlib.ExitStack()
atexit.register(_stack.close)
_current: ContextVar[CustomGuardrail] = ContextVar("guardagent_test_guardrail")

CONFIG = """
model_list:
  - model_name: chat
    litellm_params: {{model: openai/x, api_base: "{url}/v1", api_key: none}}
  - model_name: messages
    litellm_params: {{model: anthropic/x, api_base: "{url}", api_key: none}}
  - model_name: responses
    litellm_params: {{model: openai/x, api_base: "{url}/v1", api_key: none}}
  - model_name: translated
    litellm_params: {{model: deepseek/x, api_base: "{url}/v1", api_key: none}}
general_settings: {{master_key: {key}}}
litellm_settings: {{num_retries: 0, telemetry: false}}
router_settings: {{num_retries: 0, disable_cooldowns: true}}
"""


class CurrentGuardrail(CustomGuardrail):
    """Passes each hook on to the guardrail of the process that the test is in."""

    def should_run_guardrail(self, data: Any, event_type: Any) -> bool:
        guardrail = _current.get(None)
        return guardrail is not None and guardrail.should_run_guardrail(data, event_type)

    async def async_pre_call_deployment_hook(self, kwargs: Any, call_type: Any) -> Any:
        return await _current.get().async_pre_call_deployment_hook(kwargs, call_type)

    async def async_post_call_success_deployment_hook(self, *args: Any, **kwargs: Any) -> Any:
        return await _current.get().async_post_call_success_deployment_hook(*args, **kwargs)

    async def async_pre_call_hook(self, *args: Any, **kwargs: Any) -> Any:
        return await _current.get().async_pre_call_hook(*args, **kwargs)

    async def async_post_call_success_hook(self, *args: Any, **kwargs: Any) -> Any:
        return await _current.get().async_post_call_success_hook(*args, **kwargs)

    async def async_post_call_streaming_iterator_hook(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async for chunk in _current.get().async_post_call_streaming_iterator_hook(*args, **kwargs):
            yield chunk


@cache
def model() -> Upstream:
    """Returns the scripted model, behind the proxy of this process."""
    enter_context = _stack.enter_context(upstream())
    path = Path(_stack.enter_context(tempfile.TemporaryDirectory())) / "config.yaml"
    path.write_text(CONFIG.format(url=enter_context.url, key=KEY))
    asyncio.run(proxy_server.initialize(config=str(path)))
    litellm.logging_callback_manager.add_litellm_callback(CurrentGuardrail(guardrail_name=None, event_hook=MODE))
    return enter_context


def guardrail(guard: Any, **options: Any) -> Guardrail:
    """Returns a guardrail as a process of the proxy has it."""
    return Guardrail("guard", MODE, guard=guard, **options)


@contextlib.contextmanager
def inside(process: CustomGuardrail) -> Iterator[None]:
    """Requests inside reach this process of the proxy."""
    token = _current.set(process)
    try:
        yield
    finally:
        _current.reset(token)


async def post(
    path: str, body: Any, *, conversation: str | None = "c1", key: str = KEY, headers: dict[str, str] | None = None
) -> httpx.Response:
    """Sends a request to the proxy."""
    named = {"x-guardagent-conversation": conversation} if conversation else {}
    about = {"authorization": f"Bearer {key}", **named, **(headers or {})}
    transport = httpx.ASGITransport(app=proxy_server.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://proxy", timeout=60) as client:
        return await client.post(path, json=body, headers=about)
