"""The response cache: the same request is sent once, whatever the marks of its prompt."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from guardagent import GuardAgent, InputError
from guardagent.testing import ScriptedModel
from tests.programs.generation.answers import CODE, MISSPELT, PLAN
from tests.runs import ehr_input, ehr_log


def judge(cache: Path, model: ScriptedModel, value: str = "7.4", **options: object) -> GuardAgent:
    guard = GuardAgent(agent="ehragent", mode="generate", model=model, cache=cache, **options)  # type: ignore[arg-type]
    verdict = guard.guard(ehr_input("nursing"), ehr_log(answer=value))
    assert (verdict.label, verdict.answer) == (0, value)
    return guard


def test_the_same_request_is_sent_once(tmp_path: Path) -> None:
    """This includes debugging and redaction; another run, model or prompt is another request."""
    model = ScriptedModel([PLAN, MISSPELT, CODE, *[PLAN, CODE] * 5], prices=(1.0, 1.0))
    guard = judge(tmp_path, model, redact=r"\d{3}-\d{5}")
    verdict = guard.guard(ehr_input("nursing"), ehr_log())
    assert (verdict.label, verdict.usage.calls, verdict.usage.cached, verdict.usage.cost) == (0, 3, 3, 0.0)
    assert verdict.usage.prompt_tokens
    assert len(model.requests) == 3
    judge(tmp_path, model, "8.1")
    assert len(model.requests) == 5
    judge(tmp_path, model, shots=1)
    assert len(model.requests) == 7
    other = ScriptedModel([PLAN, CODE], name="other")
    judge(tmp_path, other)
    assert len(other.requests) == 2


def test_votes_are_separate_requests(tmp_path: Path) -> None:
    """Otherwise all votes would be equal."""
    model = ScriptedModel([PLAN, CODE] * 3)
    judge(tmp_path, model, votes=3)
    assert len(model.requests) == 6
    judge(tmp_path, ScriptedModel([]), votes=3)


def test_failures_are_not_cached(tmp_path: Path) -> None:
    """The next check sends the request again."""
    guard = GuardAgent(agent="ehragent", mode="generate", model=ScriptedModel([]), cache=tmp_path)
    assert guard.guard("a", "b").errors
    assert not list(tmp_path.rglob("*.json"))


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    """The cache contains the content of requests."""
    judge(tmp_path / "new", ScriptedModel([PLAN, CODE]))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").rglob("*")}
    assert modes == {0o700, 0o600}


@pytest.mark.parametrize("content", ["", "[]", '{"text": 5}', '{"text": "x", "usage": {"what": 1}}', "{"])
def test_a_damaged_file_is_a_denial_that_names_it(tmp_path: Path, content: str) -> None:
    """It is neither used as an answer nor ignored."""
    guard = judge(tmp_path, ScriptedModel([PLAN, CODE]))
    for file in tmp_path.rglob("*.json"):
        file.write_text(content)
    verdict = guard.guard(ehr_input("nursing"), ehr_log())
    assert verdict.label == 1
    assert "does not contain a model answer" in verdict.errors[0]


@pytest.mark.slow
def test_many_threads_may_write_the_same_answer(tmp_path: Path) -> None:
    """No reader sees a partial file."""
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(judge, tmp_path, ScriptedModel([PLAN, CODE])) for _ in range(24)]:
            done.result()
    judge(tmp_path, ScriptedModel([]))


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    """The error comes when the guard is created."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be created as a cache folder"):
        GuardAgent("Nothing secret.", cache=tmp_path / "file" / "cache")
