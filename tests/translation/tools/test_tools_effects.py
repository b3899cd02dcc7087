"""Tools that change something."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from guardagent.translation.tools import ToolSchema, is_reading, read_tools, writing_tools


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("get_order", True),
        ("searchFlights", True),
        ("orders.list", True),
        ("shop__lookup-user", True),
        ("HTTPGet", False),
        ("getaway_booking", False),
        ("update_status", False),
        ("x", False),
        ("___", False),
    ],
)
def test_a_verb_at_the_beginning_tells(name: str, reads: bool) -> None:
    assert is_reading(ToolSchema(name, "", {})) is reads


def test_the_author_of_a_tool_knows_better() -> None:
    """In JSON, and in objects."""
    schema = {"type": "object"}
    tools: list[dict[str, Any]] = [
        {"name": "get_and_delete", "inputSchema": schema, "annotations": {"readOnlyHint": False}},
        {"name": "balance", "inputSchema": schema, "annotations": {"readOnlyHint": True}},
        {"name": "refund", "inputSchema": schema, "annotations": {"title": "Refund"}},
    ]
    objects = [SimpleNamespace(**{**tool, "annotations": SimpleNamespace(**tool["annotations"])}) for tool in tools]
    for specs in (read_tools(tools), read_tools(objects)):
        assert [writing_tool.name for writing_tool in writing_tools(specs)] == ["get_and_delete", "refund"]
