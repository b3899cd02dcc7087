"""No denied call leaves a model: a tiny one with random weights, held to the grammar of calls over six tools."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from guardagent.generation.local import GeneratedTurn, guarded_generate
from guardagent.session.session import Session
from tests.generation.local import tiny

pytestmark = pytest.mark.slow
LONGEST = 14


@pytest.fixture(scope="module")
def random_model() -> tuple[Any, Any]:
    """A model that writes as Llama 3 does, several calls in a turn."""
    calls = [text.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>") for text in tiny.samples()]
    texts = [call.replace("arguments", "parameters") for call in calls]
    of = tiny.tokenizer(texts, special=["<|python_tag|>"], size=500, words=False)
    return tiny.model(of, seed=7), of


def written(random_model: tuple[Any, Any], session: Session | None, seed: int, mode: Any = "exact") -> GeneratedTurn:
    model, of = random_model
    return guarded_generate(
        model, of, [1, 2], tiny.TOOLS, session, mode=mode, tool_format="llama3", tool_choice="required",
        do_sample=True, seed=seed, max_new_tokens=LONGEST, max_total_tokens=40 * LONGEST,
    )  # fmt: skip


def test_without_a_guard_many_calls_violate(random_model: tuple[Any, Any]) -> None:
    """Of the calls of 2,000 unguarded turns, more than 30 % break the policy."""
    calls = [call for seed in range(2000) for call in written(random_model, None, seed).calls]
    violating = sum(tiny.violates((call.tool, call.args)) for call in calls)
    assert len(calls) > 2000
    assert violating > 0.3 * len(calls)


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_with_a_guard_no_call_violates(random_model: tuple[Any, Any], tmp_path: Path, mode: str) -> None:
    """Of the calls of 1,000 turns in each mode, none does; they are in flight, and nearly every turn has one."""
    rules = tiny.policies(tmp_path)
    turns = []
    for seed in range(1000):
        session = tiny.session(rules)
        turn = written(random_model, session, seed, mode)
        assert [(event.tool, event.args) for event in session.history[2:]] == [
            (call.tool, call.args) for call in turn.calls
        ]
        turns.append(turn)
    calls = [call for turn in turns for call in turn.calls]
    assert not [call for call in calls if tiny.violates((call.tool, call.args))]
    assert all(call.verdict is not None and call.verdict.label == 0 and call.permit for call in calls)
    assert sum(bool(turn.calls) for turn in turns) > 900
    assert sum(turn.backtracks for turn in turns) > 500
