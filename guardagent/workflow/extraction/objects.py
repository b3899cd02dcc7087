"""Inspects the objects of a framework without importing the framework."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from guardagent.errors import InputError

_MISSING: Any = object()


class UnknownValue:
    """A stub for a value that the source of a program does not determine; it is false.

    Attributes:
        name: the name of the value in the program, or of its attribute.
        is_function: the value is probably callable.
        path: the path of the imported class that it is an object of; empty if it is not known.
        is_named: the program imports or declares the name.
    """

    def __init__(self, name: str, *, callable_: bool = False, path: str = "") -> None:
        self.name, self.is_function, self.path = name, callable_, path
        self.is_named = callable_ or bool(path)

    def __bool__(self) -> bool:
        return False


class Alternatives:
    """A stub for one of several values or lists of values; with `repeated`, any number of them in any order."""

    def __init__(self, options: Iterable[Any], *, repeated: bool = False) -> None:
        self.options, self.repeated = list(options), repeated
        self.name = " or ".join(str(getattr(one, "name", "?")) for one in self.options[:3])


def flattened(several: Iterable[Any]) -> list[Any]:
    """Returns the possible elements of a list: each option of its alternatives once."""
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
    """Whether an object is an instance of one of the classes of a package, in any of its modules."""
    return any(kind.__name__ in names and _of(kind, package) for kind in type(target).__mro__)


def _of(kind: type, package: str) -> bool:
    return kind.__module__ == package or kind.__module__.startswith(f"{package}.")


def defined_outside(target: object, package: str, *methods: str) -> Any:
    """Returns the first of the methods that a class outside the package defines for an object; else None."""
    for kind in type(target).__mro__:
        if _of(kind, package):
            return None
        for method in methods:
            if method in vars(kind):
                return vars(kind)[method]
    return None


def private_attribute(target: object, attribute: str, distribution: str) -> Any:
    """Returns a private attribute of a framework's object.

    Raises:
        InputError: this version of the framework does not have the attribute.
    """
    value = getattr(target, attribute, _MISSING)
    if value is not _MISSING:
        return value
    kind = type(target)
    raise InputError(
        f"{distribution} {_version(distribution)}: '{kind.__module__}.{kind.__qualname__}' has no attribute "
        f"{attribute!r}, which its graph depends on; install a version that this extractor supports (its documentation "
        f"lists them), or verify the graph as JSON"
    )


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "(unknown version)"
