"""Imports within a toolbox folder: from source alone, and only of files that an import in the folder names.

So only code that can be read, and that a lock file covers, can run: neither a native module beside a file nor a
compiled one in `__pycache__` takes its place.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from guardagent.sandbox.toolbox_sources import source_files

_PREFIX = "_guardagent_toolbox_"


class _ToolboxPackage(ModuleType):
    """A toolbox folder.

    Attributes:
        sources: the files that may be imported.
    """

    sources: frozenset[Path]
    folder: Path


class _ToolboxLoader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        """Returns the code of the source, ignoring `__pycache__`."""
        path = self.get_filename(fullname)
        return _compiled(self.get_data(path), path)


@lru_cache(maxsize=256)
def _compiled(source: bytes, path: str) -> CodeType:
    """Compiles a source file; every guard runs the shipped ones anew."""
    return compile(source, path, "exec", dont_inherit=True)


class _ToolboxFinder(MetaPathFinder):
    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec of a module in a toolbox folder; None for any other name.

        Raises:
            ModuleNotFoundError: it may not be imported.
        """
        package, _, inner = fullname.partition(".")
        if not (package.startswith(_PREFIX) and inner):
            return None
        root = sys.modules[package]
        assert isinstance(root, _ToolboxPackage)
        place = root.folder.joinpath(*inner.split("."))
        for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if file in root.sources:
                return module_spec(fullname, file)
        if any(file.is_relative_to(place) for file in root.sources):
            return ModuleSpec(fullname, None, is_package=True)
        message = f"{place}: is not a Python source file that an import in this toolbox folder names"
        raise ModuleNotFoundError(message, name=fullname)


def module_spec(name: str, file: Path) -> ModuleSpec:
    """Returns the import spec of a toolbox source file."""
    inside = [str(file.parent)] if file.name == "__init__.py" else None
    loader = _ToolboxLoader(name, str(file))
    spec = spec_from_file_location(name, file, loader=loader, submodule_search_locations=inside)
    assert spec is not None
    return spec


def package_name(folder: Path, files: Iterable[Path]) -> str:
    """Registers a package for a folder, whose files can then import private ones, and returns its name."""
    name = f"{_PREFIX}{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]}"
    for loaded in [loaded for loaded in sys.modules if loaded.startswith(f"{name}.")]:
        del sys.modules[loaded]  # a file may have changed since
    package = sys.modules[name] = _ToolboxPackage(name)
    package.__path__ = []
    package.folder = folder
    package.sources = frozenset(source_files(*(file for file in files if file.parent == folder)))
    if not any(isinstance(finder, _ToolboxFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _ToolboxFinder())
    return name
