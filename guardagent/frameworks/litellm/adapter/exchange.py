"""One request and its response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from guardagent.enforcement import ToolSpec
from guardagent.frameworks.litellm.adapter.formats.model_api import ModelApi, ShownHistory


@dataclass(slots=True, weakref_slot=True)
class GatewayExchange:
    """One request and its response.

    Attributes:
        api: reads both; None if they have no calls.
        conversation: its id; None if the request names none, and needs none.
        tools: the declared tools.
        history: the messages of the request.
        seen: the ids of calls whose results the messages show, if some are unknown.
    """

    api: ModelApi | None
    conversation: str | None = None
    tools: Mapping[str, ToolSpec] = field(default_factory=dict)
    history: ShownHistory | None = None
    seen: Sequence[str] | None = None
