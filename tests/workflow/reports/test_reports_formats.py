"""The formats of a report."""

from __future__ import annotations

import io
import json

import pytest

from guardagent.errors import UnknownNameError
from guardagent.workflow.analysis.report import Report
from guardagent.workflow.model.graph import GraphBuilder
from guardagent.workflow.reports import FORMATS, render_all, show_all
from tests.workflow.samples import alone, hostile_report, support_report


def test_the_formats() -> None:
    """None of these may go."""
    assert {"github", "html", "json", "sarif", "text"} <= {*FORMATS}


@pytest.mark.parametrize("form", list(FORMATS))
def test_every_format_renders_any_name(form: str) -> None:
    """The output can be written to a file."""
    assert render_all(alone(hostile_report()), form).encode()


@pytest.mark.parametrize("form", list(FORMATS))
def test_a_report_without_findings(form: str) -> None:
    """The graph is only an entry and an exit."""
    assert render_all(alone(Report("empty", GraphBuilder("empty", "test").graph(), (), (), ())), form)


def test_another_format_is_an_error_with_the_nearest_name() -> None:
    """The message lists the formats."""
    with pytest.raises(UnknownNameError, match=r"unknown report format 'htm'; did you mean 'html'\?"):
        render_all(alone(support_report()), "htm")


def test_json_is_the_report_in_the_public_key_order() -> None:
    """The output is one object."""
    content = json.loads(render_all(alone(support_report()), "json"))
    assert list(content) == "target framework graph_hash passed unknown findings rules notes".split()
    assert content["findings"][0]["witness"] == ["__start__", "classify", "route", "refund"]


def test_a_format_without_show_is_written_as_rendered() -> None:
    """The output ends with one line break."""
    stream = io.StringIO()
    show_all(alone(support_report()), "json", stream)
    assert stream.getvalue() == render_all(alone(support_report()), "json") + "\n"
