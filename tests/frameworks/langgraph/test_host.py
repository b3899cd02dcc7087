"""LangChain and LangGraph that are not there, or too old: said clearly."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from guardagent.frameworks.langgraph.host import problem_of


def test_a_missing_host_names_the_extra() -> None:
    """Importing the adapter says what to install, where the host is not."""
    try:
        version("langchain")
    except PackageNotFoundError:
        pass
    else:
        pytest.skip("the host is here")
    code = "import guardagent.frameworks.langgraph.adapter"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=Path.cwd())
    assert "InputError: langchain is not installed" in ran.stderr
    assert "pip install 'guardagent[langgraph]'" in ran.stderr


@pytest.mark.parametrize("found", [None, "0.3.27", "1.2.18"])
def test_what_is_missing_or_too_old_is_a_problem(found: str | None) -> None:
    """The problem names the package, the version and the extra."""
    said = problem_of("langchain", found)
    assert said is not None
    assert "guardagent[langgraph]" in said


@pytest.mark.parametrize("found", ["1.4.0", "1.10.2", "2.0.0rc1"])
def test_a_version_that_will_do_is_none(found: str) -> None:
    """Newer ones are taken as they come."""
    assert problem_of("langchain", found) is None
