"""Tests which hardening layers and sandbox engines work on this machine."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Any

from guardagent.errors import GuardError
from guardagent.sandbox import ENGINES, Limits, hardening

_PROGRAM = "def check(agent_input, agent_output, facts):\n    return agent_input\n"


@dataclass(frozen=True, slots=True)
class ComponentStatus:
    """The status of one layer or engine. `problem` is empty if it works, else it has the fix."""

    kind: str
    name: str
    problem: str
    layers: tuple[str, ...] = ()


def examine() -> list[ComponentStatus]:
    """Tries every layer and every engine of this installation."""
    layers = [ComponentStatus("layer", name, problem) for name, problem in hardening.problems().items()]
    return layers + [_engine(name) for name in ENGINES if name != "auto"]  # which combines two of them


def to_dict(statuses: list[ComponentStatus]) -> dict[str, Any]:
    """Returns one JSON object: `{"platform", "python", "hardened", "layers": {name: problem}, "engines": {…}}`."""
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "hardened": not any(finding.problem for finding in statuses),
        "layers": {finding.name: finding.problem for finding in statuses if finding.kind == "layer"},
        "engines": {
            finding.name: {"problem": finding.problem, "layers": list(finding.layers)}
            for finding in statuses
            if finding.kind == "engine"
        },
    }


def _engine(name: str) -> ComponentStatus:
    module = ENGINES.load(name)
    problem = module.problem() or _trial(module.Engine(Limits()))
    return ComponentStatus("engine", name, problem, () if problem else hardening.active())


def _trial(engine: Any) -> str:
    inputs = {"agent_input": "works", "agent_output": "", "facts": {}}
    try:
        answer, unconfined = engine.run(_PROGRAM, inputs, {}), engine.unconfined()
    except GuardError as error:
        return str(error)
    finally:
        engine.close()
    if answer != "works":
        return "it returned a wrong result; reinstall guardagent"
    return f"works, but not confined: {unconfined}" if unconfined else ""
