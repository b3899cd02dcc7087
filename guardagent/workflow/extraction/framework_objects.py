"""Asks the objects of a framework what they are, without importing it."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from guardagent.errors import InputError

_MISSING: Any = object()


class UnknownValue:
    """What stands for a value that cannot be known, where only the source of a program is read: it counts as false.

    Attributes:
        name: what is known of it: how the program calls it, or which attribute it is of.
        is_function: it can be called, most likely.
    """

    def __init__(self, name: str, *, callable_: bool = False) -> None:
        self.name, self.is_function = name, callable_

    def __bool__(self) -> bool:
        return False


class Alternatives:
    """What stands for one of several values, or lists of such; any number in any order, where `repeated`."""

    def __init__(self, options: Iterable[Any], *, repeated: bool = False) -> None:
        self.options, self.repeated = list(options), repeated
        self.name = " or ".join(str(getattr(one, "name", "?")) for one in self.options[:3])


def flattened(several: Iterable[Any]) -> list[Any]:
    """Whatever a list can hold: all options of what is one of several, each once."""
    found: list[Any] = []
    for one in several:
        inner = one.options if isinstance(one, Alternatives) else one if isinstance(one, list) else None
        found += [one] if inner is None else flattened(inner)
    return (
        list({id(one): one for one in found}.values())
        if any(isinstance(one, Alternatives) for one in several)
        else found
    )


def is_a(target: object, package: str, *names: str) -> bool:
    """Whether an object is of one of some classes of a package, wherever in it they are defined."""
    return any(kind.__name__ in names and _of(kind, package) for kind in type(target).__mro__)


def _of(kind: type, package: str) -> bool:
    return kind.__module__ == package or kind.__module__.startswith(f"{package}.")


def defined_outside(target: object, package: str, *methods: str) -> Any:
    """The first of some methods that a class outside the package gives to an object; None where none does."""
    for kind in type(target).__mro__:
        if _of(kind, package):
            return None
        for method in methods:
            if method in vars(kind):
                return vars(kind)[method]
    return None


def private_attribute(target: object, attribute: str, distribution: str) -> Any:
    """An attribute for which a framework has no public name.

    Raises:
        InputError: this version of the framework has it no more.
    """
    value = getattr(target, attribute, _MISSING)
    if value is not _MISSING:
        return value
    kind = type(target)
    raise InputError(
        f"{distribution} {_version(distribution)}: a {kind.__module__}.{kind.__qualname__} has no {attribute}, where "
        f"other versions keep what its graph needs; install a version that this extractor knows (its documentation "
        f"names them), or verify the graph as JSON"
    )


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "(of unknown version)"
