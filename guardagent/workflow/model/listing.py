"""The workflow graphs of a file or a folder, with the places that could not be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from guardagent.errors import InputError
from guardagent.workflow.model.graph import Graph


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
            names = ", ".join(repr(one.graph.name if self.is_folder else one.name) for one in self.workflows) or "none"
            example = "FOLDER/FILE.py:NAME" if self.is_folder else f"{self.target}:NAME"
            raise InputError(
                f"{self.target}: expected one workflow, found {len(self.workflows):,}: {names}; "
                f"name one, as in '{example}' with '--source-only'"
            )
        return self.workflows[0].graph

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of all graphs, and the places that could not be read."""
        notes = dict.fromkeys(note for one in self.workflows for note in one.graph.notes)
        return (*notes, *(f"{one.file}:{one.line}: not read: {one.reason}" for one in self.unread))

    def to_dict(self) -> Mapping[str, Any]:
        """Returns one graph as it is, and several as a list."""
        if self.is_single:
            return self.single().to_dict()
        unread = {"unread": [one.to_dict() for one in self.unread]} if self.unread or self.is_folder else {}
        return {"graphs": [one.to_dict() for one in self.workflows], **unread}
