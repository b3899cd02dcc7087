"""The arguments of a proposed call, as its tool will get them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from guardagent.errors import InputError

_VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def mislabelled(action: Any, decision: Any, tags: Any) -> str | None:
    """What is wrong with what else a call is said to be; None where nothing is."""
    for name, value in (("action", action), ("decision", decision)):
        if value is not None and not isinstance(value, str):
            return f"{name} is {value!r}; expected a text"
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        return f"tags is {tags!r}; expected a set of texts"
    odd = [tag for tag in tags if not isinstance(tag, str)]
    return f"a tag is {odd[0]!r}; expected a text" if odd else None


def malformed(tool: Any, args: Any, facts: Any) -> str | None:
    """What is wrong with the form of a call; None where nothing is."""
    if type(tool) is not str or not tool:
        return f"the tool is {tool!r}; expected the name of one"
    if type(args) is not dict and not isinstance(args, Mapping):
        return f"the arguments of {tool} are a {type(args).__name__}; expected a mapping of names to values"
    for name in args:
        if type(name) is not str:
            return f"an argument of {tool} is named {name!r}; expected a text"
    if facts is not None and not isinstance(facts, Mapping):
        return f"facts is a {type(facts).__name__}; expected a mapping of names to values"
    return None


def bound(fn: Callable[..., Any], tool: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments as a function will get them, with its defaults.

    Raises:
        InputError: they do not fit the function.
    """
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # a built-in function
        return args
    try:
        found = signature.bind(**args)
    except TypeError as error:
        raise InputError(f"the arguments of {tool}: {error}") from None
    found.apply_defaults()
    kinds = {name: one.kind for name, one in signature.parameters.items()}
    named = {name: value for name, value in found.arguments.items() if kinds[name] not in _VARIADIC}
    others = next((name for name, kind in kinds.items() if kind is inspect.Parameter.VAR_KEYWORD), "")
    return {**named, **found.arguments.get(others, {})}
