"""The class of a guarded chat client: a subclass of its own."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

from guardagent.frameworks.agent_framework.adapter.answers import ClientAnswers, answered, streamed

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
        attachment = vars(self)[ATTACHMENT]
        around, run = attachment.begin(self, messages, client_kwargs or {})
        judge = ClientAnswers(attachment.guard, around, run)
        prepared = attachment.prepared(self, around, judge, options, middleware, client_kwargs or {})
        respond = partial(super().get_response, messages, stream=stream, **prepared, **more)  # type: ignore[misc]
        start = partial(attachment.note_rejections, around, messages)
        if stream:
            return streamed(judge, respond, start, (options or {}).get("response_format"))
        return answered(judge, respond, start)
