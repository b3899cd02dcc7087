"""Targets of the command line, and their graphs.

    graph.json        a graph
    app.py            the source alone: nothing is imported or run
    app.py:graph      an object of a file, which is imported; with `source_only`, its source alone
    app.flows:graph   an object of a module, which is imported
    folder            the source of all its Python files: nothing is imported or run

A file or a folder has a `GraphListing`: its workflow graphs, with the places that could not be read.

Imports run in a separate process with a time limit, since a target may print, exit or never end. That process is
`python -m guardagent.workflow.model.targets TARGET FILE`, which imports a target and writes its graph.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from guardagent.errors import GuardError, InputError, name_hint
from guardagent.workflow.extraction import extract
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.model.graph_json import graph_of, read_graph


@dataclass(frozen=True, slots=True)
class WorkflowGraph:
    """One workflow of a program.

    Attributes:
        name: the variable, function or `Class.attribute` that holds or makes it.
        file: the file that was read.
        line: the line where the workflow is made.
        graph: its graph.
    """

    name: str
    file: str
    line: int
    graph: Graph

    def to_dict(self) -> dict[str, Any]:
        return {**self.graph.to_dict(), "file": self.file, "line": self.line}


@dataclass(frozen=True, slots=True)
class UnreadPlace:
    """A place that may define a workflow whose graph could not be determined.

    Attributes:
        file: the file.
        line: the line; 1 if only the file is known.
        reason: why, and what was expected.
    """

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        return {"file": self.file, "line": self.line, "reason": self.reason}


@dataclass(frozen=True)
class GraphListing:
    """The workflows of a target, in order of files and lines.

    Attributes:
        target: the target as the caller named it.
        workflows: the workflows.
        unread: the places that could not be read.
        is_folder: the target is a folder.
    """

    target: str
    workflows: tuple[WorkflowGraph, ...]
    unread: tuple[UnreadPlace, ...] = ()
    is_folder: bool = False

    @property
    def is_single(self) -> bool:
        """Whether the target has exactly one workflow, so that its output is this one alone."""
        return not self.is_folder and not self.unread and len(self.workflows) == 1

    def single(self) -> Graph:
        """Returns the only graph.

        Raises:
            InputError: there are several graphs, or none.
        """
        if not self.is_single:
            names = (
                ", ".join(repr(workflow.graph.name if self.is_folder else workflow.name) for workflow in self.workflows)
                or "none"
            )
            example = "FOLDER/FILE.py:NAME" if self.is_folder else f"{self.target}:NAME"
            raise InputError(
                f"{self.target}: expected one workflow, found {len(self.workflows):,}: {names}; "
                f"name one, as in '{example}' with '--source-only'"
            )
        return self.workflows[0].graph

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of all graphs, and the places that could not be read."""
        notes = dict.fromkeys(note for workflow in self.workflows for note in workflow.graph.notes)
        return (*notes, *(f"{place.file}:{place.line}: not read: {place.reason}" for place in self.unread))

    def to_dict(self) -> Mapping[str, Any]:
        """Returns one graph as it is, and several as a list."""
        if self.is_single:
            return self.single().to_dict()
        unread = {"unread": [place.to_dict() for place in self.unread]} if self.unread or self.is_folder else {}
        return {"graphs": [workflow.to_dict() for workflow in self.workflows], **unread}


# --- the graphs of a target

SECONDS = 25.0  # to import a target and extract its graph


def graphs_of(target: str | Path, *, source_only: bool = False, seconds: float = SECONDS) -> GraphListing:
    """Returns the graphs of all workflows of a target, with the places that could not be read.

    Args:
        target: a file, a folder, an object of a file or module, or a graph.
        source_only: import nothing, not even for an object of a file.
        seconds: to import a target, or to read one file of a folder.

    Raises:
        InputError: the target does not exist or is not a workflow, or its import fails or takes too long.
    """
    target = str(target)
    if target.endswith(".json"):
        return _one(target, read_graph(target))
    if Path(target).is_dir():
        from guardagent.workflow.python_source.source_graphs import graphs_of_folder

        return graphs_of_folder(Path(target), seconds=seconds)
    if target.endswith(".py"):
        from guardagent.workflow.python_source.source_graphs import graphs_of_source

        return graphs_of_source(Path(target))
    return _one(target, _object_graph(target, seconds, source_only=source_only))


