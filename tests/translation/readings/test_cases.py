"""The reading of cases, against a scripted server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from guardagent.errors import AnswerError
from guardagent.models import load_model
from guardagent.models.metering import Meter
from guardagent.models.prompts import Prompts
from guardagent.translation.drafting import read_draft
from guardagent.translation.readings.cases import CaseReader
from guardagent.translation.requests import ModelRequests
from tests.models.conftest import Serve, serve
from tests.translation.library import DRAFT, block, context, translator

__all__ = ["serve"]

FIRST = read_draft(block(DRAFT), (4, 5), 6).rules[:1]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("cases: [{case: 1, verdict: fine}, {case: 3, verdict: against}]\n", "missing: 2"),
        ("cases: [{case: 1, verdict: fine}, {case: 2, verdict: fine}, {case: 4, verdict: fine}]\n", "not asked for: 4"),
        (
            "cases: [" + "{case: 1, verdict: fine}, {case: 1, verdict: against}, " + "{case: 2, verdict: fine}]\n",
            "twice: 1",
        ),
        ("cases: [{case: 1, verdict: denied}]\n", "is \"denied\"; expected one of 'fine'"),
    ],
)
def test_each_case_has_one_verdict(serve: Serve, tmp_path: Path, answer: str, problem: str) -> None:
    """Of two verdicts about a case, none counts. The model gets one more attempt."""
    server = serve(translator(read=answer))
    reader = CaseReader(context(tmp_path), ModelRequests(Meter(load_model("openai/test")), Prompts()))
    with pytest.raises(AnswerError, match=problem):
        reader.read(FIRST, {})
    assert problem in server.requests[1]["messages"][-1]["content"]


def test_the_lengths_of_long_strings_are_stated(serve: Serve, tmp_path: Path) -> None:
    server = serve(translator(read="cases: [{case: 1, verdict: fine}]\n"))
    case = {"id": "a", "proposed": {"tool": "lend", "args": {"note": 'x"\n' * 100, "title": "y"}}, "label": 0}
    reader = CaseReader(context(tmp_path), ModelRequests(Meter(load_model("openai/test")), Prompts()))
    reader.read([replace(FIRST[0], cases=(case,))], {})
    assert "(characters of its long strings: 300)" in server.requests[0]["messages"][-1]["content"]
