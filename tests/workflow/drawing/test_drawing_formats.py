"""The formats of a graph; its JSON is read again as the same graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent.errors import UnknownNameError
from guardagent.workflow.drawing import FORMATS, draw
from guardagent.workflow.model.graph_json import read_graph
from tests.workflow.samples import hostile, support


def test_the_formats() -> None:
    """None of these may go."""
    assert {"dot", "html", "json", "mermaid", "svg"} <= {*FORMATS}


@pytest.mark.parametrize("form", list(FORMATS))
def test_every_format_draws_any_names(form: str) -> None:
    """The output can be written to a file."""
    assert draw(hostile(), form).encode()


def test_another_format_is_an_error_with_the_nearest_name() -> None:
    """The message lists the formats."""
    with pytest.raises(UnknownNameError, match=r"unknown graph format 'svgs'; did you mean 'svg'\?"):
        draw(support(), "svgs")


def test_json_is_read_as_the_same_graph(tmp_path: Path) -> None:
    """All fields of nodes and edges survive."""
    path = tmp_path / "graph.json"
    path.write_text(draw(support(), "json"))
    assert read_graph(path).digest == support().digest