def _one(target: str, graph: Graph) -> GraphListing:
    return GraphListing(target, (WorkflowGraph("", target, 1, graph),))


def _object_graph(target: str, seconds: float, *, source_only: bool) -> Graph:
    place, _, attribute = target.rpartition(":")
    if not place or not attribute:
        expected = "expected 'FILE.py', 'FILE.py:ATTRIBUTE', 'MODULE:ATTRIBUTE', 'GRAPH.json' or a folder"
        raise InputError(f"{target}: is not a target; {expected}")
    if place.endswith(".py") and not Path(place).is_file():
        raise InputError(f"{place}: no such file")
    if not source_only:
        return _imported_graph(target, seconds)
    if not place.endswith(".py"):
        raise InputError(f"{target}: names a module, which has to be imported; expected 'FILE.py:NAME' to read source")
    from guardagent.workflow.python_source.source_graphs import graph_of_source

    return graph_of_source(Path(place), attribute)


def _imported_graph(target: str, seconds: float) -> Graph:
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer.json")
        load = "guardagent.workflow.model.targets"
        outcome = _run([sys.executable, "-m", load, target, str(answer)], target, seconds)
        if not answer.exists():
            raise InputError(f"{target}: importing it ended the process{outcome}")
        content = json.loads(answer.read_text(encoding="utf-8"))
    if "error" in content:
        raise InputError(f"{target}: {content['error']}")
    return graph_of(content["graph"], target)


def _run(command: list[str], target: str, seconds: float) -> str:
    """Runs a command and returns the last line of its output, or its exit status, for a message."""
    process = subprocess.Popen(  # noqa: S603 - the target is the operator's
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise InputError(f"{target}: importing it took longer than {seconds:g} seconds") from None
    finally:
        _end(process)
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return f"; its last output: {lines[-1][:200]}" if lines else f" with status {process.returncode}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and its children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


# --- the process that imports a target


def main(target: str, answer: Path) -> None:
    """Writes the graph of the target, or the error, to a file."""
    try:
        graph = extract(load_attribute(target), target)
        content: dict[str, Any] = {"graph": graph.to_dict()}
    except (TargetError, GuardError) as error:
        content = {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - an extractor that meets what it does not know
        content = {"error": f"the graph could not be extracted: {_where(error)}"}
    answer.write_text(json.dumps(content, default=str), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # threads of the target do not keep the process alive


class TargetError(Exception):
    """A target cannot be imported, or does not exist."""


def load_attribute(target: str) -> Any:
    """Returns the object of `module:attribute` or `file.py:attribute`.

    Raises:
        TargetError: the message says why it cannot be loaded.
    """
    place, _, path = target.rpartition(":")
    attribute: Any = _module(place)
    for name in path.split("."):
        if not hasattr(attribute, name):
            known = [name for name in dir(attribute) if not name.startswith("_")]
            raise TargetError(f"{place!r} has no attribute {name!r}{name_hint(name, known)}")
        attribute = getattr(attribute, name)
    return attribute


def _module(place: str) -> ModuleType:
    try:
        return _from_file(Path(place)) if place.endswith(".py") else _named(place)
    except SystemExit as error:
        raise TargetError(
            f"importing it calls sys.exit({error.code!r}); expected a module that can be imported"
        ) from None
    except SyntaxError as error:
        raise TargetError(f"{error.filename}:{error.lineno}: not Python: {error.msg}") from None
    except BaseException as error:  # noqa: BLE001 - whatever a module raises while it is imported
        raise TargetError(f"importing it failed: {_where(error)}") from None


def _named(name: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as the interpreter does for `-m`
    return importlib.import_module(name)


def _from_file(path: Path) -> ModuleType:
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
    return f"{place}{type(error).__name__}: {error}"


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
