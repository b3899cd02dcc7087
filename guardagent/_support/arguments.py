"""The arguments of a proposed call, as its tool will receive them."""

from __future__ import annotations

import inspect
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from guardagent.errors import InputError

_SCALARS = frozenset({str, int, float, bool, type(None)})
_VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def label_problem(action: Any, decision: Any, tags: Any) -> str | None:
    """Returns the problem with the action, decision and tags of a call; None if they are valid."""
    for name, value in (("action", action), ("decision", decision)):
        if value is not None and not isinstance(value, str):
            return f"{name!r} is {value!r}; expected a string"
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        return f"'tags' is {tags!r}; expected a set of strings"
    invalid = [tag for tag in tags if not isinstance(tag, str)]
    return f"a tag is {invalid[0]!r}; expected a string" if invalid else None


def call_problem(tool: Any, args: Any, facts: Any) -> str | None:
    """Returns the problem with the form of a call; None if it is valid."""
    if type(tool) is not str or not tool:
        return f"the tool is {tool!r}; expected a tool name"
    if type(args) is not dict and not isinstance(args, Mapping):
        return f"the arguments of {tool!r} are a {type(args).__name__}; expected a mapping of names to values"
    for name in args:
        if type(name) is not str:
            return f"an argument name of {tool!r} is {name!r}; expected a string"
    if facts is not None and not isinstance(facts, Mapping):
        return f"'facts' is a {type(facts).__name__}; expected a mapping of names to values"
    try:
        ambiguous = ambiguous_names(args)
    except RecursionError:
        return f"the arguments of {tool!r} are nested too deep"
    return f"the arguments of {tool!r} have {ambiguous}; expected only one of them" if ambiguous is not None else None


def ambiguous_names(value: Any, place: str = "") -> str | None:
    """Returns the first two names of one object that some reader treats as equal, with their path; or None.

    JSON readers differ: many match names case-insensitively, and then use the last one, or the first.
    """
    if type(value) is dict or isinstance(value, Mapping):
        if len(value) > 1 and not _are_distinct(value):
            return _ambiguous_pair(value, place)
        items: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    else:
        return None
    for name, item in items:
        if type(item) not in _SCALARS and (doubled := ambiguous_names(item, _child_path(place, name))) is not None:
            return doubled
    return None


def normalized_name(name: Any) -> str:
    """Returns a name without differences in case, width and surrounding space."""
    text = name if type(name) is str else str(name)
    if text.isascii():
        return text.strip().lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).strip()


def _are_distinct(names: Mapping[Any, Any]) -> bool:
    try:
        text = "".join(names)
    except TypeError:  # a name is not a string
        text = ""
    if text.isidentifier() and text.islower() and text.isascii():  # most are; folding takes time
        return True
    return len({normalized_name(name) for name in names}) == len(names)


def _ambiguous_pair(names: Iterable[Any], place: str) -> str:
    seen: dict[str, Any] = {}
    for name in names:
        if normalized_name(name) in seen:
            return f"both {seen[normalized_name(name)]!r:.80} and {name!r:.80}{f' in {place!r}' if place else ''}"
        seen[normalized_name(name)] = name
    raise AssertionError("there is a pair")


def _child_path(place: str, name: Any) -> str:
    return f"{place}[{name}]" if type(name) is int else f"{place}.{str(name)[:80]}".lstrip(".")


def bind_arguments(fn: Callable[..., Any], tool: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the arguments as a function will receive them, with its defaults.

    Raises:
        InputError: they do not fit the function.
    """
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # a built-in function
        return args
    return bind_to_signature(signature, tool, args)


def bind_to_signature(signature: inspect.Signature, tool: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Binds the arguments of a call to a known signature, as `bind_arguments` does."""
    parameters = signature.parameters
    if args.keys() == parameters.keys() and all(parameter.kind in _BY_NAME for parameter in parameters.values()):
        return {name: args[name] for name in parameters}  # most are complete; `bind` takes time
    try:
        arguments = signature.bind(**args)
    except TypeError as error:
        raise InputError(f"the arguments of {tool!r} do not fit: {error}") from None
    arguments.apply_defaults()
    kinds = {name: parameter.kind for name, parameter in parameters.items()}
    named = {name: value for name, value in arguments.arguments.items() if kinds[name] not in _VARIADIC}
    variadic = next((name for name, kind in kinds.items() if kind is inspect.Parameter.VAR_KEYWORD), "")
    return {**named, **arguments.arguments.get(variadic, {})}
