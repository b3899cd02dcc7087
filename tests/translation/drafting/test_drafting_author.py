"""Authors of drafts, against a scripted server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from guardagent.models import load_model
from guardagent.models.metering import Meter, ResponseCache
from guardagent.models.prompts import Prompts
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafting import DraftAuthor, usable_part
from guardagent.translation.drafts import Draft, Problem
from guardagent.translation.requests import ModelRequests
from tests.models.conftest import Serve, serve
from tests.models.server import text
from tests.translation.library import DRAFT, block, context, translator

__all__ = ["serve"]

WRONG = DRAFT.replace("n < 5", "n < 6")


def limit_problem(draft: Draft, _: TranslationContext) -> Iterator[Problem]:
    """Finds the limit of six books."""
    for rule in draft.rules:
        if "< 6" in rule.rule["temporal"]:
            yield Problem("case", "allows the sixth book", rule.id, fatal=True)


def author(folder: Path, *, cache: ResponseCache | None = None, limit: int | None = None) -> DraftAuthor:
    model = ModelRequests(Meter(load_model("openai/test"), cache=cache), Prompts())
    model.limit = limit
    return DraftAuthor("draft", context(folder), model, limit_problem)


def test_problems_go_back_to_the_model(serve: Serve, tmp_path: Path) -> None:
    server = serve(translator(draft=lambda user: DRAFT if "allows the sixth book" in user else WRONG))
    result = author(tmp_path).draft((4, 5))
    assert usable_part(result) == result.draft
    assert not result.problems
    user = server.requests[1]["messages"][-1]["content"]
    assert "1. rule loan_limit: allows the sixth book" in user
    assert "forall(lend(loans=n), n < 6)" in user, "the model sees its last answer"


def test_a_problem_that_stays_is_kept(serve: Serve, tmp_path: Path) -> None:
    server = serve(translator(draft=WRONG))
    result = author(tmp_path).draft((4, 5))
    assert [problem.message for problem in result.problems] == ["allows the sixth book"]
    assert len(server.requests) == 3
    part = usable_part(result)
    assert part is not None
    assert ([rule.id for rule in part.rules], part.sentences) == (["card_checked"], (5,))


def test_an_author_who_insists_gets_no_second_request(serve: Serve, tmp_path: Path) -> None:
    """On what is not fatal: the reviewer sees it."""
    server = serve(translator(draft=WRONG))
    model = ModelRequests(Meter(load_model("openai/test")), Prompts())

    def harmless(draft: Draft, inputs: TranslationContext) -> Iterator[Problem]:
        return (replace(problem, fatal=False) for problem in limit_problem(draft, inputs))

    result = DraftAuthor("draft", context(tmp_path), model, harmless).draft((4, 5))
    assert len(result.problems) == 1
    assert len(server.requests) == 2


def test_a_worse_correction_is_not_taken(serve: Serve, tmp_path: Path) -> None:
    both = WRONG.replace('temporal: "before(lend', 'temporal: "forall(lend(loans=n), n < 6) AND before(lend')
    serve(translator(draft=lambda user: both if "sixth" in user else WRONG))
    assert len(author(tmp_path).draft((4, 5)).problems) == 1


def test_repairs_end_with_the_limit_of_calls(serve: Serve, tmp_path: Path) -> None:
    server = serve(translator(draft=WRONG))
    result = author(tmp_path, limit=1).draft((4, 5))
    assert result.error == "the limit of 1 model calls is reached"
    assert result.problems
    assert len(server.requests) == 1


def test_prose_leads_to_another_request_and_is_not_cached(serve: Serve, tmp_path: Path) -> None:
    """A later run asks anew; answers that could be read are not paid for twice."""
    server = serve([text("I refuse."), text("No."), text(block(DRAFT))])
    cache = ResponseCache(tmp_path / "cache")
    result = author(tmp_path, cache=cache).draft((4, 5))
    assert result.draft is None
    assert "no ```yaml block" in result.error
    assert usable_part(author(tmp_path, cache=cache).draft((4, 5)))
    assert usable_part(author(tmp_path, cache=cache).draft((4, 5)))
    assert len(server.requests) == 3
