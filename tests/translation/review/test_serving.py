"""The page of a review that takes answers, over real HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from threading import Thread

import httpx
import pytest

from guardagent.policy.review import read_review, review_path
from guardagent.translation.review.dossier import ReviewStore
from guardagent.translation.review.serving import ReviewServer
from tests.translation.review.sample import translated


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ReviewServer]:
    with ReviewServer(ReviewStore(translated(tmp_path), "Ann")) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def shown(page: str) -> list[str]:
    return re.findall(r'name="shown" value="(\w+)"', page)


def answers(server: ReviewServer) -> list[tuple[str, int | None, str]]:
    review = read_review(review_path(server.store.policies))
    return [(answer.by, answer.choice, answer.words) for answer in review.answers]


def test_answers_are_taken(server: ReviewServer) -> None:
    """A choice, and then own words in its place."""
    page = httpx.get(server.address)
    assert "form-action 'self'" in page.text
    done = httpx.post(server.address, data={"shown": shown(page.text)[0], "choice": "1"})
    assert done.status_code == HTTPStatus.SEE_OTHER
    assert answers(server) == [("Ann", 1, "")]
    again = httpx.get(server.address)
    assert httpx.post(server.address, data={"shown": shown(again.text)[0], "words": "only  on Mondays"}).is_redirect
    assert answers(server) == [("Ann", None, "only on Mondays")]


@pytest.mark.parametrize(
    "form", [{"choice": "0"}, {"shown": "", "choice": "0"}, {"shown": "?", "words": " "}, {"shown": "?", "choice": "9"}]
)
def test_an_answer_without_content_or_to_another_question_is_not_taken(
    server: ReviewServer, form: dict[str, str]
) -> None:
    mark = shown(httpx.get(server.address).text)[0]
    form = {name: mark if value == "?" else value for name, value in form.items()}
    refused = httpx.post(server.address, data=form)
    assert refused.status_code == HTTPStatus.CONFLICT
    assert "Your answer was not taken" in refused.text
    assert answers(server) == []


def test_an_answer_to_a_page_that_is_old_is_not_taken(server: ReviewServer) -> None:
    mark = shown(httpx.get(server.address).text)[0]
    httpx.post(server.address, data={"shown": mark, "choice": "0"})
    assert httpx.post(server.address, data={"shown": mark, "choice": "1"}).status_code == HTTPStatus.CONFLICT
    assert answers(server) == [("Ann", 0, "")]


def test_nobody_else_gets_the_page(server: ReviewServer) -> None:
    """Neither a page of another host, by a name that leads here, nor who does not know the address."""
    root = server.address.rpartition("/")[0]
    assert httpx.get(f"{root}/").status_code == HTTPStatus.NOT_FOUND
    assert httpx.post(server.address, headers={"Host": "evil.example"}, data={}).status_code == HTTPStatus.NOT_FOUND
    assert httpx.post(server.address, content=b"a" * 200_000).status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
