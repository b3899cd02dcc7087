"""Mutated attacks and programs: the host always gets a verdict in time and continues."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from guardagent import ProgramError
from guardagent.sandbox.engines.restricted import program_code
from guardagent.sandbox.gate import admit
from tests.attacks.attack import ATTACKS, LIMITS, judge, wrapped
from tests.tiers import examples

FOLDER = Path(__file__).parent
CORPUS = [wrapped(attack["code"]) for attack in ATTACKS]
CORPUS += [path.read_text() for path in sorted((FOLDER.parent / "sandbox" / "programs").glob("*.py"))]
BITS = sorted({bit for source in CORPUS for bit in source.replace("(", "( ").replace(".", " . ").split()})
FUNCTIONS = frozenset({"check_access", "check_rule"})
fuzz = settings(max_examples=examples(60), suppress_health_check=list(HealthCheck), database=None)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Returns a program of the corpus with inserted lines of others and replaced words."""
    lines = draw(st.sampled_from(CORPUS)).splitlines()
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(lines) - 1))
        other = draw(st.sampled_from(draw(st.sampled_from(CORPUS)).splitlines() or [""]))
        lines[place] = lines[place][: len(lines[place]) - len(lines[place].lstrip())] + other.strip()
    text = "\n".join(lines)
    for _ in range(draw(st.integers(0, 3))):
        words = text.split(" ")
        words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(BITS))
        text = " ".join(words)
    return text


@fuzz
@given(st.one_of(mutated(), st.text(max_size=200), st.lists(st.sampled_from(BITS)).map(" ".join)))
def test_the_gate_and_the_transformation_answer(source: str) -> None:
    """They only admit a program or reject it with a line."""
    for read in (admit, program_code):
        try:
            read(source, FUNCTIONS)
        except ProgramError as error:
            assert str(error).startswith(("line ", "the program has"))  # noqa: PT017 - either may happen


@pytest.mark.parametrize("engine", ["monty", "restricted"])
@fuzz
@given(source=mutated())
def test_every_run_ends_in_time_with_a_verdict(engine: str, source: str) -> None:
    """No run crashes or hangs, and only a check that really allowed leads to an allowance."""
    used = sum(os.times()[:4])
    verdict = judge(engine, source)
    assert sum(os.times()[:4]) - used < LIMITS.seconds + 2  # of this process and its children
    if verdict.label == 0:
        checks = [call for call in verdict.calls if call.is_check]
        assert checks
        assert not any(call.denied or call.error for call in checks)


@pytest.mark.parametrize(
    "piece",
    ["(", "[", "{", "not ", "-", "~", "lambda: ", ".b", "x[", "if 1:\n ", "f'{", "await ", "1+", "a if b else ", "*"],
)
def test_depth_of_every_kind_is_rejected(piece: str) -> None:
    """The host's parser and walker never exhaust the stack."""
    for count in (1000, 90_000 // len(piece)):
        with pytest.raises(ProgramError):
            admit(f"def check(agent_input, agent_output, facts):\n    x = {piece * count}1{piece}", FUNCTIONS)
