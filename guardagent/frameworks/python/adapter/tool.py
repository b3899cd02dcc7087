"""A Python function as a tool: its name, and its judged and unjudged arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from inspect import Parameter
from types import MappingProxyType
from typing import Any

from guardagent.enforcement import ToolSpec
from guardagent.errors import InputError
from guardagent.frameworks.python.adapter.values import plain_value
from guardagent.types import EMPTY, FrozenMapping

Fn = Callable[..., Any]
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class PythonTool:
    """A function that an agent may call.

    Attributes:
        name: its name for the host and the model.
        fn: the function.
        signature: its signature.
        unjudged: the arguments that the program supplies and no rule sees, such as a method's instance.
        is_async: whether it is a coroutine function.
    """

    name: str
    fn: Fn
    signature: inspect.Signature
    unjudged: frozenset[str]
    is_async: bool

    @classmethod
    def of(cls, fn: Fn, name: str | None = None, unjudged: Collection[str] = ()) -> PythonTool:
        """Makes a tool of a function, method or other callable.

        Raises:
            InputError: the callable cannot be judged; the message has the reason.
        """
        name = _name_of(fn, name)
        kind = fn if inspect.isroutine(fn) else getattr(fn, "func", type(fn).__call__)
        _refuse_what_runs_later(kind, name)
        _refuse_decorated(fn, name)
        signature = _signature(fn, name)
        hidden = frozenset([unjudged] if isinstance(unjudged, str) else unjudged)
        if odd := hidden - {one.name for one in signature.parameters.values() if one.kind in _NAMED}:
            raise InputError(f"{name} has no argument {min(odd)!r} to leave unjudged")
        hidden |= _bound_parameter(fn, signature)
        for one in signature.parameters.values():
            if one.default is not Parameter.empty and one.name not in hidden:
                plain_value(one.default, f"the default of {one.name} of {name}")
        return cls(name, fn, signature, hidden, inspect.iscoroutinefunction(kind))

    @property
    def spec(self) -> ToolSpec:
        """The declaration that is compared with the rules."""
        arguments = {
            name: {"title": str(one)} for name, one in self.signature.parameters.items() if name not in self.unjudged
        }
        takes_others = any(one.kind is Parameter.VAR_KEYWORD for one in self.signature.parameters.values())
        schema = {"type": "object", "properties": arguments}
        beyond: frozenset[str] | None = None if takes_others else frozenset()
        return ToolSpec(self.name, schema, inspect.getdoc(self.fn) or "", unlisted_arguments=beyond)

    def bound_to(self, instance: Any) -> PythonTool:
        """Binds the tool of a method to an instance."""
        first, *others = self.signature.parameters.values()
        return replace(
            self,
            fn=self.fn.__get__(instance),
            signature=self.signature.replace(parameters=others),
            unjudged=self.unjudged - {first.name},
        )

    def split(self, by_position: Iterable[Any], named: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """Returns the judged arguments of a call with defaults, and the unjudged ones.

        Raises:
            InputError: they do not fit the function, or are not JSON values.
        """
        try:
            found = self.signature.bind(*by_position, **named)
        except TypeError as error:
            raise InputError(f"the arguments of {self.name!r}: {error}") from None
        found.apply_defaults()
        every: dict[str, Any] = {}
        for name, value in found.arguments.items():
            every |= {name: value} if self.signature.parameters[name].kind in _NAMED else value
        apart = {name: every.pop(name) for name in self.unjudged}
        judged = {name: plain_value(value, f"{name} of {self.name}") for name, value in every.items()}
        return FrozenMapping(MappingProxyType(judged)), apart

    def read(self, named: Mapping[str, Any], apart: Mapping[str, Any] = EMPTY) -> Mapping[str, Any]:
        """Returns the arguments of a model or reviewer, with defaults.

        Args:
            named: the arguments by name.
            apart: the arguments that the program supplies.

        Raises:
            InputError: they do not fit the function, or one of them is supplied by the program.
        """
        if odd := self.unjudged.intersection(named):
            raise InputError(f"the arguments of {self.name!r}: {min(odd)!r} is supplied by the program")
        return self.split((), {**named, **apart})[0]


def _name_of(fn: Any, name: str | None) -> str:
    found = name or getattr(fn, "__name__", None)
    if callable(fn) and isinstance(found, str) and found != "<lambda>":
        return found
    raise InputError(f"{fn!r} is not a named function; expected one, or a callable with name='...'")


def _refuse_what_runs_later(kind: Any, name: str) -> None:
    if inspect.isgeneratorfunction(kind) or inspect.isasyncgenfunction(kind):
        raise InputError(
            f"{name} is a generator, which does its work after its call was recorded; expected a function that returns "
            "what it has found, such as a list"
        )


def _refuse_decorated(fn: Any, name: str) -> None:
    """Refuses a decorated function: its decorator may change judged arguments, or call the function twice."""
    if hasattr(fn, "__wrapped__"):
        raise InputError(
            f"{name} is decorated, and what the decorator makes of its arguments would not be judged; put the guard "
            "innermost, right above 'def', and give a tool loop the guarded function itself"
        )


def _signature(fn: Any, name: str) -> inspect.Signature:
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        raise InputError(f"{name} has no readable signature; wrap it in a function that has one") from None
    for one in signature.parameters.values():
        if one.kind not in (*_NAMED, Parameter.VAR_KEYWORD):
            raise InputError(
                f"{name} takes {str(one)!r} by position only; expected named parameters, which rules can use"
            )
    return signature


def _bound_parameter(fn: Any, signature: inspect.Signature) -> frozenset[str]:
    """Returns the name of the instance or class parameter of a function in a class body."""
    first = next(iter(signature.parameters), "")
    owner = getattr(fn, "__qualname__", "").rpartition(".")[0]
    in_class = inspect.isfunction(fn) and owner and not owner.endswith("<locals>")
    return frozenset({first}) if in_class and first in ("self", "cls") else frozenset()
