"""The survey, against a scripted server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from guardagent.models import load_model
from guardagent.models.metering import Meter
from guardagent.models.prompts import Prompts
from guardagent.translation.requests import ModelRequests
from guardagent.translation.survey import Survey, survey
from tests.models.conftest import Serve, serve
from tests.translation.library import SURVEY, context, sentences_of, translator

__all__ = ["serve"]


def surveyed(folder: Path, document: str | None = None) -> Survey:
    inputs = context(folder) if document is None else context(folder, document)
    model = ModelRequests(Meter(load_model("openai/test")), Prompts())
    return survey(inputs, [sentence.number for sentence in inputs.document.sentences], model)


def test_each_sentence_gets_its_fate(serve: Serve, tmp_path: Path) -> None:
    server = serve(translator())
    survey = surveyed(tmp_path)
    assert survey.numbers("rule") == (4, 5)
    assert survey.sentences[6][1] == "No call shows how warm a greeting is."
    assert survey.failed_output == "^Error"
    system, user = (message["content"] for message in server.requests[0]["messages"])
    assert "[4] A member may have at most five books on loan." in user
    assert user.index("check_card") < user.index("You sort the sentences"), "what all requests share comes first"
    assert "library" not in system


def test_an_exception_belongs_to_its_rule(serve: Serve, tmp_path: Path) -> None:
    serve(translator(survey=SURVEY.replace("number: 4, fate: rule", "number: 4, fate: rule, belongs_to: [5]")))
    assert surveyed(tmp_path).belongs_to == {4: (5,)}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("Certainly! All is well.", "no ```yaml block"),
        ("sentences: []\n", "missing: 1, 2, 3, 4, 5, 6"),
        (SURVEY + "  - {number: 7, fate: rule}\n", "'  - '|not readable"),
        (SURVEY.replace("number: 6", "number: 5"), "missing: 6; twice: 5"),
        (SURVEY.replace("number: 6", "number: 9"), "missing: 6; not asked for: 9"),
        (SURVEY.replace("fate: rule", "fate: rules"), "is \"rules\"; expected one of 'rule'"),
        (SURVEY.replace(', reason: "No call shows how warm a greeting is."', ""), "without a 'reason'"),
        (SURVEY.replace("number: 4, fate: rule", "number: 4, fate: implied"), "'implied_by' is"),
        (SURVEY.replace("number: 4, fate: rule", "number: 4, fate: rule, question: 'Really?'"), "'question'"),
        (SURVEY.replace("number: 4, fate: rule", "number: 4, fate: rule, belongs_to: [4]"), "'belongs_to' is [4]"),
        (SURVEY.replace("number: 4, fate: rule", "number: 4, fate: rule, belongs_to: [9]"), "'belongs_to' is [9]"),
        (SURVEY.replace("number: 4", "number: four"), "expected a whole number"),
        (SURVEY.replace("^Error", "(Error"), "not a valid regular expression"),
        ("sentences: [*x]\n", "alias"),
        ("sentences: " + "[" * 500 + "\n", "nested deeper"),
    ],
)
def test_an_unusable_answer_leaves_the_fates_open(serve: Serve, tmp_path: Path, answer: str, problem: str) -> None:
    """The model gets one more attempt, with the error."""
    server = serve(translator(survey=answer))
    survey = surveyed(tmp_path)
    assert survey.numbers("open") == (1, 2, 3, 4, 5, 6)
    (error,) = survey.errors.values()
    assert len(server.requests) == 2
    assert any(part in error for part in problem.split("|")), error
    assert error in server.requests[1]["messages"][-1]["content"]


def test_a_second_attempt_may_succeed(serve: Serve, tmp_path: Path) -> None:
    serve(translator(survey=lambda user: SURVEY if "of no use" in user else "No."))
    assert not surveyed(tmp_path).errors


def test_a_long_document_is_surveyed_in_several_requests(serve: Serve, tmp_path: Path) -> None:
    server = serve(translator(survey=fates))
    survey = surveyed(tmp_path, "\n\n".join(f"Rule {number} holds." for number in range(90)))
    assert len(survey.numbers("definition")) == 90
    assert sorted(len(sentences_of(request)[1]) for request in server.requests) == [10, 80]


def fates(user: str) -> str:
    wanted = re.search(r"<data sentences \w+>\n(.*?)\n</data", user, re.DOTALL)
    assert wanted
    numbers = wanted[1].split(", ")
    return "sentences:\n" + "".join(f"  - {{number: {number}, fate: definition}}\n" for number in numbers)
