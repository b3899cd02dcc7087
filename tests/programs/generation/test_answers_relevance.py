"""The functions that a prompt describes, and requests of the model for others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent import GuardAgent
from guardagent.errors import AnswerError
from guardagent.programs.answers import select
from guardagent.sandbox.toolbox import Toolbox
from guardagent.testing import ScriptedModel
from tests.programs.generation.answers import PLAN, block

TOOLS = '''
def check_parcel(weight: float, limit: float) -> tuple[bool, dict[str, str]]:
    """Whether a parcel is too heavy.

    Args:
        weight: in kilograms, as on the label.
    """
    return weight > limit, {"weight": str(weight)} if weight > limit else {}


def postage(country: str) -> float:
    """What a stamp for a country costs.

    Raises:
        ValueError: no such country is served.
    """
    return 1.0


def harbour_depth(name: str) -> float:
    """How deep the water of a harbour is.

    Raises:
        ValueError: it was never measured.
    """
    return 4.0
'''
CODE = block(
    "def check(agent_input, agent_output, facts):\n    denied, why = check_parcel(1, 2)\n"
    "    return {'label': int(denied), 'answer': agent_output}"
)


@pytest.fixture
def tools(write: Callable[..., Path]) -> Path:
    return write("post.py", TOOLS)


@pytest.fixture
def toolbox(tools: Path) -> Toolbox:
    return Toolbox([tools])


def test_what_a_text_speaks_of_is_described(toolbox: Toolbox) -> None:
    """By the topic of the function, in any of the texts; a word that means nothing touches none."""
    assert select(toolbox, ["Stamps: no country may cost more than two."]).names == ("postage",)
    assert select(toolbox, ["Nothing of the kind.", "The deepest harbours are closed."]).names == ("harbour_depth",)
    assert select(toolbox, ["What is it, and how?"]).names == ()


def test_what_code_names_is_described(toolbox: Toolbox) -> None:
    """As a whole word, and whatever else it speaks of."""
    assert select(toolbox, names=["x = postage('NO')  # by harbour"]).names == ("postage",)
    assert select(toolbox, names=["postages()"]).names == ()


def test_a_check_is_never_hidden(toolbox: Toolbox) -> None:
    """Each has its summary at least."""
    data = select(toolbox, ["Water in a harbour."]).prompt_data
    assert [[tool.name for tool in data[kind]] for kind in ("tools", "brief_tools", "other_tools")] == [
        ["harbour_depth"],
        ["check_parcel"],
        ["postage"],
    ]


def test_the_same_texts_give_the_same_functions() -> None:
    """Of the shipped toolbox too, however often and in whatever order texts come."""
    request, text = "Roles may read columns of databases.", "A line `Role:` with a value."
    first = select(Toolbox.load(), [request, text])
    assert "columns_read" in first.names
    assert select(Toolbox.load(), [text, request]).names == first.names


def test_a_model_asks_for_a_function(toolbox: Toolbox) -> None:
    """By an object with this key alone; the second time it gets all, and asking for what it has is an error."""
    first = select(toolbox)
    more = first.with_requested('I need this: {"describe": ["postage"]}')
    assert more is not None
    assert [tool.name for tool in more.prompt_data["tools"]] == ["postage"]
    every = more.with_requested('{"describe": ["check_parcel"]}')
    assert every is not None
    assert [tool.name for tool in every.prompt_data["tools"]] == ["postage", "check_parcel", "harbour_depth"]
    for answer, message in (
        ('{"describe": ["postage"]}', "'postage' is described already"),
        ('{"describe": ["postag"]}', "did you mean 'postage'"),
        ('{"describe": "postage"}', "expected"),
    ):
        with pytest.raises(AnswerError, match=message):
            every.with_requested(answer)
    assert first.with_requested(PLAN) is None
    assert first.with_requested('{"describe": ["postage"], "why": "x"}') is None
    assert first.with_requested(block('x = {"describe": ["postage"]}')) is None


def test_a_guard_that_is_generated_asks_at_no_loss_of_a_round(tools: Path) -> None:
    """For a plan and for code; the description is in the next prompt, and then the answer counts."""
    ask = '{"describe": ["harbour_depth"]}'
    model = ScriptedModel([ask, PLAN, ask, CODE])
    with GuardAgent("No parcel over two.", model=model, toolbox=tools.parent, debug_rounds=0) as guard:
        verdict = guard.guard("a", "b")
    assert (verdict.label, verdict.model_calls) == (0, 4)
    system = [messages[0].content for messages in model.requests]
    assert ["How deep the water of a harbour is" in text for text in system] == [False, True, False, True]
    assert "it was never measured" in system[3]
    assert all("check_parcel" in text for text in system)


def test_a_request_for_an_unknown_function_gets_an_error(tools: Path) -> None:
    """The request costs a round, like any unusable answer."""
    model = ScriptedModel(['{"describe": ["harbor_depth"]}', PLAN, CODE])
    with GuardAgent("No parcel over two.", model=model, toolbox=tools.parent, debug_rounds=1) as guard:
        assert guard.guard("a", "b").label == 0
    assert "did you mean 'harbour_depth'" in model.requests[1][-1].content


def test_compile_asks_at_no_loss_of_a_round(tools: Path) -> None:
    """Once it is described, it stays so."""
    ask = '{"describe": ["postage"]}'
    good = CODE.replace("check_parcel(1, 2)", "check_parcel(float(field(agent_input, 'Weight')), 2)").replace(
        "agent_output}", "None if denied else agent_output}"
    )
    rows = [
        {"id": str(at), "agent_input": f"Weight: {weight}", "agent_output": "Sent.", "label": int(weight > 2)}
        for at, weight in enumerate((1, 3, 0.5, 9))
    ]
    model = ScriptedModel([PLAN, ask, CODE, good])
    with GuardAgent("No parcel over two.", model=model, toolbox=tools.parent) as guard:
        compiled = guard.compile(rows, rounds=1, inputs=0, properties=False)
    assert len(compiled.report.candidates[0].attempts) == 2
    system = [messages[0].content for messages in model.requests]
    assert ["no such country is served" in text for text in system] == [False, False, True, True]
