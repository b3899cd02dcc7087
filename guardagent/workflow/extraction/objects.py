"""Inspects the objects of a framework without importing it: their classes, private attributes, tools and places.

The place of a named object is the source location where it is constructed, as in `LlmAgent(name="draft", ...)`.
"""

from __future__ import annotations

import ast
import linecache
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from guardagent.errors import InputError
from guardagent.workflow.model.graph import Unseen, mark
from guardagent.workflow.python_source.values import Stub

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
        self.name = " or ".join(str(getattr(option, "name", "?")) for option in self.options[:3])


def flattened(several: Iterable[Any]) -> list[Any]:
    """Returns the possible elements of a list: each option of its alternatives once."""
    flat: list[Any] = []
    for entry in several:
        inner = entry.options if isinstance(entry, Alternatives) else entry if isinstance(entry, list) else None
        flat += [entry] if inner is None else flattened(inner)
    return (
        list({id(element): element for element in flat}.values())
        if any(isinstance(element, Alternatives) for element in several)
        else flat
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


# --- tools


@dataclass
class AgentTools:
    """The tools of one agent.

    Attributes:
        names: the names of the tools for the model.
        gated: the tools that wait for human approval.
        gated_when: for tools that do not always wait, the condition.
        unknown: sets of tools whose members are known only at run time.
        runs: the agent or workflow node that a tool runs, with the name of the tool.
        escalates: one of the tools can end the loop around the agent.
        opaque_calls: their calls that could not be seen.
        notes: remarks for human readers.
    """

    names: list[str] = field(default_factory=list)
    gated: list[str] = field(default_factory=list)
    gated_when: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    runs: list[tuple[str, object]] = field(default_factory=list)
    escalates: bool = False
    opaque_calls: list[Unseen | str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, gate: str | None = None) -> None:
        """Adds a tool; `gate` is None if it is not gated, empty if it is always gated, else the condition.

        If two tools share a name, the name is gated only if both are: either tool may be the one called.
        """
        again, waits = name in self.names, name in self.gated
        if not again:
            self.names.append(name)
        if gate is None or (again and not waits):
            self.gated = [gated_name for gated_name in self.gated if gated_name != name]
            self.gated_when.pop(name, None)
            return
        if not waits:
            self.gated.append(name)
        if gate:
            self.gated_when[name] = gate

    def metadata(self) -> dict[str, Any]:
        """Returns the metadata of the tools for a node."""
        named = ", ".join(map(repr, self.unknown))
        members = f"the members of {named} are known only at run time" if named else None
        return {
            "gated_when": self.gated_when,
            "unknown_tools": tuple(self.unknown),
            "tools_unknown": mark(*self.opaque_calls, members),
            "widened": mark(members),
        }


# --- source locations

_LIBRARIES = tuple(
    {path for name in ("stdlib", "platstdlib", "purelib", "platlib") if (path := sysconfig.get_path(name))}
)


def source_location(target: object, name: str, *classes: str) -> dict[str, Any]:
    """Returns the file and line where an object is constructed: from its stub, or by its name."""
    if isinstance(target, Stub):
        return {"file": getattr(target, "file", None), "line": getattr(target, "line", None)}
    return construction_site(name, *classes)


def construction_site(name: str, *classes: str) -> dict[str, Any]:
    """Returns the file and line where an object of that name is constructed; empty unless there is exactly one."""
    sites = [(file, line) for kind, file, line in _index(tuple(_files())).get(name, ()) if kind in classes]
    return {"file": sites[0][0], "line": sites[0][1]} if len(sites) == 1 else {}


@lru_cache(maxsize=4)
def _index(files: tuple[str, ...]) -> dict[str, list[tuple[str, str, int]]]:
    """Maps each name in a call to the callees, with file and line."""
    index: dict[str, list[tuple[str, str, int]]] = {}
    for file in dict.fromkeys(files):
        for name, kind, line in _calls(file):
            index.setdefault(name, []).append((kind, file, line))
    return index


def _files() -> Iterator[str]:
    """Yields the files of the modules of the program."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        own = isinstance(file, str) and file.endswith(".py") and not file.startswith(_LIBRARIES)
        if own and name.partition(".")[0] != "guardagent" and "site-packages" not in str(file):
            yield str(file)


@lru_cache(maxsize=256)
def _calls(file: str) -> tuple[tuple[str, str, int], ...]:
    """Returns the calls in a file that pass a name: the name, the callee and the line."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return tuple((name, _callee_name(call.func), call.lineno) for call in calls if (name := _name_argument(call)))


def _name_argument(call: ast.Call) -> str:
    """Returns the name that a call passes as a literal; empty if there is none."""
    argument = next(
        (keyword.value for keyword in call.keywords if keyword.arg == "name"), call.args[0] if call.args else None
    )
    return argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else ""


def _callee_name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
