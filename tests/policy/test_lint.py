"""`lint` finds the faults that are planted, each with an example, and nothing in what is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent.policy.lint import LintFinding, lint
from tests.policy.lint_cases import DATA, SOLVER, STEPS, Case

CASES = [*STEPS, *DATA, *SOLVER]


def linted(text: str, folder: Path) -> list[LintFinding]:
    path = folder / "policies.yaml"
    path.write_text(text)
    return lint(path)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_fault_is_found(case: Case, tmp_path: Path) -> None:
    """The kind, the rule and the tool are told, and nothing else; every finding has its words."""
    found = linted(case.text, tmp_path)
    assert {(one.kind, one.policy, one.tool) for one in found} == case.found
    assert all(one.message and one.example for one in found)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_is_found_once_it_is_mended(case: Case, tmp_path: Path) -> None:
    """The corrected twin differs in one place, and is clean."""
    assert linted(case.mended, tmp_path) == []
