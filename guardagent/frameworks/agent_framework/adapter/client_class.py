"""The class of a guarded chat client: a subclass of its own."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

from guardagent.frameworks.agent_framework.adapter.answers import answered, streamed
from guardagent.frameworks.agent_framework.adapter.run_setup import RunSetup

ATTACHMENT, AGENT = "guardagent_attachment", "guardagent_agent"


@cache
def guarded_class(base: Any) -> Any:
    """Returns the class of a chat client with a guard."""
    if issubclass(base, _GuardedClient):
        return base
    members = {"__module__": base.__module__, "DEFAULT_EXCLUDE": {*base.DEFAULT_EXCLUDE, ATTACHMENT, AGENT}}
    return type(base)(base.__name__, (_GuardedClient, base), members)


def guarded_copy(client: Any, **more: Any) -> Any:
    """Returns a copy of a chat client, which shares its connections and has a guard."""
    own: Any = type(client)
    kind = guarded_class(own)
    created = object.__new__(kind)
    vars(created).update(vars(copy.copy(client)))
    vars(created).update(more)
    return created


class _GuardedClient:
    """Every tool that a request may call is guarded, and its answer is judged."""

    def get_response(
        self,
        messages: Any,
        *,
        stream: bool = False,
        options: Mapping[str, Any] | None = None,
        middleware: Sequence[Any] | None = None,
        client_kwargs: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Any:
        attachment, config = vars(self)[ATTACHMENT], self.function_invocation_configuration  # type: ignore[attr-defined]
        messages = messages if isinstance(messages, list) else list(messages)
        setup = RunSetup(attachment, config, vars(self)[AGENT], messages, client_kwargs or {})
        prepared = setup.options(options, middleware)
        respond = partial(super().get_response, messages, stream=stream, **prepared, **more)  # type: ignore[misc]
        if stream:
            return streamed(setup.answers, respond, setup.note_rejections, (options or {}).get("response_format"))
        return answered(setup.answers, respond, setup.note_rejections)
