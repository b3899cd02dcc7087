"""The measures of `benchmarks/house.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.house import FileCount, count_files, count_rooms, only_children, protocol_implementers

SOURCE = '''"""Rows.

A docstring of several lines.
"""

from typing import (
    Protocol,
)

TEXT = """
# no comment

"""


class Store(Protocol):
    # A comment.
    name: str

    def rows(self) -> list[str]: ...


class Memory:
    def __init__(self) -> None:
        self.name = "memory"  # set here

    def rows(self) -> list[str]:
        """Returns rows."""
        return []


class Cached(Memory): ...
'''


@pytest.fixture
def files(tmp_path: Path) -> list[FileCount]:
    (tmp_path / "guardagent" / "log").mkdir(parents=True)
    (tmp_path / "guardagent" / "log" / "rows.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "guardagent" / "errors.py").write_text("", encoding="utf-8")
    return count_files(tmp_path)


def test_blank_lines_comments_and_docstrings_are_no_code(files: list[FileCount]) -> None:
    """Comments within strings are; files beside the folders are the room `root`."""
    rooms = count_rooms(files)
    assert {room: (count.files, count.code, count.functions) for room, count in rooms.items()} == {
        "log": (1, 15, 3),
        "root": (1, 0, 0),
    }
    assert rooms["log"].import_share == 0.2


def test_a_child_of_an_implementer_is_no_second_one(files: list[FileCount]) -> None:
    """Attributes that a class sets on `self` count as its members."""
    classes = [summary for file in files for summary in file.classes]
    assert only_children(classes) == {"Memory": "Cached"}
    assert protocol_implementers(classes) == [("Store", ["Memory"])]
