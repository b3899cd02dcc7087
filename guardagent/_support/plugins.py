"""Plug-ins: the modules of a folder or the members of a table, and those that other packages register by entry points.

Listing names imports nothing, and only the requested plug-in is loaded. A shipped name belongs to the shipped plug-in:
a package that registers it too is rejected, and so are two packages with the same name, since otherwise chance would
decide which of them guards. `lazy_getattr` exports names of a package from a module that is loaded at first use.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from guardagent.errors import InputError, UnknownNameError, error_text

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@dataclass(frozen=True, slots=True)
class Plugins:
    """One kind of plug-in.

    Attributes:
        kind: the kind's name in messages.
        package: the package whose modules are the shipped plug-ins, except those with a leading underscore; empty if
            `members` has them.
        required_names: the names that a module has to define to be such a plug-in.
        group: the entry point group of other packages; empty if they cannot register any.
        module: the module to load if a plug-in is a package.
        members: the shipped plug-ins by name, where several share a module. A string is the place of one, as
            `module:attribute`, which is loaded on demand.
        adapt: makes what `members` would hold from a module of another package.
    """

    kind: str
    package: str
    required_names: tuple[str, ...]
    group: str = ""
    module: str = ""
    members: Mapping[str, Any] = field(default_factory=dict)
    adapt: Callable[[Any], Any] = lambda module: module

    def shipped(self) -> tuple[str, ...]:
        """Returns the names of the plug-ins in this package."""
        return _module_names(self.package) if self.package else tuple(sorted(self.members))

    def __iter__(self) -> Iterator[str]:
        """Iterates over all names: the shipped ones, then those of other packages.

        Raises:
            InputError: two plug-ins have the same name.
        """
        return iter((*self.shipped(), *self._entry_point_plugins()))

    def __contains__(self, name: object) -> bool:
        return name in self.shipped() or name in self._entry_point_plugins()

    def load(self, name: str, where: str = "") -> Any:
        """Loads a plug-in by name; `where` is the location of the name for messages.

        Raises:
            UnknownNameError: no plug-in has this name.
            InputError: two have this name, or another package's cannot be loaded or lacks a required name.
        """
        if name in self.members:
            return _member(self.members[name])
        if name in self.shipped():
            return self._require_complete(name, self._import(f"{self.package}.{name}"), "this package")
        others = self._entry_point_plugins()
        if name not in others:
            raise UnknownNameError(self.kind, name, self, where)
        entry = others[name]
        try:
            loaded = self._import(entry.module) if self.module else entry.load()
        except Exception as error:  # external code can fail in any way
            raise InputError(
                f"{self.kind} {name!r} of {_owner(entry)} cannot be loaded: {error_text(error)}; fix or uninstall it"
            ) from error
        return self.adapt(self._require_complete(name, loaded, _owner(entry)))

    def load_all(self) -> Iterator[tuple[str, Any]]:
        """Yields all names and plug-ins, loading each in turn: the shipped ones, then those of other packages.

        Raises:
            InputError: as `load`.
        """
        yield from ((name, self.load(name)) for name in self.shipped())
        yield from ((name, self.load(name)) for name in self._entry_point_plugins())

    def _import(self, path: str) -> Any:
        return importlib.import_module(f"{path}.{self.module}" if self.module else path)

    def _require_complete(self, name: str, loaded: Any, owner: str) -> Any:
        missing = [needed for needed in self.required_names if not hasattr(loaded, needed)]
        if missing:
            raise InputError(
                f"{self.kind} {name!r} of {owner} lacks {', '.join(map(repr, missing))}; "
                f"expected {', '.join(map(repr, self.required_names))}: fix or uninstall it"
            )
        return loaded

    def _entry_point_plugins(self) -> Mapping[str, EntryPoint]:
        entry_points: dict[str, EntryPoint] = {}
        for entry in _entry_points(self.group):
            if entry.name in self.shipped() or entry.name in entry_points:
                other = _owner(entry_points[entry.name]) if entry.name in entry_points else "this package"
                raise InputError(
                    f"{self.kind} {entry.name!r} is registered by both {other} and {_owner(entry)}; uninstall one "
                    f"of them, or register it under another name (entry points {self.group!r})"
                )
            entry_points[entry.name] = entry
        return entry_points


def _member(member: Any) -> Any:
    if not isinstance(member, str):
        return member
    module, _, attribute = member.partition(":")
    return getattr(importlib.import_module(module), attribute)


@cache
def _module_names(package: str) -> tuple[str, ...]:
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    return tuple(
        sorted(module.name for module in pkgutil.iter_modules(folders or ()) if not module.name.startswith("_"))
    )


@cache
def _entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Returns the entry points of installed packages, cached: reading them takes longer than a check."""
    if not group:
        return ()
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=group), key=lambda entry_point: entry_point.name))


def _owner(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value


def lazy_getattr(package: str, module: str, names: Collection[str]) -> Callable[[str], Any]:
    """Returns a `__getattr__` for a package that loads `names` from its module `module`."""

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{module}"), name)

    return get
