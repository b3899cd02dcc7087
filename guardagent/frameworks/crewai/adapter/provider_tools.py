"""Tools that run at the model's provider, where no guard sees them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from guardagent.errors import InputError

_PARAMETERS = ("mcp_servers", "web_search_options", "plugins")


def refuse_provider_tools(llm: Any, unguarded: Collection[str]) -> None:
    """Refuses a model with tools of its provider.

    Args:
        llm: the model.
        unguarded: the tools that the operator names.

    Raises:
        InputError: it has another one.
    """
    for name in _names(llm):
        if name not in unguarded:
            raise InputError(
                f"{name!r} runs at the model's provider, where no guard sees it; remove it, or name it in unguarded=..."
            )


def _names(llm: Any) -> Iterator[str]:
    """Yields the types of a model's own tools, and the request parameters that add some."""
    yield from (str(one) for one in getattr(llm, "builtin_tools", None) or ())
    params = getattr(llm, "additional_params", None)
    params = params if isinstance(params, Mapping) else {}
    body = params.get("extra_body")
    for one in (params, body if isinstance(body, Mapping) else {}):
        yield from (name for name in _PARAMETERS if one.get(name))
        for tool in one.get("tools") or ():
            yield str(tool.get("type") or tool.get("name")) if isinstance(tool, Mapping) else str(tool)
