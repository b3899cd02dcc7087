"""The names that users write are on the pages of their kinds."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from guardagent.batch.report import formats
from guardagent.models import BACKENDS
from guardagent.policy.functions import rule_functions
from guardagent.workflow import drawing, reports
from guardagent.workflow.analysis.checks import CHECKS
from tests.docs.test_docs import ROOT


@pytest.mark.parametrize(
    ("page", "form", "names"),
    [
        ("language", "{}(", [*filter(str.isidentifier, rule_functions())]),
        ("models", "{}", BACKENDS.shipped()),
        ("verify", "`{}`", (*CHECKS.shipped(), *reports.FORMATS.shipped(), *drawing.FORMATS.shipped())),
        ("commands/report", "{}", formats.FORMATS.shipped()),
    ],
)
def test_each_name_is_on_its_page(page: str, form: str, names: Iterable[str]) -> None:
    """The page of a command has them from the help of its option."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert [name for name in names if form.format(name) not in text] == []
