"""Source locations: the file and line of the definition of a node, as its extractor found them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from guardagent.workflow.analysis.report import Report
from guardagent.workflow.model.graph import Node

_TARGET_FILE = re.compile(r"(?P<file>.+\.(?:py|json))(?::[\w.]+)?")


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A line of a file; line 1 if only the file is known."""

    file: str
    line: int = 1

    @property
    def inside(self) -> bool:
        """Whether the file is below the working directory, so that its name is valid on another machine."""
        return not Path(self.file).is_absolute()

    @property
    def uri(self) -> str:
        path = quote(self.file, errors="replace")
        return path if self.inside else f"file://{path}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def location_of(node: Node | None) -> SourceLocation | None:
    """Returns the definition of a node; a file below the working directory is relative to it."""
    if node is None:
        return None
    file, line = node.metadata.get("file"), node.metadata.get("line")
    if not isinstance(file, str) or not file or "\0" in file:
        return None
    return SourceLocation(relative_file(file), line if isinstance(line, int) and line is not True and line > 0 else 1)


class SourceLocations:
    """Source locations for reports, which need a file even for nodes without one."""

    def __init__(self, report: Report) -> None:
        self._default = _target(report.target) or _first(report.graph.nodes)

    def of(self, node: Node | None) -> SourceLocation | None:
        """Returns the location of a node; else the file of the target, else the first location of any node."""
        return location_of(node) or self._default


def _first(nodes: Iterable[Node | None]) -> SourceLocation | None:
    return next((place for place in map(location_of, nodes) if place), None)


def _target(target: str) -> SourceLocation | None:
    found = _TARGET_FILE.fullmatch(target)
    return SourceLocation(relative_file(found["file"])) if found else None


def relative_file(file: str) -> str:
    """Returns a file below the working directory relative to it, and any other as an absolute path."""
    try:
        whole = os.path.abspath(file)  # noqa: PTH100 - `..` is resolved, and links are not
        for path, root in ((Path(whole), Path.cwd()), (Path(whole).resolve(), Path.cwd().resolve())):
            if path.is_relative_to(root):
                return path.relative_to(root).as_posix()
    except (ValueError, OSError):
        return file
    return Path(whole).as_posix()
