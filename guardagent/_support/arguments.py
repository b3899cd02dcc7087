"""The arguments of a proposed call, as its tool will receive them."""

from __future__ import annotations

import inspect
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from guardagent.errors import InputError
from guardagent.types import ATOMS, MAPPINGS

_LISTS = frozenset({list, tuple})
_MAX_KNOWN, _MAX_NAMES = 4096, 500  # the names of so many objects are kept, if they have together so many characters
_KNOWN: set[tuple[str, ...]] = set()  # names of objects, all plain: reading them again takes time
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


def frozen_arguments(args: Any) -> Mapping[str, Any] | None:
    """Returns a frozen copy of JSON arguments with plain names, in one pass; None leaves others to `call_problem`."""
    try:
        return _frozen(args) if type(args) in MAPPINGS else None
    except (TypeError, RecursionError):
        return None


def _frozen(value: Any) -> Any:
    """Freezes an object or list. Raises a TypeError if it is neither, or has names that are not plain."""
    if type(value) in MAPPINGS:
        copy = dict(value)
        if tuple(copy) not in _KNOWN:
            _require_plain(copy)
        for name, item in copy.items():
            if type(name) is not str:
                raise TypeError
            if type(item) not in ATOMS:
                copy[name] = _frozen(item)
        return MappingProxyType(copy)
    if type(value) not in _LISTS:
        raise TypeError
    return tuple([item if type(item) in ATOMS else _frozen(item) for item in value])


def _require_plain(names: Mapping[Any, Any]) -> None:
    """Raises a TypeError unless the names of an object are plain ASCII and differ not only in case."""
    text = "".join(names)
    if not (text.isascii() and f"_{text}".isidentifier() and len(set(map(str.lower, names))) == len(names)):
        raise TypeError
    if len(text) <= _MAX_NAMES and len(_KNOWN) < _MAX_KNOWN:
        _KNOWN.add(tuple(names))


def ambiguous_names(value: Any, place: str = "") -> str | None:
    """Returns the first two names of one object that some reader treats as equal, with their path; or None.

    JSON readers differ: many match names case-insensitively, and then use the last one, or the first.
    """
    if type(value) is dict or isinstance(value, Mapping):
        if len({normalized_name(name) for name in value}) < len(value):
            return _ambiguous_pair(value, place)
        items: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    else:
        return None
    for name, item in items:
        if type(item) not in ATOMS and (doubled := ambiguous_names(item, _child_path(place, name))) is not None:
            return doubled
    return None


def normalized_name(name: Any) -> str:
    """Returns a name without differences in case, width and surrounding space."""
    text = name if type(name) is str else str(name)
    if text.isascii():
        return text.strip().lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).strip()


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
