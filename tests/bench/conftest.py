"""A small evaluation."""

from __future__ import annotations

import pytest

from guardagent.bench import Evaluation


@pytest.fixture
def small() -> Evaluation:
    """A run's answer is its log; a denial must say why: `rule`."""
    return Evaluation(
        agent="porter",
        load=lambda _: [],
        explained=lambda verdict, example: verdict.details.get("rule") == example.truth["rule"],
        answered=lambda answer, example: answer == example.truth["answer"],
        run_answer=lambda example: example.agent_output,
        groups=lambda example: {"shift": str(example.truth["shift"])},
    )
