"""An interrupted run goes on where it stopped."""

from __future__ import annotations

import contextlib
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from guardagent.bench import Evaluation, judge_all
from guardagent.bench.results import Results, describe, is_silent, measure_generated
from guardagent.errors import ContentError, InputError
from guardagent.programs.memory.retrieval import Demonstration
from guardagent.types import Decision, Message, Step, Usage, Verdict, unchecked_verdict

from .fakes import Oracle, allow, deny, example

EXAMPLES = [example(name, label) for name, label in (("a", 1), ("b", 0), ("c", 1), ("d", 0))]


def verdict(text: str) -> Verdict:
    return deny(rule="r") if text.endswith(("a", "c")) else allow("yes")


def interrupted(text: str) -> Verdict:
    if text == "input c":
        raise KeyboardInterrupt
    return verdict(text)


@pytest.fixture
def stopped(small: Evaluation, tmp_path: Path) -> Path:
    """A folder's results after an interrupt at the third row, which left a torn line."""
    path = tmp_path / "results.jsonl"
    with pytest.raises(KeyboardInterrupt):
        judge_all(small, EXAMPLES, Oracle(interrupted), Results(path), "setup")
    with path.open("ab") as file:
        file.write('{"id": "c", "answer": "caf\u00e9'.encode()[:-1])
    return path


def test_resumed_equals_uninterrupted(small: Evaluation, stopped: Path, tmp_path: Path) -> None:
    """The same file comes out, and no row is judged twice."""
    rest = Oracle(verdict)
    judge_all(small, EXAMPLES, rest, Results(stopped), "setup")
    judge_all(small, EXAMPLES, Oracle(verdict), Results(tmp_path / "whole.jsonl"), "setup")
    assert rest.inputs == ["input c", "input d"]
    assert stopped.read_text() == (tmp_path / "whole.jsonl").read_text()


def test_a_swallowed_interrupt_still_stops(small: Evaluation, tmp_path: Path) -> None:
    """An engine that catches Ctrl-C does not go on, and what it made of it is not kept."""

    def swallow(text: str) -> Verdict:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return unchecked_verdict("interrupted")

    with pytest.raises(KeyboardInterrupt):
        judge_all(small, EXAMPLES, Oracle(swallow), Results(tmp_path / "results.jsonl"), "setup")
    assert (tmp_path / "results.jsonl").read_text() == ""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_one_run_writes_at_a_time(small: Evaluation, tmp_path: Path) -> None:
    """A second one is refused while the first judges, and asks nobody."""

    def meanwhile(_: str) -> Verdict:
        with pytest.raises(InputError, match="another run is writing to it"):
            Results(tmp_path / "results.jsonl")
        return allow("yes")

    assert len(judge_all(small, EXAMPLES, Oracle(meanwhile), Results(tmp_path / "results.jsonl"), "setup")) == 4


def test_half_a_character_is_kept(small: Evaluation, tmp_path: Path) -> None:
    """An answer that is no text in UTF-8 ends no run, and is the same when it is read again."""
    path, nobody = tmp_path / "results.jsonl", Oracle(verdict)
    (row,) = judge_all(small, EXAMPLES[:1], Oracle(lambda _: allow("half \ud83d")), Results(path), "setup")
    assert judge_all(small, EXAMPLES[:1], nobody, Results(path), "setup") == [row]
    assert (row["answer"], nobody.inputs) == ("half \ud83d", [])


def test_what_changed_is_judged_anew(small: Evaluation, stopped: Path) -> None:
    """Another example text or another guard makes an old row worthless; the order is that of the data."""
    changed = [EXAMPLES[1], example("a", 1, output="other"), EXAMPLES[2]]
    again = Oracle(verdict)
    judge_all(small, changed, again, Results(stopped), "setup")
    assert again.inputs == ["input a", "input c"]
    assert [json.loads(line)["id"] for line in stopped.read_text().splitlines()] == ["b", "a", "c"]
    other_guard = Oracle(verdict)
    judge_all(small, changed, other_guard, Results(stopped), "other setup")
    assert len(other_guard.inputs) == 3


def test_errors_are_tried_again_where_a_model_decides(small: Evaluation, tmp_path: Path) -> None:
    """A model that failed may answer now; a program that failed will fail again."""
    path = tmp_path / "results.jsonl"
    judge_all(small, EXAMPLES[:1], Oracle(lambda _: unchecked_verdict("no model")), Results(path), "setup")
    program, model = Oracle(verdict), Oracle(verdict)
    judge_all(small, EXAMPLES[:1], program, Results(path), "setup")
    judge_all(small, EXAMPLES[:1], model, Results(path, retry_errors=True), "setup")
    assert (program.inputs, model.inputs) == ([], ["input a"])


def test_foreign_results_are_not_overwritten(tmp_path: Path) -> None:
    """A results.jsonl of something else is an error, and stays as it is."""
    path = tmp_path / "results.jsonl"
    path.write_text('{"score": 1}\n{"score": 2}')
    with pytest.raises(ContentError, match=r"results\.jsonl:1: is not a row of an evaluation"):
        Results(path)
    assert path.read_text() == '{"score": 1}\n{"score": 2}'


# --- rows record the generation of a verdict, and metrics count it


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
        ((Step("plan", prompt=PROMPT, text="no steps", error="is not a plan"),), "no code"),
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
    second = Step("plan", prompt=PROMPT, text="x", error="is not a plan", vote=1)
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
