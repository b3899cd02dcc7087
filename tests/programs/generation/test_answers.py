"""An answer is parsed as a plan, a program or a judgement, or is an error with the missing piece."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent import GuardAgent
from guardagent.errors import AnswerError
from guardagent.programs.answers import holds_code, read_code, read_judgement, read_plan, select
from guardagent.sandbox.toolbox import Toolbox
from guardagent.testing import ScriptedModel
from tests.conftest import Write
from tests.programs.generation.answers import PLAN, PROGRAM, block
from tests.tiers import slow_after

FOUR = ["sum up", "filter", "locate", "compare"]


@pytest.mark.parametrize(
    "answer",
    [
        PLAN,
        "\n".join(f"{n}) {step}" for n, step in enumerate(FOUR, 1)),
        "\n".join(f"**Step {n}:** {step}\n   1. a detail\n" for n, step in enumerate(FOUR, 1)),
        "\n\n".join(f"### {n}. {step}\nwith 2 databases, in 1. and 2. place" for n, step in enumerate(FOUR, 1)),
        "\n".join(f"- {step}\n  - a detail" for step in FOUR),
        " ".join(f"{n}. {step}" for n, step in enumerate(FOUR, 1)),
        "\n\n".join(FOUR),
        "Plan:\n" + "\n".join(f"{n}. {step}" for n, step in enumerate([*FOUR, "and print"], 1)),
    ],
)
def test_a_plan_has_four_steps_however_they_are_marked(answer: str) -> None:
    """Text after the fourth step belongs to it."""
    plan = read_plan(answer)
    assert len(plan.steps) == 4
    assert all(plan.steps)
    assert plan.engine == "auto"


@pytest.mark.parametrize("answer", ["", "It is allowed.", "1. a\n2. b\n3. c", "- a\n- b\n- c", "a\n\nb\n\nc", "{}"])
def test_fewer_than_four_steps_are_no_plan(answer: str) -> None:
    """The message says how many there are."""
    with pytest.raises(AnswerError, match="expected four"):
        read_plan(answer)


@pytest.mark.parametrize(
    ("line", "engine"),
    [("Engine: monty", "monty"), ("**Engine:** `restricted`", "restricted"), ("Engine: Python 3", "auto")],
)
def test_a_plan_may_name_the_engine(line: str, engine: str) -> None:
    """Python is what all of them run."""
    assert read_plan(f"{PLAN}\n{line}").engine == engine


def test_an_engine_that_does_not_exist_is_no_plan() -> None:
    """The message names those that do."""
    with pytest.raises(AnswerError, match=r"unknown engine 'docker'.*monty"):
        read_plan(f"{PLAN}\nEngine: docker")


@pytest.mark.parametrize(
    "answer",
    [
        block(PROGRAM),
        block(PROGRAM, ""),
        block(PROGRAM).replace("```", "~~~"),
        block(PROGRAM).replace("\n", "\r\n"),
        PROGRAM,
        f"First an idea:\n{block('ALLOWED = {}')}{block(PROGRAM)}",
        f"Not in\n{block('function check() {}', 'javascript')}but in\n{block(PROGRAM)}",
        "\n".join("  " + line for line in block(PROGRAM).splitlines()),
        block("def check(agent_input, agent_output, facts):\n    return {}") + block(PROGRAM),
        block(PROGRAM) + block("def check(unfinished"),
        "```python\n" + PROGRAM,
        "```python\ndef check(a):\n    half(\n\nAgain:\n" + block(PROGRAM),
    ],
)
def test_the_one_program_is_found(answer: str) -> None:
    """In a block or bare, beside blocks that are none; the last complete one, also where its block is not closed."""
    assert read_code(answer).strip() == PROGRAM.strip()


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("The run is fine: label 0.", "has no code block"),
        (block("function check() { return 0 }", "javascript"), "is in 'javascript'"),
        (block("label = 0"), "no code block defines a function 'check'"),
        ("I cannot help with guards.", "it says 'I cannot help with guards.'"),
        ("def check(", "has no code block"),
    ],
)
def test_no_program_is_an_error(answer: str, problem: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(AnswerError, match=problem):
        read_code(answer)


def test_the_one_judgement_is_found() -> None:
    """Among prose and other objects."""
    answer = 'The role {"role": "x"} may not.\n```json\n{"label": 1, "details": {"label": 0}}\n```'
    assert read_judgement(answer) == {"label": 1, "details": {"label": 0}}


@pytest.mark.parametrize(
    "answer",
    slow_after(
        6,
        [
            "label 0",
            '{"label": 0} or {"label": 1}',
            '{"label": 0, "label": 1}',
            "[0]",
            '{"label": 0',
            "{" * 10_000,
            "{" * 100_000,
        ],
    ),
)
def test_no_judgement_or_two_are_errors(answer: str) -> None:
    """An object that the log imitates and the model repeats makes two."""
    with pytest.raises(AnswerError, match="expected exactly one"):
        read_judgement(answer)


@pytest.mark.parametrize(
    ("answer", "code"),
    [(block(PROGRAM), True), (PROGRAM, True), ('{"label": 1}', False), ("No code here: def ", False)],
)
def test_whether_an_answer_is_code(answer: str, code: bool) -> None:
    """As a block, or bare."""
    assert holds_code(answer) is code


# --- the functions that a prompt describes, and requests of the model for others


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
def tools(write: Write) -> Path:
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


def test_a_plan_describes_its_functions_and_those_that_they_refer_to(tmp_path: Path) -> None:
    """A call or a marked name; a word of English is none."""
    (tmp_path / "t.py").write_text(
        'def depth(x: str) -> int:\n    """How deep, as measured(x) or `tide` says it; a shelf is none."""\n'
        'def tide(x: str) -> int:\n    """The tide."""\ndef measured(x: str) -> int:\n    """See moon_phase."""\n'
        'def moon_phase() -> int:\n    """The moon."""\ndef shelf() -> int:\n    """A shelf."""\n'
    )
    functions = select(Toolbox([tmp_path / "t.py"])).with_plan("4. Through depth('a').")
    assert set(functions.names) == {"depth", "tide", "measured", "moon_phase"}


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
