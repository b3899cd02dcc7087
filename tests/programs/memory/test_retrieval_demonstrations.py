from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent import GuardAgent, Memory

RUNS = [
    (agent, number)
    for agent in ("ehragent", "seeact", "csqa")
    for number in range(len(Memory().agent(agent).demonstrations))
]


@pytest.mark.parametrize(("agent", "number"), RUNS)
def test_the_code_of_a_demonstration_runs_and_agrees_with_the_program(
    agent: str, number: int, agent_folder: Callable[..., Path]
) -> None:
    """A model learns from it, so it must be a right program for its own run."""
    run = Memory().agent(agent).demonstrations[number]
    memory = agent_folder(program=run.code, name="one")
    own = GuardAgent(agent="one", memory=memory, mode="program").guard(run.agent_input, run.agent_output)
    shipped = GuardAgent(agent=agent, mode="program").guard(run.agent_input, run.agent_output)
    assert (own.label, own.answer, own.errors) == (shipped.label, shipped.answer, ())
    for key in ("inaccessible", "violated_rules"):
        assert own.details.get(key) == shipped.details.get(key)
