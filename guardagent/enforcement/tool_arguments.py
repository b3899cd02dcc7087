"""The arguments of a tool, bound to its function and copied, and its output once its work is done.

Copies ensure that nobody changes between judgement and call what the tool gets.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from guardagent.enforcement.calls import opaque_type, plain_value
from guardagent.enforcement.names import ToolSpec
from guardagent.enforcement.schema import validate_arguments
from guardagent.errors import InputError
from guardagent.types import EMPTY, thaw

# --- arguments, bound to a function

NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
BY_NAME = (*NAMED, inspect.Parameter.VAR_KEYWORD)


def read_signature(
    function: Any, tool: str, *, omit: Collection[str] = (), kinds: Collection[Any] = BY_NAME
) -> inspect.Signature:
    """Returns the signature of a tool's function, with its annotations resolved if they can be.

    Args:
        function: the function.
        tool: the name of the tool.
        omit: names of parameters to leave out, such as `self`.
        kinds: the kinds of parameters that the host can fill in.

    Raises:
        InputError: there is no signature, or it has a parameter of another kind.
    """
    try:
        signature = inspect.signature(function)
        with suppress(Exception):  # an annotation may refer to a name that does not exist at run time
            signature = inspect.signature(function, eval_str=True)
    except (TypeError, ValueError):
        raise InputError(f"{tool!r} has no readable signature; wrap it in a function that has one") from None
    parameters = [parameter for parameter in signature.parameters.values() if parameter.name not in omit]
    for parameter in parameters:
        if parameter.kind not in kinds:
            raise InputError(f"{tool!r} takes {str(parameter)!r} by position only; expected named parameters")
    return signature.replace(parameters=parameters)


def annotations_of(signature: inspect.Signature) -> dict[str, Any]:
    """Returns the annotations of the parameters."""
    return {parameter.name: parameter.annotation for parameter in signature.parameters.values()}


def defaults_of(signature: inspect.Signature) -> dict[str, Any]:
    """Returns the defaults of the parameters that have one."""
    parameters = signature.parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty}


def takes_any_name(signature: inspect.Signature) -> bool:
    """Whether a function takes arguments of any name."""
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())


def refuse_opaque(
    tool: str, annotations: Mapping[str, Any], hidden: Collection[str] = (), *, may_hide: bool = False
) -> None:
    """Refuses a tool with an argument whose values no rule can read.

    Args:
        tool: its name.
        annotations: of its arguments.
        hidden: the arguments that are not judged.
        may_hide: whether the adapter has the option `unjudged`.

    Raises:
        InputError: there is one.
    """
    advice = ", or name it in unjudged=..." if may_hide else ""
    for name, annotation in annotations.items():
        if name not in hidden and (kind := opaque_type(annotation)) is not None:
            raise InputError(
                f"{name!r} of the tool {tool!r} is a {kind}, which has no lossless form for rules; expected a plain "
                f"type{advice}"
            )


def bound_by_name(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any], tool: str
) -> dict[str, Any]:
    """Returns the arguments that a function would get, by their names, with defaults.

    Raises:
        InputError: they do not fit, or a value has no name.
    """
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InputError(f"the arguments of {tool!r} do not fit: {error}") from None
    bound.apply_defaults()
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL and value:
            raise InputError(f"{tool!r} takes its arguments by name")
        if kind is not inspect.Parameter.VAR_POSITIONAL:
            named |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
    return named


def named_by_schema(
    schema: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], tool: str
) -> dict[str, Any]:
    """Returns arguments by the names of a JSON schema, in the order of its properties.

    Raises:
        InputError: there are too many, or one is there twice.
    """
    names = tuple(schema.get("properties", ()))
    if len(args) > len(names) or set(names[: len(args)]) & kwargs.keys():
        raise InputError(f"the arguments of {tool!r} do not fit; expected {', '.join(names)}")
    return {**dict(zip(names, args, strict=False)), **kwargs}


@dataclass(frozen=True, slots=True)
class ToolArguments:
    """Reads the arguments of a tool.

    Attributes:
        spec: the tool's declaration, under the name that the model knows.
        signature: of its function; None if it takes whatever its schema declares.
        unjudged: arguments that are passed on unchanged, and neither judged nor logged.
        schema: the JSON schema, if there is no signature.
    """

    spec: ToolSpec
    signature: inspect.Signature | None
    unjudged: frozenset[str] = frozenset()
    schema: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns copies of the arguments that the tool will get, with defaults, and the unjudged ones.

        Raises:
            InputError: they do not fit the tool, or one cannot be judged.
        """
        tool = self.spec.name
        if self.signature is None:
            named = named_by_schema(self.schema, args, kwargs, tool)
        else:
            named = bound_by_name(self.signature, args, kwargs, tool)
        apart = {name: named.pop(name) for name in self.unjudged & named.keys()}
        if self.signature is None:
            named = validate_arguments(tool, named, self.schema)
        return copied_values(named), apart


# --- copies of arguments

JSON_SCALARS = frozenset({str, int, float, bool, type(None)})


def value_copy(value: Any, place: str) -> Any:
    """Returns a deep copy of JSON values; others are checked for a form that rules can read.

    Raises:
        InputError: there is no copy, or no such form; the message names the place.
    """
    if type(value) in JSON_SCALARS:
        return value
    if type(value) is dict:
        return {name: value_copy(item, f"{place}.{name}") for name, item in value.items()}
    if type(value) is list:
        return [value_copy(item, f"{place}[]") for item in value]
    try:
        plain_value(value, place)
        return copy.deepcopy(value)
    except Exception as error:  # noqa: BLE001 - whatever a copy raises
        raise InputError(f"{place} cannot be judged and copied: {error}") from None


def copied_values(args: Mapping[str, Any]) -> dict[str, Any]:
    """Returns copies of arguments by their names; see `value_copy`."""
    return {name: value_copy(value, name) for name, value in args.items()}


def same_arguments(args: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Whether arguments are equal as rules read them, with the types of their values."""
    return repr(_ordered(thaw(args))) == repr(_ordered(thaw(others)))


def as_judged(args: Mapping[str, Any], own: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments that run: the judged copies, or a reviewer's edits where they differ.

    Args:
        args: the arguments that may run, as rules read them.
        own: the judged copies.
        plain: the judged copies, as rules read them.
    """
    shown = thaw(plain)
    return {
        name: own[name] if name in own and repr(shown[name]) == repr(value) else value for name, value in args.items()
    }


def _ordered(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _ordered(value[name]) for name in sorted(value)}
    return [_ordered(item) for item in value] if isinstance(value, list | tuple) else value


# --- unfinished work


def finished(name: str, output: Any) -> Any:
    """Returns a tool's output if its work is done.

    Raises:
        InputError: the work has not begun, as that of a generator.
        TimeoutError: the work is still running, and may or may not finish.
    """
    if not (inspect.isawaitable(output) or isinstance(output, Future | Iterator | AsyncIterator)):
        return output
    if close := getattr(output, "close", None):
        close()
    raise (TimeoutError if isinstance(output, Future | asyncio.Future) else InputError)(
        f"{name} returned a {type(output).__name__}, whose work is not done yet; expected what it has found"
    )
