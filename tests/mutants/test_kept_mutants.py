"""The tests catch small mistakes in the rooms that decide: each kept mutant of them fails the test named beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest
import yaml

HOUSE = Path(__file__).parents[2]
MUTANTS: list[dict[str, str]] = yaml.safe_load(Path(__file__).with_name("mutants.yaml").read_text())
PARTS = 12  # tests that try the mutants, so that several workers share them
TIME_LIMIT = 120  # seconds; a mutant that never ends is not caught by a failed test


def name_of(mutant: dict[str, str]) -> str:
    return f"{mutant['file']}: {mutant['before']!r} -> {mutant['after']!r}"


def changed(mutant: dict[str, str]) -> str:
    """Returns the text of the file with the mutant in it."""
    text = (HOUSE / mutant["file"]).read_text()
    count = text.count(mutant["before"])
    assert count == 1, (
        f"{name_of(mutant)}: 'before' stands {count} times in the file, expected once; "
        "write the line's new text into tests/mutants/mutants.yaml, or a new mutant if the line is gone"
    )
    return text.replace(mutant["before"], mutant["after"])


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a copy of the package, and links to everything beside it."""
    folder = tmp_path_factory.mktemp("mutants")
    for path in HOUSE.iterdir():
        if path.name not in ("guardagent", ".git"):
            (folder / path.name).symlink_to(path)
    shutil.copytree(HOUSE / "guardagent", folder / "guardagent")
    return folder


@contextmanager
def applied(mutant: dict[str, str], folder: Path) -> Iterator[None]:
    file = folder / mutant["file"]
    file.write_text(changed(mutant))
    try:
        yield
    finally:
        Path(cache_from_source(str(file))).unlink(missing_ok=True)  # it may seem to be that of the next mutant
        shutil.copy2(HOUSE / mutant["file"], file)


def run_tests(tests: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs tests against the package in a folder. They start three times as fast with compiled files."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    for inherited in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTHONDONTWRITEBYTECODE"):
        environment.pop(inherited, None)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--assert=plain", tests]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=TIME_LIMIT
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant["file"])
def test_a_mutant_fits_the_code(mutant: dict[str, Any]) -> None:
    """The changed line is in its file once, the change is valid Python, and its test exists."""
    compile(changed(mutant), mutant["file"], "exec")
    file, _, function = mutant["tests"].partition("::")
    assert f"def {function}(" in (HOUSE / file).read_text(), f"{mutant['tests']}: the test is gone; name another one"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_the_tests_catch_the_mutants(part: int, copy: Path) -> None:
    """With a mutant, a test fails; an error outside of the tests, as in an import, does not count."""
    not_caught = {}
    for mutant in MUTANTS[part::PARTS]:
        with applied(mutant, copy):
            ran = run_tests(mutant["tests"], copy)
        if ran.returncode != pytest.ExitCode.TESTS_FAILED or "\nFAILED " not in ran.stdout:
            not_caught[name_of(mutant)] = f"{mutant['tests']}: exit code {ran.returncode}\n{ran.stdout[-500:]}"
    assert not_caught == {}
