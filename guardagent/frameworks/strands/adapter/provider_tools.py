"""Tools that run at the model's provider, where no guard sees them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from guardagent.errors import InputError

_LISTS = frozenset({"tools", "mcp_servers"})
_OPTIONS = frozenset({"web_search_options"})  # even empty ones turn the search on
_DEEPEST = 4


def refuse_provider_tools(model: Any, unguarded: Collection[str]) -> None:
    """Refuses a model whose configuration has tools of its provider, unless the operator names them.

    Raises:
        InputError: it has some.
    """
    get_config = getattr(model, "get_config", None)
    config = get_config() if callable(get_config) else None
    for name in _provider_tools(config, 0):
        if name not in unguarded:
            raise InputError(
                f"the tool {name!r} of {type(model).__name__} runs at the provider, where no guard sees it; take it "
                f"away, or say unguarded={{{name!r}}} if it may run without one"
            )


def _provider_tools(config: Any, depth: int) -> Iterator[str]:
    if not isinstance(config, Mapping) or depth > _DEEPEST:
        return
    for key, value in config.items():
        listed = isinstance(value, list | tuple) and (key in _LISTS or str(key).endswith("_tools"))
        if listed or (key in _OPTIONS and value is not None):
            yield from (_name(one, key) for one in (value if listed else [key]))
        else:
            yield from _provider_tools(value, depth + 1)


def _name(tool: Any, key: str) -> str:
    if isinstance(tool, str):
        return tool
    found = tool if isinstance(tool, Mapping) else {}
    return str(found.get("name") or found.get("type") or key)
