"""A function as a tool: its name, and how its arguments are judged and handed over."""

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
        name: what the host and the model call it.
        fn: what runs.
        signature: its arguments.
        unjudged: those that the program gives and no rule sees; of a method, the instance is one.
        is_async: whether it is a coroutine function.
    """

    name: str
    fn: Fn
    signature: inspect.Signature
    unjudged: frozenset[str]
    is_async: bool

    @classmethod
    def of(cls, fn: Fn, name: str | None = None, unjudged: Collection[str] = ()) -> PythonTool:
        """A function, method or other callable as a tool.

        Raises:
            InputError: it cannot be judged; with the reason.
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
        """What the rules are held against at attach."""
        arguments = {
            name: {"title": str(one)} for name, one in self.signature.parameters.items() if name not in self.unjudged
        }
        return ToolSpec(self.name, {"type": "object", "properties": arguments}, inspect.getdoc(self.fn) or "")

    def bound_to(self, instance: Any) -> PythonTool:
        """The tool of a method, for one instance."""
        first, *others = self.signature.parameters.values()
        return replace(
            self,
            fn=self.fn.__get__(instance),
            signature=self.signature.replace(parameters=others),
            unjudged=self.unjudged - {first.name},
        )

    def split(self, by_position: Iterable[Any], named: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """(the arguments of a call that are judged, with defaults; those that are not).

        Raises:
            InputError: they do not fit the function, or are no JSON values.
        """
        try:
            found = self.signature.bind(*by_position, **named)
        except TypeError as error:
            raise InputError(f"the arguments of {self.name}: {error}") from None
        found.apply_defaults()
        every: dict[str, Any] = {}
        for name, value in found.arguments.items():
            every |= {name: value} if self.signature.parameters[name].kind in _NAMED else value
        apart = {name: every.pop(name) for name in self.unjudged}
        judged = {name: plain_value(value, f"{name} of {self.name}") for name, value in every.items()}
        return FrozenMapping(MappingProxyType(judged)), apart

    def read(self, named: Mapping[str, Any], apart: Mapping[str, Any] = EMPTY) -> Mapping[str, Any]:
        """The arguments that a model or a person gives, with defaults.

        Args:
            named: what is given.
            apart: those that the program gives.

        Raises:
            InputError: they do not fit the function, or one is the program's to give.
        """
        if odd := self.unjudged.intersection(named):
            raise InputError(f"the arguments of {self.name}: {min(odd)!r} is the program's to give")
        return self.split((), {**named, **apart})[0]


def _name_of(fn: Any, name: str | None) -> str:
    found = name or getattr(fn, "__name__", None)
    if callable(fn) and isinstance(found, str) and found != "<lambda>":
        return found
    raise InputError(f"{fn!r} is no function with a name; expected one, or a callable with name='...'")


def _refuse_what_runs_later(kind: Any, name: str) -> None:
    if inspect.isgeneratorfunction(kind) or inspect.isasyncgenfunction(kind):
        raise InputError(
            f"{name} is a generator, which does its work after its call was recorded; expected a function that returns "
            "what it has found, such as a list"
        )


def _refuse_decorated(fn: Any, name: str) -> None:
    """What stands between the guard and the function may change arguments that were judged, or call it twice."""
    if hasattr(fn, "__wrapped__"):
        raise InputError(
            f"{name} is decorated, and what the decorator makes of its arguments would not be judged; put the guard "
            "innermost, right above `def`, and give a tool loop the guarded function itself"
        )


def _signature(fn: Any, name: str) -> inspect.Signature:
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        raise InputError(f"{name} does not say what arguments it takes; wrap it in a function that does") from None
    for one in signature.parameters.values():
        if one.kind not in (*_NAMED, Parameter.VAR_KEYWORD):
            raise InputError(f"{name} takes `{one}` by place only; expected arguments with names, which rules speak of")
    return signature


def _bound_parameter(fn: Any, signature: inspect.Signature) -> frozenset[str]:
    """The instance or class that a function in the body of a class gets first."""
    first = next(iter(signature.parameters), "")
    owner = getattr(fn, "__qualname__", "").rpartition(".")[0]
    in_class = inspect.isfunction(fn) and owner and not owner.endswith("<locals>")
    return frozenset({first}) if in_class and first in ("self", "cls") else frozenset()
