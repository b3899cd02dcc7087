"""The signature of a tool's function, and the arguments bound to it."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Collection, Mapping
from typing import Any

from guardagent.enforcement.plain_values import opaque_type
from guardagent.errors import InputError

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
        with contextlib.suppress(Exception):  # an annotation may name what is not there at run time
            signature = inspect.signature(function, eval_str=True)
    except (TypeError, ValueError):
        raise InputError(f"{tool!r} has no readable signature; wrap it in a function that has one") from None
    own = [one for one in signature.parameters.values() if one.name not in omit]
    for one in own:
        if one.kind not in kinds:
            raise InputError(f"{tool!r} takes {str(one)!r} by position only; expected named parameters")
    return signature.replace(parameters=own)


def annotations_of(signature: inspect.Signature) -> dict[str, Any]:
    """Returns the annotations of the parameters."""
    return {one.name: one.annotation for one in signature.parameters.values()}


def defaults_of(signature: inspect.Signature) -> dict[str, Any]:
    """Returns the defaults of the parameters that have one."""
    return {one.name: one.default for one in signature.parameters.values() if one.default is not one.empty}


def takes_any_name(signature: inspect.Signature) -> bool:
    """Whether a function takes arguments of any name."""
    return any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())


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
        if name not in hidden and (found := opaque_type(annotation)) is not None:
            raise InputError(
                f"{name!r} of the tool {tool!r} is a {found}, which has no lossless form for rules; expected a plain "
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
