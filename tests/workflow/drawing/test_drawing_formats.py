"""The formats of a graph are the files of their package; its JSON is read again as the same graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent.errors import UnknownNameError
from guardagent.workflow import drawing
from guardagent.workflow.drawing import FORMATS, draw
from guardagent.workflow.model.read_graph import read_graph
from tests.workflow.samples import hostile, support


def test_a_format_is_a_file() -> None:
    """Those without a leading underscore."""
    files = Path(drawing.__file__).parent.glob("[a-z]*.py")
    assert set(FORMATS) == {file.stem for file in files} == {"dot", "json", "mermaid", "svg"}


@pytest.mark.parametrize("form", list(FORMATS))
def test_every_format_draws_any_names(form: str) -> None:
    """As text that can be written to a file."""
    assert draw(hostile(), form).encode()


def test_another_format_is_an_error_with_the_nearest_name() -> None:
    """It says which there are."""
    with pytest.raises(UnknownNameError, match=r"unknown graph format 'svgs'; did you mean 'svg'\?"):
        draw(support(), "svgs")


def test_json_is_read_as_the_same_graph(tmp_path: Path) -> None:
    """With everything that is known of its nodes and edges."""
    path = tmp_path / "graph.json"
    path.write_text(draw(support(), "json"))
    assert read_graph(path).digest == support().digest
