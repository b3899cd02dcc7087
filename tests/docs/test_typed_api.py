"""The public API is typed: a user's program with all public names passes strict type checkers."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

import guardagent
from guardagent.guard import GuardAgent, GuardOptions, guard
from tests.docs.test_imports import Imported, imported_by, of_pages

PROGRAM = Path(__file__).with_name("uses_everything.py")
FRAMEWORKS = sorted(  # their types are known only if they are installed
    path.parent.name
    for path in Path(guardagent.__file__).parent.glob("frameworks/*/adapter")
    if path.parent.name != "python"
)
UNTYPED = (
    *(f"guardagent.frameworks.{name}" for name in FRAMEWORKS),
    "guardagent.batch.arrow",  # Arrow has no types
    "guardagent.generation.local.vllm.logits_processor",  # likewise, as a framework's
)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Returns a copy of the program outside of the checkout, so that the project's settings do not apply."""
    return Path(shutil.copy(PROGRAM, tmp_path))


def test_the_program_uses_every_public_name() -> None:
    """It uses all of `guardagent.__all__`, and the names that the pages import from its rooms."""
    wanted = {Imported("guardagent", name) for name in guardagent.__all__}
    wanted |= {of_page for of_page in of_pages() if not of_page.module.startswith(UNTYPED)}
    text = PROGRAM.read_text(encoding="utf-8")
    used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    assert sorted(wanted - {imported for imported in imported_by(text) if imported.name in used}) == []


@pytest.mark.slow
def test_mypy_accepts_the_program(program: Path) -> None:
    """It runs `--strict` without a configuration, relying on `py.typed`."""
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=cache", program.name]
    ran = subprocess.run(command, cwd=program.parent, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.slow
def test_pyright_accepts_the_program(program: Path) -> None:
    """It runs in `strict` mode, which also refuses unknown types."""
    pyright = shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed; pip install 'pyright[nodejs]'")
    (program.parent / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [pyright, "--pythonpath", sys.executable]
    ran = subprocess.run(command, cwd=program.parent, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_guard_takes_the_options_of_guard_agent() -> None:
    """Each has the same name and type, so type checkers know them."""
    options = get_type_hints(GuardAgent.__init__)
    taken = get_type_hints(guard) | get_type_hints(GuardOptions)
    assert {name: taken.get(name) for name in options if name != "return"} == {
        name: kind for name, kind in options.items() if name != "return"
    }
