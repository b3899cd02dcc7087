"""What protects this machine: which hardening layers and which sandbox engines work, tried and not assumed."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Any

from guardagent.errors import GuardError
from guardagent.sandbox import ENGINES, Limits, hardening

_PROGRAM = "def check(agent_input, agent_output, facts):\n    return agent_input\n"


@dataclass(frozen=True, slots=True)
class ComponentStatus:
    """One layer or engine. `problem` is empty where it works, and else says what to do."""

    kind: str
    name: str
    problem: str
    layers: tuple[str, ...] = ()


def examine() -> list[ComponentStatus]:
    """Tries every layer and every engine of this installation."""
    layers = [ComponentStatus("layer", name, problem) for name, problem in hardening.problems().items()]
    return layers + [_engine(name) for name in ENGINES if name != "auto"]  # which is two of them


def to_dict(statuses: list[ComponentStatus]) -> dict[str, Any]:
    """As one JSON object: `{"platform", "python", "hardened", "layers": {name: problem}, "engines": {…}}`."""
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
        return "it gave a wrong answer; install guardagent again"
    return f"works, but not confined: {unconfined}" if unconfined else ""
