"""Guard programs written by models return the same in the sandbox as in a plain interpreter."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest
import yaml

from guardagent import ProgramError, Toolbox
from guardagent.sandbox import load_sandbox

FOLDER = Path(__file__).parent / "programs"
RUNS: dict[str, list[dict[str, Any]]] = yaml.safe_load((FOLDER / "runs.yaml").read_text())
TOOLS = {name: Toolbox.load().functions[name] for name in ("check_access", "check_rule")}


def run_plain(source: str, inputs: dict[str, Any]) -> Any:
    sys.modules.setdefault("program", types.ModuleType("program"))
    names: dict[str, Any] = {**TOOLS, "__name__": "program"}
    exec(source, names)  # noqa: S102 - our own programs
    return names["check"](**inputs)


@pytest.mark.parametrize("name", sorted(RUNS))
@pytest.mark.parametrize("engine", ["auto", "restricted"])
def test_a_program_returns_the_same_as_in_a_plain_interpreter(engine: str, name: str) -> None:
    """The default and the wider engine run every program, both to an allowance and to a denial."""
    source = (FOLDER / f"{name}.py").read_text()
    sandbox = load_sandbox(engine)
    expected = [run_plain(source, dict(inputs)) for inputs in RUNS[name]]
    assert [value["label"] for value in expected] == [0, 1]
    assert [sandbox.run(source, inputs, TOOLS) for inputs in RUNS[name]] == expected


def test_monty_runs_a_program_or_names_a_missing_feature() -> None:
    """The static list of gaps is complete: no program fails for another reason, or returns another value."""
    monty = load_sandbox("monty")
    ran = 0
    for name, runs in RUNS.items():
        source = (FOLDER / f"{name}.py").read_text()
        for inputs in runs:
            try:
                value = monty.run(source, inputs, TOOLS)
            except ProgramError as error:
                assert "not supported by the engine 'monty'" in str(error)  # noqa: PT017 - either of the two may happen
                continue
            assert value == run_plain(source, dict(inputs))
            ran += 1
    assert ran
