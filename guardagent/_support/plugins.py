"""Plug-ins: the modules of a folder, and those that other packages register by entry points.

Names are told without importing anything, and only the plug-in that is asked for is loaded. A shipped name is the
shipped module's: a package that registers it too is refused, and so are two packages that register one name, since
else it would be left to chance which of them guards.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from guardagent.errors import InputError, UnknownNameError, error_text

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@dataclass(frozen=True, slots=True)
class Plugins:
    """One kind of plug-in.

    Attributes:
        kind: what one is called in messages.
        package: the package whose modules are the shipped ones; those with a leading underscore are none.
        needs: the names that each has to define.
        group: the entry points of other packages' ones; empty where there can be none.
        part: the module of a plug-in that is meant, where one is a package.
    """

    kind: str
    package: str
    required_names: tuple[str, ...]
    group: str = ""
    submodule: str = ""

    def shipped(self) -> tuple[str, ...]:
        """The names of those that come with this package."""
        return _module_names(self.package)

    def __iter__(self) -> Iterator[str]:
        """The names of all: the shipped ones, then those of other packages.

        Raises:
            InputError: two have one name.
        """
        return iter((*self.shipped(), *self._entry_point_plugins()))

    def __contains__(self, name: object) -> bool:
        return name in self.shipped() or name in self._entry_point_plugins()

    def load(self, name: str, where: str = "") -> Any:
        """The plug-in of a name; `where` says where the name stands.

        Raises:
            UnknownNameError: there is none.
            InputError: two have this name, or another package's cannot be loaded or lacks what its kind needs.
        """
        if name in self.shipped():
            return self._require_complete(name, self._import(f"{self.package}.{name}"), "this package")
        others = self._entry_point_plugins()
        if name not in others:
            raise UnknownNameError(self.kind, name, self, where)
        entry = others[name]
        try:
            loaded = self._import(entry.module) if self.submodule else entry.load()
        except Exception as error:  # what others wrote can fail in any way
            raise InputError(
                f"{self.kind} {name!r} of {_owner(entry)} cannot be loaded: {error_text(error)}; mend or uninstall it"
            ) from error
        return self._require_complete(name, loaded, _owner(entry))

    def load_all(self) -> Iterator[tuple[str, Any]]:
        """All with their names, each loaded when it comes: the shipped ones, then those of other packages.

        Raises:
            InputError: as `load`.
        """
        yield from ((name, self.load(name)) for name in self.shipped())
        yield from ((name, self.load(name)) for name in self._entry_point_plugins())

    def _import(self, path: str) -> Any:
        return importlib.import_module(f"{path}.{self.submodule}" if self.submodule else path)

    def _require_complete(self, name: str, loaded: Any, owner: str) -> Any:
        missing = [needed for needed in self.required_names if not hasattr(loaded, needed)]
        if missing:
            raise InputError(
                f"{self.kind} {name!r} of {owner} has no {', '.join(missing)}; "
                f"expected {', '.join(self.required_names)}: mend or uninstall it"
            )
        return loaded

    def _entry_point_plugins(self) -> Mapping[str, EntryPoint]:
        found: dict[str, EntryPoint] = {}
        for entry in _entry_points(self.group):
            if entry.name in self.shipped() or entry.name in found:
                other = _owner(found[entry.name]) if entry.name in found else "this package"
                raise InputError(
                    f"{self.kind} {entry.name!r} is both of {other} and of {_owner(entry)}; uninstall one of them, or "
                    f"have it registered under another name (entry points {self.group!r})"
                )
            found[entry.name] = entry
        return found


@cache
def _module_names(package: str) -> tuple[str, ...]:
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    return tuple(sorted(one.name for one in pkgutil.iter_modules(folders or ()) if not one.name.startswith("_")))


@cache
def _entry_points(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of installed packages, read once: it takes longer than a check does."""
    if not group:
        return ()
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=group), key=lambda one: one.name))


def _owner(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
