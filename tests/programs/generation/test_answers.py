"""An answer is parsed as a plan, a program or a judgement, or is an error with the missing piece."""

import pytest

from guardagent.errors import AnswerError
from guardagent.programs.answers import holds_code, read_code, read_judgement, read_plan
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
    ],
)
def test_the_one_program_is_found(answer: str) -> None:
    """In a block or bare, beside blocks that are none."""
    assert read_code(answer).strip() == PROGRAM.strip()


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("The run is fine: label 0.", "has no code block"),
        (block("function check() { return 0 }", "javascript"), "is in 'javascript'"),
        (block(PROGRAM) * 2, "2 code blocks define"),
        (block("label = 0"), "no code block defines a function 'check'"),
        ("```python\n" + PROGRAM, "has no code block"),
        ("def check(", "has no code block"),
    ],
)
def test_no_program_or_two_are_errors(answer: str, problem: str) -> None:
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
