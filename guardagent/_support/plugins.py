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

from guardagent.errors import InputError, UnknownNameError, in_words

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
    needs: tuple[str, ...]
    group: str = ""
    part: str = ""

    def shipped(self) -> tuple[str, ...]:
        """The names of those that come with this package."""
        return _modules_of(self.package)

    def __iter__(self) -> Iterator[str]:
        """The names of all: the shipped ones, then those of other packages.

        Raises:
            InputError: two have one name.
        """
        return iter((*self.shipped(), *self._others()))

    def __contains__(self, name: object) -> bool:
        return name in self.shipped() or name in self._others()

    def load(self, name: str, where: str = "") -> Any:
        """The plug-in of a name; `where` says where the name stands.

        Raises:
            UnknownNameError: there is none.
            InputError: two have this name, or another package's cannot be loaded or lacks what its kind needs.
        """
        if name in self.shipped():
            return self._complete(name, self._module(f"{self.package}.{name}"), "this package")
        others = self._others()
        if name not in others:
            raise UnknownNameError(self.kind, name, self, where)
        entry = others[name]
        try:
            loaded = self._module(entry.module) if self.part else entry.load()
        except Exception as error:  # what others wrote can fail in any way
            raise InputError(
                f"{self.kind} {name!r} of {_owner(entry)} cannot be loaded: {in_words(error)}; mend or uninstall it"
            ) from error
        return self._complete(name, loaded, _owner(entry))

    def each(self) -> Iterator[tuple[str, Any]]:
        """All with their names, each loaded when it comes: the shipped ones, then those of other packages.

        Raises:
            InputError: as `load`.
        """
        yield from ((name, self.load(name)) for name in self.shipped())
        yield from ((name, self.load(name)) for name in self._others())

    def _module(self, path: str) -> Any:
        return importlib.import_module(f"{path}.{self.part}" if self.part else path)

    def _complete(self, name: str, loaded: Any, owner: str) -> Any:
        missing = [needed for needed in self.needs if not hasattr(loaded, needed)]
        if missing:
            raise InputError(
                f"{self.kind} {name!r} of {owner} has no {', '.join(missing)}; expected {', '.join(self.needs)}: "
                "mend or uninstall it"
            )
        return loaded

    def _others(self) -> Mapping[str, EntryPoint]:
        found: dict[str, EntryPoint] = {}
        for entry in _entry_points(self.group):
            if entry.name in self.shipped() or entry.name in found:
                first = _owner(found[entry.name]) if entry.name in found else "this package"
                raise InputError(
                    f"{self.kind} {entry.name!r} is both of {first} and of {_owner(entry)}; uninstall one of them, or "
                    f"have it registered under another name (entry points {self.group!r})"
                )
            found[entry.name] = entry
        return found


@cache
def _modules_of(package: str) -> tuple[str, ...]:
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
