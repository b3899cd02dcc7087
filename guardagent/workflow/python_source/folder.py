"""Reads the workflows of all Python files of a folder, without importing or running them.

A few processes read the files (`source_worker.py`), so that one that takes too long or breaks its process costs no
other. A file whose imports name no framework is passed over without a parser.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from queue import SimpleQueue

from guardagent.workflow.extraction.registry import FRAMEWORKS
from guardagent.workflow.model.graph_json import graph_of
from guardagent.workflow.model.listing import GraphListing, UnreadPlace, WorkflowGraph

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
    found = _read_all(files, seconds)
    own = {_absolute(path) for path in files}
    # A workflow that a file only imports is listed with the file that defines it.
    kept = [one for path, listing in zip(files, found, strict=True) for one in listing.workflows
            if one.file == str(path) or _absolute(one.file) not in own]  # fmt: skip
    unread += [one for listing in found for one in listing.unread]
    return GraphListing(
        str(folder), tuple(kept), tuple(sorted(unread, key=lambda one: (one.file, one.line))), is_folder=True
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
    return name.startswith(".") or name in _SKIPPED or any((folder / one).exists() for one in _ENVIRONMENTS)


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
        if found := pattern.search(content):
            line = content.count(b"\n", 0, found.end()) + 1
            reason = f"workflows of {name} cannot be read from source; verify the object, as in '{path}:NAME'"
            unread.append(UnreadPlace(str(path), line, reason))
    return readable.search(content) is not None


@cache
def _patterns() -> tuple[re.Pattern[bytes], list[tuple[str, re.Pattern[bytes]]]]:
    """Returns a pattern of imports of the frameworks whose source is read, and one for each other framework."""
    known = [one for _, one in FRAMEWORKS.load_all()]
    readable = _pattern(*(name for one in known for name in one.PACKAGES))
    return readable, [(one.FRAMEWORK, _pattern(*one.OBJECTS)) for one in known if one.OBJECTS and not one.PACKAGES]


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
            command = [sys.executable, "-m", "guardagent.workflow.python_source.source_worker"]
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
    graphs = [WorkflowGraph(**{**one, "graph": graph_of(one["graph"], path)}) for one in answer["workflows"]]  # type: ignore[arg-type]
    return GraphListing(str(path), tuple(graphs), tuple(UnreadPlace(**one) for one in answer["unread"]))  # type: ignore[arg-type]
