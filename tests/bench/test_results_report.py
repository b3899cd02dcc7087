"""Rows record the generation of a verdict, and metrics count it."""

from __future__ import annotations

from typing import Any

import pytest

from guardagent.bench.generation import describe, is_silent, measure_generated
from guardagent.programs.memory.agents import Demonstration
from guardagent.types import Decision, Message, Step, Usage, Verdict, unchecked_verdict

PROMPT = (Message("user", "four words to read"),)
PLAN = Step("plan", prompt=PROMPT, text="a plan")
CODE = Step("code", prompt=PROMPT, text="the code")
RAN = Step("run", text="the code")


def row(*story: Step, usage: Usage | None = None, **values: Any) -> dict[str, Any]:
    verdict = Verdict(Decision.DENY, story=story, usage=usage or Usage(calls=1))
    return {"generated": describe(verdict), "elapsed_ms": 2000.0, **values}


def measured(*rows: dict[str, Any]) -> dict[str, Any]:
    measured = measure_generated(rows)
    assert measured is not None
    return measured


@pytest.mark.parametrize(
    ("story", "kind"),
    [
        ((Step("plan", prompt=PROMPT, text="no steps", error="is no plan"),), "no code"),
        ((PLAN, Step("code", prompt=PROMPT, error="unreachable")), "no code"),
        ((PLAN, Step("code", prompt=PROMPT, text="sorry", error="no program", kind="no program")), "no program"),
        ((PLAN, CODE, Step("run", text="the code", error="no engine works here")), "other"),
    ],
)
def test_what_did_not_run_is_not_executable(story: tuple[Step, ...], kind: str) -> None:
    """Whatever the reason, the example counts: one of two ran."""
    metrics = measured(row(*story), row(PLAN, CODE, RAN))
    assert metrics["executable"] == {"before": 50.0, "after": 50.0}
    assert metrics["errors"] == {kind: {"examples": 1, "solved": 0}}


def test_each_vote_counts() -> None:
    """Two plans of one run, of which one has code that ran."""
    second = Step("plan", prompt=PROMPT, text="x", error="is no plan", vote=1)
    assert measured(row(PLAN, CODE, RAN, second))["executable"] == {"before": 50.0, "after": 50.0}


def test_a_cached_answer_says_nothing_of_time_and_cost() -> None:
    """A cached answer has words but no time and cost."""
    uncached, cached = row(PLAN, usage=Usage(2, cost=0.5)), row(PLAN, usage=Usage(2, 1), elapsed_ms=1.0)
    metrics = measured(uncached, cached)
    per_check = metrics["per_check"]
    assert (metrics["cached"], per_check["seconds"], per_check["US dollars"]) == (1, 2.0, 0.5)
    assert (per_check["words of a prompt"], per_check["words of the answers"]) == (4.0, 2.0)


def test_silence_is_no_answer_without_code() -> None:
    """Of three judgements, one is code and one is missing."""
    code = "```python\ndef check(agent_input, agent_output, facts):\n    return {}\n```"
    texts = (code, '{"label": 0}', "")
    assert measured(*(row(Step("judge", prompt=PROMPT, text=text)) for text in texts))["code_written"] == 50.0


def test_a_demonstration_may_hold_any_character() -> None:
    """A separator that Python takes for the end of a line is none in JSON Lines."""
    shown = Demonstration("one\u2028two", "three\x85four", ("5", "6", "7", "8"), "nine")
    description = describe(Verdict(Decision.ALLOW, story=(Step("retrieve", text=shown.to_json()), PLAN)))
    assert description is not None
    assert description["words"]["demonstration"] == 9


def test_a_model_is_silent_where_it_gave_nothing_at_all() -> None:
    """A wrong answer is no silence, and neither is a program's error, for which no model is asked."""
    assert is_silent(unchecked_verdict("e", story=(Step("plan", prompt=PROMPT, error="e"),)))
    assert not is_silent(unchecked_verdict("e", story=(PLAN, Step("code", prompt=PROMPT, error="e"))))
    assert not is_silent(unchecked_verdict("e"))


def test_rows_of_a_program_and_old_rows_have_nothing_to_tell() -> None:
    """Rows without a model are left out."""
    assert measure_generated([{"generated": None}, {}]) is None
