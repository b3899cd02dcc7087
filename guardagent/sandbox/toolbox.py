"""The toolbox: functions that guard programs and rules may call, found in folders of Python files.

A public top-level function is a tool. Its signature and docstring describe it; they are read from the source, so
listing a toolbox executes none of it. The files run in this process when a function is first needed: a toolbox is code
of the operator.

Files whose names begin with `_` hold no tools; the other files of the folder may import from them
(`from ._tables import LIMITS`). Only the source files that such imports name can be imported, so that a lock file
covers all of them: neither a native module beside a file nor a compiled one in `__pycache__` takes its place.

A function whose name begins with `check_` is a *check*: it returns `(denied, evidence)`, and the program that called it
cannot override its denial.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from guardagent._support import syntax
from guardagent._support.files import read_text, shipped_folder
from guardagent.errors import ContentError, InputError, UnknownNameError
from guardagent.types import Functions

_PACKAGE_PREFIX = "_guardagent_toolbox_"
# Two toolboxes of one folder share its package name, so files run in one thread at a time.
_load_lock = threading.RLock()


@dataclass(frozen=True, slots=True)
class Tool:
    """One function of a toolbox, described by its source."""

    name: str
    signature: str
    doc: str
    path: Path
    line: int

    @property
    def summary(self) -> str:
        return self.doc.split("\n", 1)[0]

    @property
    def is_check(self) -> bool:
        return self.name.startswith("check_")

    def describe(self) -> str:
        """Returns the signature and docstring for a model or a reader."""
        return f"{self.signature}\n{self.doc}"


class Toolbox(Mapping[str, Tool]):
    """The tools by name. Immutable, and safe to share between threads.

    Raises, when made:
        ContentError: a file is not Python, or a function has no docstring or a duplicate name.
    """

    def __init__(self, paths: list[Path]) -> None:
        self._tools: dict[str, Tool] = {}
        for path in paths:
            for tool in _tools_of(read_text(path), path):
                if other := self._tools.get(tool.name):
                    raise ContentError(
                        f"function {tool.name!r} is already defined in {other.path}:{other.line}; "
                        "expected a unique name",
                        path,
                        tool.line,
                    )
                self._tools[tool.name] = tool

    @classmethod
    def load(cls, *folders: Path | str) -> Toolbox:
        """Loads the shipped toolbox together with the functions of `folders` (or of single Python files)."""
        paths = _python_files(shipped_folder("toolbox"))
        for folder in folders:
            paths += _python_files(Path(folder))
        return cls(paths)

    def __getitem__(self, name: str) -> Tool:
        try:
            return self._tools[name]
        except KeyError:
            raise UnknownNameError("toolbox function", name, self._tools) from None

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __hash__(self) -> int:
        return id(self)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Calls a function by its name; its exceptions pass through.

        Raises:
            UnknownNameError: there is no function of that name.
        """
        return (self.functions.get(name) or self.functions[self[name].name])(*args, **kwargs)

    @property
    def functions(self) -> Functions:
        """The functions by name. The files run on the first use.

        Raises:
            ContentError: a file fails when it runs.
        """
        if "_functions" in self.__dict__:
            return self._functions
        with _load_lock:
            return self._functions

    @cached_property
    def _functions(self) -> Functions:
        paths = {tool.path for tool in self._tools.values()}
        packages = {folder: package_name(folder, paths) for folder in {path.parent for path in paths}}
        modules = {path: _run_file(path, packages[path.parent]) for path in sorted(paths)}
        return {name: getattr(modules[tool.path], name) for name, tool in self._tools.items()}


def _python_files(folder: Path) -> list[Path]:
    if folder.is_file() and folder.suffix == ".py":
        return [folder]
    if not folder.is_dir():
        raise InputError(f"{folder}: no such toolbox; expected a folder of Python files, or a Python file")
    paths = sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))
    if not paths:
        raise InputError(f"{folder}: contains no Python file; expected at least one toolbox function")
    return paths


@lru_cache(maxsize=256)
def _tools_of(source: str, path: Path) -> tuple[Tool, ...]:
    try:
        tree = syntax.parse(source, str(path))
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ContentError(f"not Python: {error}", path, getattr(error, "lineno", None)) from None
    tools: dict[str, Tool] = {}
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        if node.name in tools:
            raise ContentError(
                f"function {node.name!r} is already defined on line {tools[node.name].line}", path, node.lineno
            )
        tools[node.name] = _tool(node, path)
    return tuple(tools.values())


def _tool(node: ast.FunctionDef | ast.AsyncFunctionDef, path: Path) -> Tool:
    if isinstance(node, ast.AsyncFunctionDef):
        raise ContentError(f"function {node.name!r} is async; expected a plain function", path, node.lineno)
    doc = ast.get_docstring(node)
    if not doc:
        raise ContentError(
            f"function {node.name!r} has no docstring; expected one that describes its input and output, "
            "or a name that begins with '_'",
            path,
            node.lineno,
        )
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return Tool(node.name, f"{node.name}({ast.unparse(node.args)}){returns}", doc, path, node.lineno)


def _run_file(path: Path, package: str) -> ModuleType:
    name = f"{package}.{path.stem}"
    spec = module_spec(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses, for example, look up their module there
    try:
        spec.loader.exec_module(module)  # type: ignore[union-attr]
    except (Exception, SystemExit) as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if Path(frame.filename).resolve() == path.resolve()
        ]
        message = f"running this toolbox file failed: {type(error).__name__}: {error}"
        raise ContentError(message, path, lines[-1] if lines else None) from error
    return module


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
        if not (package.startswith(_PACKAGE_PREFIX) and inner):
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
    name = f"{_PACKAGE_PREFIX}{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]}"
    for loaded in [loaded for loaded in sys.modules if loaded.startswith(f"{name}.")]:
        del sys.modules[loaded]  # a file may have changed since
    package = sys.modules[name] = _ToolboxPackage(name)
    package.__path__ = []
    package.folder = folder
    package.sources = frozenset(source_files(*(file for file in files if file.parent == folder)))
    if not any(isinstance(finder, _ToolboxFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _ToolboxFinder())
    return name


def source_files(*paths: Path) -> tuple[Path, ...]:
    """Returns toolbox files of one folder and the files of this folder that they import, also indirectly, sorted."""
    folder, files, waiting = paths[0].parent, set(paths), list(paths)
    while waiting:
        at = waiting.pop()
        new = {file for file in _imported_by(at) if file.is_relative_to(folder)} - files
        files |= new
        waiting += new
    return tuple(sorted(files))


def _imported_by(path: Path) -> Iterator[Path]:
    for level, names in _relative_imports(path.read_text(encoding="utf-8-sig")):
        base = path.parents[level - 1] if level <= len(path.parents) else path.parent
        for file in (base.joinpath(*names).with_suffix(".py"), base.joinpath(*names, "__init__.py")):
            if names and file.is_file():
                yield file


@lru_cache(maxsize=256)
def _relative_imports(source: str) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Returns (level, dotted name) of each relative import: the module, its parents, and the imported names."""
    relative_imports = []
    for node in ast.walk(syntax.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level:
            parts = tuple(node.module.split(".")) if node.module else ()
            relative_imports += [(node.level, parts[:end]) for end in range(1, len(parts) + 1)]
            relative_imports += [(node.level, (*parts, alias.name)) for alias in node.names]
    return tuple(relative_imports)
