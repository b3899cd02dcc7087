"""Reads the graphs of workflows from a Python file or a folder alone, without importing or running anything.

The interpreter goes through a file statement by statement (`interpreter.py`), and one reader per framework evaluates
the calls of that framework. It is loaded if the program imports one of its packages. A reader is the module `source` of
a framework, with

    called(interpreter, target, arguments, line)         applies a call and returns its value; None for other calls
    is_workflow(value: object) -> bool                   whether a value stands for a workflow
    extract(value, name: str) -> Graph                   the graph of a workflow

A reader can also have `CONSTANTS`, the values of some of its names, by their paths; `KINDS`, the classes of the
framework with stubs (`stubs.py`), which are extracted like live objects, so that `extract` is that of the extractor,
and what the source does not determine is noted; `piped` and
`anded(interpreter, left, right)`, which evaluate `a | b` and `a & b`; `opened(interpreter, value)`, which returns the
argument of `extract`; `unwrapped(value)`, which returns the workflow that a value only runs; and
`arranged(interpreter, workflows)`, which joins or leaves out parts of workflows.

A few processes read the files of a folder, so that one that takes too long or breaks its process costs no other. Run
with `-m`, this file is such a process: it reads a path per line from standard input, and answers with a line of JSON.
A file whose imports name no framework is passed over without a parser.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from guardagent.errors import ContentError, GuardError, InputError, UnknownNameError, error_text
from guardagent.workflow.extraction import FRAMEWORKS
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.model.graph_json import graph_of
from guardagent.workflow.model.targets import GraphListing, UnreadPlace, WorkflowGraph
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.workflows import USUAL_NAMES, FoundWorkflow, ProgramWorkflows


def graph_of_source(path: Path, name: str = "") -> Graph:
    """Returns the graph of a workflow of a file.

    Args:
        path: the Python file.
        name: the variable with the workflow, or the function that returns or runs it; by default the only workflow
            of the file, or the one with the most usual name.

    Raises:
        InputError: the file does not exist, is not Python, or defines no known workflow.
    """
    if name:
        interpreter, workflows = _program(path)
        value = workflows.named(name)
        if value is None:
            raise UnknownNameError(
                "workflow",
                name,
                [workflow.name for workflow in _found_workflows(interpreter, path, workflows)],
                str(path),
            )
        return _graph(interpreter, value, f"{path}:{name}")
    interpreter, results = _read(path)
    chosen = _chosen([workflow for workflow, _ in results], interpreter)
    graph = next(made for workflow, made in results if workflow is chosen)
    if isinstance(graph, GuardError):
        raise graph
    if len(results) == 1:
        return graph
    names = ", ".join(repr(workflow.name) for workflow, _ in results)
    note = f"{path}: read {chosen.name!r} of the workflows {names}; use '{path}:NAME' for another"
    return replace(graph, notes=(*graph.notes, note))


def graphs_of_source(path: Path, *, always_named: bool = False) -> GraphListing:
    """Returns the graphs of all workflows of a file that stand alone, in order of its lines.

    A workflow whose graph cannot be determined is listed as unread, unless it is the only one.

    Args:
        path: the Python file.
        always_named: the name of a graph has the name of its workflow, also if the file has only one.

    Raises:
        InputError: as `graph_of_source`.
    """
    interpreter, results = _read(path)
    if len(results) == 1 and isinstance(results[0][1], GuardError):
        raise results[0][1]
    unread = [_unread(path, workflow.site[1], str(made)) for workflow, made in results if isinstance(made, GuardError)]
    only = len(results) == 1 and not unread and not always_named
    graphs = [_named(path, workflow, made, only=only) for workflow, made in results if isinstance(made, Graph)]
    # Workflows of functions that were not followed may be missing.
    late = [note for note in interpreter.not_followed if not any(note in graph.graph.notes for graph in graphs)]
    if late and only:
        graphs = [replace(graphs[0], graph=replace(graphs[0].graph, notes=(*graphs[0].graph.notes, *late)))]
        late = []
    unread += [_unread(path, 1, note) for note in late]
    return GraphListing(str(path), tuple(graphs), tuple(unread))


def _read(path: Path) -> tuple[Interpreter, list[tuple[FoundWorkflow, Graph | GuardError]]]:
    """Returns the workflows of a file with their graphs or errors."""
    interpreter, workflows = _program(path)
    # Functions, which are interpreted with unknown arguments, must not change what the script makes.
    early = {id(workflow.value): _graph_or_error(interpreter, workflow, path) for workflow in workflows.of_script()}
    workflows_ = _found_workflows(interpreter, path, workflows)
    results = [
        (workflow, early.get(id(workflow.value)) or _graph_or_error(interpreter, workflow, path))
        for workflow in workflows_
    ]
    return interpreter, list({_content(workflow, made): (workflow, made) for workflow, made in results}.values())


def _content(workflow: FoundWorkflow, made: Graph | GuardError) -> object:
    """Returns a key for a workflow; without a name of its own, it equals others of its line with the same graph."""
    return workflow.name if workflow.bound or not isinstance(made, Graph) else (workflow.site, made.digest)


def _graph_or_error(interpreter: Interpreter, found_workflow: FoundWorkflow, path: Path) -> Graph | GuardError:
    try:
        return _graph(interpreter, found_workflow.value, str(path))
    except GuardError as error:
        return error


def _named(path: Path, found_workflow: FoundWorkflow, graph: Graph, *, only: bool) -> WorkflowGraph:
    named = graph if only else replace(graph, name=f"{path}:{found_workflow.name}")
    file = str(path) if found_workflow.site[0] == os.path.abspath(path) else found_workflow.site[0]  # noqa: PTH100 - as the interpreter
    return WorkflowGraph(found_workflow.name, file, found_workflow.site[1], named)


def _unread(path: Path, line: int, reason: str) -> UnreadPlace:
    return UnreadPlace(str(path), line, reason.removeprefix(f"{path}: "))


def _program(path: Path) -> tuple[Interpreter, ProgramWorkflows]:
    interpreter = Interpreter(path)
    return interpreter, ProgramWorkflows(interpreter, interpreter.run(_parsed(path)))


def _found_workflows(interpreter: Interpreter, path: Path, workflows: ProgramWorkflows) -> list[FoundWorkflow]:
    found_workflows = workflows.all() or workflows.imported()
    if not found_workflows:
        known = ", ".join(framework.FRAMEWORK for _, framework in FRAMEWORKS.load_all() if framework.PACKAGES)
        why = "".join(f" ({note})" for note in interpreter.not_followed)
        raise NoWorkflowError(f"{path}: its source defines no workflow{why}; expected one of {known}")
    return found_workflows


class NoWorkflowError(InputError):
    """A file that could be read defines no workflow."""


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}; expected a Python file") from None
    except SyntaxError as error:
        raise ContentError(f"not Python: {error.msg}", path, error.lineno) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{path}: not Python: {error}") from None


def _chosen(found_workflows: list[FoundWorkflow], interpreter: Interpreter) -> FoundWorkflow:
    """Chooses a workflow: one with a usual name, one that the program runs, or the last."""
    named = {found_workflow.name: found_workflow for found_workflow in found_workflows}
    usual = [named[name] for name in USUAL_NAMES if name in named and named[name].bound]
    run = [
        found_workflow
        for found_workflow in found_workflows
        if any(found_workflow.value is interpreter.workflow_of(started) for started in interpreter.started)
    ]
    return (usual or run or found_workflows[-1:])[0]


def _graph(interpreter: Interpreter, value: object, name: str) -> Graph:
    reader = interpreter.reader_of(value)
    assert reader is not None
    if hasattr(reader, "opened"):
        value = reader.opened(interpreter, value)
    before = interpreter.converter
    converter = interpreter.converter = before.copy()  # its notes are those of one graph
    try:
        graph: Graph = reader.extract(value, name)
    except GuardError:
        raise
    except Exception as error:  # the source does not determine all that the extractor needs
        raise InputError(
            f"{name}: its graph cannot be determined from the source alone: {type(error).__name__}: {error}; "
            f"expected agents that are made by plain calls; verify the object instead, as in 'FILE.py:NAME'"
        ) from error
    finally:
        interpreter.converter = before
    notes = [note for note in converter.notes if hasattr(reader, "KINDS") and note not in graph.notes]
    return replace(graph, notes=(*graph.notes, *notes, *interpreter.not_followed))


# --- folders

MOST_BYTES = 1_000_000  # of one file
MOST_PROCESSES = 4
SECONDS = 25.0  # for one file
_SKIPPED = {"__pycache__", "node_modules", "site-packages", "dist-packages"}
_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")
_IMPORT = rb"(?m)^[^\n#'\"]*?\b(?:from|import)[ \t]+(?:[\w., \t]*,[ \t]*)?(?:%s)\b"


def graphs_of_folder(folder: Path, *, seconds: float = SECONDS) -> GraphListing:
    """Returns the graphs of all workflows in the Python files of a folder.

    Args:
        folder: the folder; hidden folders, caches and virtual environments in it are skipped.
        seconds: the time limit for each file.
    """
    unread: list[UnreadPlace] = []
    files = [path for path in python_files(folder) if _is_relevant(path, unread)]
    graph_listings = _read_all(files, seconds)
    own = {_absolute(path) for path in files}
    # A workflow that a file only imports is listed with the file that defines it.
    kept = [workflow for path, listing in zip(files, graph_listings, strict=True) for workflow in listing.workflows
            if workflow.file == str(path) or _absolute(workflow.file) not in own]  # fmt: skip
    unread += [unread_place for listing in graph_listings for unread_place in listing.unread]
    return GraphListing(
        str(folder),
        tuple(kept),
        tuple(sorted(unread, key=lambda unread_place: (unread_place.file, unread_place.line))),
        is_folder=True,
    )


def _absolute(path: Path | str) -> str:
    return os.path.abspath(path)  # noqa: PTH100 - links stay as they are, as in the interpreter


def python_files(folder: Path) -> Iterator[Path]:
    """Yields the Python files of a folder, in order."""
    for place, folders, files in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(name for name in folders if not _is_skipped(here / name))
        yield from (here / name for name in sorted(files) if name.endswith(".py") and not (here / name).is_symlink())


def _is_skipped(folder: Path) -> bool:
    name = folder.name
    return (
        name.startswith(".")
        or name in _SKIPPED
        or any((folder / environment).exists() for environment in _ENVIRONMENTS)
    )


def _is_relevant(path: Path, unread: list[UnreadPlace]) -> bool:
    """Whether to read a file: it imports a framework that can be read; if it cannot, notes that."""
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            unread.append(UnreadPlace(str(path), 1, f"has {size:,} bytes; at most {MOST_BYTES:,} are read"))
            return False
        content = path.read_bytes()
    except OSError as error:
        unread.append(UnreadPlace(str(path), 1, f"cannot be read: {error.strerror or error}"))
        return False
    readable, others = _patterns()
    for name, pattern in others:
        if match := pattern.search(content):
            line = content.count(b"\n", 0, match.end()) + 1
            reason = f"workflows of {name} cannot be read from source; verify the object, as in '{path}:NAME'"
            unread.append(UnreadPlace(str(path), line, reason))
    return readable.search(content) is not None


@cache
def _patterns() -> tuple[re.Pattern[bytes], list[tuple[str, re.Pattern[bytes]]]]:
    """Returns a pattern of imports of the frameworks whose source is read, and one for each other framework."""
    known = [framework for _, framework in FRAMEWORKS.load_all()]
    readable = _pattern(*(name for framework in known for name in framework.PACKAGES))
    return readable, [
        (framework.FRAMEWORK, _pattern(*framework.OBJECTS))
        for framework in known
        if framework.OBJECTS and not framework.PACKAGES
    ]


def _pattern(*names: str) -> re.Pattern[bytes]:
    return re.compile(_IMPORT % "|".join(map(re.escape, names)).encode())


def _read_all(files: list[Path], seconds: float) -> list[GraphListing]:
    count = min(MOST_PROCESSES, os.cpu_count() or 1, len(files))
    if not count:
        return []
    idle: SimpleQueue[SourceReading] = SimpleQueue()
    workers = [SourceReading(seconds) for _ in range(count)]
    for worker in workers:
        idle.put(worker)

    def read(path: Path) -> GraphListing:
        worker = idle.get()
        try:
            return worker.read(path)
        finally:
            idle.put(worker)

    try:
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(read, files))
    finally:
        for worker in workers:
            worker.close()


class SourceReading:
    """A process that reads files one after another; started at the first file, and again after a failure."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, path: Path) -> GraphListing:
        """Returns the workflows of a file; if the process ends or takes too long, an entry that says so."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        too_long = threading.Event()

        def stop() -> None:
            too_long.set()
            process.kill()

        timer = threading.Timer(self._seconds, stop)
        timer.start()
        try:
            process.stdin.write(json.dumps(str(path)).encode() + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:
            answer = b""
        finally:
            timer.cancel()
        if answer.endswith(b"\n"):
            return _listing(path, json.loads(answer))
        self.close()
        why = f"took longer than {self._seconds:g} seconds" if too_long.is_set() else "ended its process"
        return GraphListing(str(path), (), (UnreadPlace(str(path), 1, f"reading it {why}"),))

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command = [sys.executable, "-m", "guardagent.workflow.python_source.source_graphs"]
            self._process = subprocess.Popen(  # noqa: S603 - a module of this package
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            assert self._process.stdout is not None
            self._process.stdout.readline()  # it is ready: its start does not count
        return self._process

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _listing(path: Path, answer: dict[str, list[dict[str, object]]]) -> GraphListing:
    graphs = [
        WorkflowGraph(**{**workflow, "graph": graph_of(workflow["graph"], path)})  # type: ignore[arg-type]
        for workflow in answer["workflows"]
    ]
    return GraphListing(str(path), tuple(graphs), tuple(UnreadPlace(**place) for place in answer["unread"]))  # type: ignore[arg-type]


def main() -> None:
    """Answers until standard input ends."""
    output = sys.stdout
    sys.stdout = sys.stderr  # only answers go there
    output.write("ready\n")
    output.flush()
    for line in sys.stdin:
        output.write(json.dumps(_answer(read(Path(json.loads(line)))), default=str) + "\n")
        output.flush()


def read(path: Path) -> GraphListing:
    """Returns the workflows of a file; none is not an error, and an error is an unread place."""
    try:
        return graphs_of_source(path, always_named=True)
    except NoWorkflowError:
        return GraphListing(str(path), ())
    except ContentError as error:
        line, _, reason = str(error).removeprefix(f"{path}:").partition(": ")
        return _unread_listing(path, int(line) if line.isdecimal() else 1, reason)
    except GuardError as error:
        return _unread_listing(path, 1, str(error).removeprefix(f"{path}: "))
    except Exception as error:  # noqa: BLE001 - one file of many must not end the others
        return _unread_listing(path, 1, f"its source could not be interpreted: {error_text(error)}")


def _unread_listing(path: Path, line: int, reason: str) -> GraphListing:
    return GraphListing(str(path), (), (UnreadPlace(str(path), line, reason),))


def _answer(graph_listing: GraphListing) -> dict[str, Any]:
    workflows = [
        {"name": workflow.name, "file": workflow.file, "line": workflow.line, "graph": workflow.graph.to_dict()}
        for workflow in graph_listing.workflows
    ]
    return {"workflows": workflows, "unread": [unread_place.to_dict() for unread_place in graph_listing.unread]}


if __name__ == "__main__":
    main()
