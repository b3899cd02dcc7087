"""LiteLLM's proxy: a guardrail in its `config.yaml`, `guardrail: guardagent.frameworks.litellm.Guardrail`.

    Guardrail    judges the tool calls and the answers in responses
    principal    the principal of the caller's key, for `ToolGuard(principal=...)`

Extra: `guardagent[litellm]`; the proxy itself needs `litellm[proxy]`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from guardagent._support.requirements import require, require_parts
from guardagent.frameworks.litellm.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA, TRIED)

from litellm.exceptions import GuardrailRaisedException
from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.litellm_core_utils.litellm_logging import Logging
from litellm.proxy.common_utils.callback_utils import add_guardrail_to_applied_guardrails_header
from litellm.proxy.proxy_server import HTTPException

from guardagent.errors import GuardError, InputError
from guardagent.frameworks.litellm.adapter import judge
from guardagent.frameworks.litellm.adapter.conversations import ask_again, calling, principal, records_of
from guardagent.frameworks.litellm.adapter.formats import ModelApi, ModelMessage

__all__ = ["Guardrail", "principal"]

_HOOKS = ("async_pre_call_hook", "async_post_call_success_hook", "async_post_call_streaming_iterator_hook")
_PARTS = (*_HOOKS, "should_run_guardrail", "async_pre_call_deployment_hook", "async_post_call_success_deployment_hook")
_JUDGED = frozenset({"pre_call", "post_call", "pre_mcp_call"})
_MOST_REPLANS = 5  # requests to a model, for one of a client
_UNDECLARED = "guardagent: the model called a tool, but the request declares none"
_log = logging.getLogger("guardagent")
_admitted: ContextVar[bool] = ContextVar("guardagent_litellm_admitted", default=False)


class Guardrail(CustomGuardrail):
    """Judges the tool calls and the answers in responses of the proxy.

    It runs for every request: no default, key, team, tag or client switches it off.

    Args:
        guardrail_name: its name in `config.yaml`.
        event_hook: the `mode` of `config.yaml`: `[pre_call, post_call]`.
        default_on: has no effect.
        options: see `GuardrailOptions`; and `policies`, `server` or `guard`, with the options of each.

    Raises:
        InputError: an option is invalid, so the proxy does not start.
    """

    def __init__(
        self,
        guardrail_name: str | None = None,
        event_hook: Any = None,
        default_on: bool | None = None,  # noqa: ARG002, FBT001 - the host's arguments
        **options: Any,
    ) -> None:
        if type(self) is not Guardrail:
            raise InputError("the host overlooks hooks that a class inherits; expected 'Guardrail' itself")
        require_parts(CustomGuardrail, *_PARTS)
        mode = judge.check_mode(event_hook)
        self._options, self._guard = judge.read_options(options)
        # Without a name, no policy pipeline and no load balancing of the host takes the place of its hooks.
        super().__init__(guardrail_name=None, event_hook=mode, default_on=True)
        self.label = guardrail_name or "guardagent"
        self._records = records_of(self._guard)
        self._admission, self._judge = judge.Admission(self._records, self._options), judge.ResponseJudge(self._records)
        self._exchanges: WeakKeyDictionary[Any, judge.GatewayExchange] = WeakKeyDictionary()

    # --- whether it runs

    def should_run_guardrail(self, data: Any, event_type: Any) -> bool:  # noqa: ARG002 - the host's arguments
        """Whether the host calls its hooks: always."""
        return getattr(event_type, "value", event_type) in _JUDGED

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any]:
        """Refuses a request with tools that reaches a model without `async_pre_call_hook`, as on a route without hooks.

        Raises:
            HTTPException: the request was not admitted.
        """
        if (
            not _admitted.get()
            and judge.declares_tools(kwargs)
            and getattr(call_type, "value", "") not in self._options.unguarded
        ):
            refuse(InputError("the host has not shown this request to the guardrail; expected another route"))
        return kwargs  # retries and fallbacks are parts of one request

    async def async_post_call_success_deployment_hook(self, request_data: Any, response: Any, call_type: Any) -> None:
        """Does nothing: the response that reaches the client is judged, and no other."""

    # --- hooks

    async def async_pre_call_hook(
        self,
        user_api_key_dict: Any,
        cache: Any,  # noqa: ARG002 - as above
        data: dict[str, Any],
        call_type: str,
    ) -> dict[str, Any]:
        """Admits a request.

        Raises:
            HTTPException: it is refused.
        """
        try:
            with calling(user_api_key_dict, self._options.roles_from):
                exchange = await self._admission.admit(data, user_api_key_dict, call_type)
            _admitted.set(True)
            if isinstance(data.get("litellm_logging_obj"), Logging):
                self._exchanges[data["litellm_logging_obj"]] = exchange
        except Exception as error:  # noqa: BLE001 - every error refuses
            refuse(error)
        if exchange.api is not None:
            add_guardrail_to_applied_guardrails_header(request_data=data, guardrail_name=self.label)
        return data

    async def async_post_call_success_hook(self, data: dict[str, Any], user_api_key_dict: Any, response: Any) -> Any:
        """Judges a response. Returns the one that the client gets.

        Raises:
            HTTPException: it cannot be judged.
        """
        try:
            exchange = self._exchange_of(data, response)
            if exchange.api is None:
                return response
            with calling(user_api_key_dict, self._options.roles_from):
                response, judged = await self._judged(exchange, data, user_api_key_dict, response)
            return await self._delivered(exchange.api, response, judged) if judged.changed else response
        except Exception as error:  # noqa: BLE001 - as above
            refuse(error)

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """Holds a stream until it is judged. Yields the one that the client gets."""
        exchange = self._exchange_or_refusal(request_data)
        api = exchange.api
        if api is None:
            async for chunk in response:
                yield chunk
            return
        if not exchange.tools and not self._guard.judges_answers:
            async for frame in api.frames(response):
                if api.has_call(frame):  # an error that the host can write into a stream that has begun
                    raise GuardrailRaisedException(self.label, _UNDECLARED)
                yield frame
            return
        frames = [frame async for frame in api.frames(response)]
        for frame in await self._judged_stream(exchange, request_data, user_api_key_dict, frames):
            yield frame

    # --- judging

    async def _judged_stream(
        self, exchange: judge.GatewayExchange, data: dict[str, Any], auth: Any, frames: list[Any]
    ) -> Any:
        api = exchange.api
        assert api is not None
        try:
            with calling(auth, self._options.roles_from):
                assembled = api.assembled(frames)
                response, judged = await self._judged(exchange, data, auth, assembled)
            if response is not assembled:
                delivered = await self._delivered(api, response, judged) if judged.changed else response
                return list(api.streamed(delivered))
            if api.says_all_twice and self._guard.judges_answers and not judged.message.calls and not judged.changed:
                return list(api.streamed(assembled))
            if not judged.changed and (api.joins_alike(frames, assembled) or not any(map(api.has_call, frames))):
                return frames
            return await self._delivered(api, response, judged, frames)
        except Exception as error:  # noqa: BLE001 - as above
            refuse(error)

    async def _judged(
        self, exchange: judge.GatewayExchange, data: Mapping[str, Any], auth: Any, response: Any
    ) -> tuple[Any, judge.JudgedMessage]:
        """Judges a response, and those that the model gives in its place."""
        api = exchange.api
        assert api is not None
        judged = await self._judge.judge(exchange, self._read(exchange, response))
        for _ in range(_MOST_REPLANS if self._options.replan else 0):
            if not judged.may_replan:
                break
            data = api.with_feedback(data, judged.message, judged.denials)
            again = await ask_again(data, auth, api.call_type)
            if again is None:
                break
            response = again
            judged = await self._judge.judge(exchange, self._read(exchange, again))
        return response, judged

    def _read(self, exchange: judge.GatewayExchange, response: Any) -> ModelMessage:
        """Reads a response, and notes what the model has used for it."""
        assert exchange.api is not None
        message = exchange.api.read(response, self._options.unguarded_tools)
        if exchange.conversation:
            stated = (getattr(response, "_hidden_params", None) or {}).get("response_cost")
            self._guard.spent(exchange.conversation, tokens=message.tokens, cost=stated or None)  # 0 if it is unknown
        return message

    async def _delivered(
        self, api: ModelApi, response: Any, judged: judge.JudgedMessage, stream: list[Any] | None = None
    ) -> Any:
        """Returns a response, or its stream, as the client gets it. Its calls are withdrawn if it cannot be written."""
        try:
            if stream:
                return api.restreamed(stream, response, judged.message, judged.rewriting())
            return api.rewritten(response, judged.message, judged.rewriting())
        except Exception:
            await self._judge.withdraw(judged)
            raise

    def _exchange_of(self, data: Mapping[str, Any], response: Any = None) -> judge.GatewayExchange:
        """Returns the exchange that a request began.

        Raises:
            InputError: `async_pre_call_hook` has not admitted the request, and its response may have calls.
        """
        logging_object = data.get("litellm_logging_obj")
        exchange = self._exchanges.get(logging_object) if isinstance(logging_object, Logging) else None
        if exchange is None and (response is None or judge.carries_calls(response)):
            raise InputError("the response belongs to no request that this guardrail has admitted")
        return exchange or judge.GatewayExchange(None)

    def _exchange_or_refusal(self, data: Mapping[str, Any]) -> judge.GatewayExchange:
        try:
            return self._exchange_of(data)
        except Exception as error:  # noqa: BLE001 - as above
            refuse(error)


def refuse(error: Exception) -> NoReturn:
    """Ends a request with an error that the client can read.

    Raises:
        HTTPException: always.
    """
    if isinstance(error, HTTPException):
        raise error
    if isinstance(error, GuardError):
        raise HTTPException(status_code=400, detail=f"guardagent: {error}") from None
    _log.error("a request is refused since its check failed", exc_info=error)
    raise HTTPException(status_code=400, detail=f"guardagent: the check failed: {type(error).__name__}") from None
