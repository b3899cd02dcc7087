"""Demonstrations: past guards, each an agent's input and output with a plan and code (paper, Section 4.2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardagent._support.files import read_json_lines
from guardagent.errors import ContentError, name_hint
from guardagent.programs.runtime.program import parse_python

PLAN_STEPS = (
    "summarise the guard request",
    "filter what concerns the agent's input",
    "summarise the agent's output and locate it in the request",
    "say how code compares the two, and the engine that runs it",
)
"""The four mandatory steps of a demonstration's plan (Section 4.2), in order."""

_KEYS = ("agent_input", "agent_output", "plan", "code")


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One past guard, D = [I_i, I_o, P, C] in the paper."""

    agent_input: str
    agent_output: str
    plan: tuple[str, ...]
    code: str

    def to_json(self) -> str:
        record = {key: getattr(self, key) for key in _KEYS} | {"plan": list(self.plan)}
        return json.dumps(record, ensure_ascii=False)


def read_demonstrations(path: Path) -> list[Demonstration]:
    """The demonstrations of a JSON Lines file, each validated."""
    return [parse_demonstration(record, path, line) for line, record in read_json_lines(path)]


def parse_demonstration(record: Mapping[str, Any], path: Path | str, line: int | None) -> Demonstration:
    """Validates one demonstration.

    Raises:
        ContentError: a key is missing, unknown or of the wrong type, or the plan has not exactly four steps.
    """
    for key in record:
        if key not in _KEYS:
            raise ContentError(f"unknown key {key!r}{name_hint(key, _KEYS)}", path, line)
    for key in ("agent_input", "agent_output", "code"):
        if not isinstance(record.get(key), str) or not record[key].strip():
            raise ContentError(f"key {key!r} is missing or empty; expected a non-empty string", path, line)
    plan = record.get("plan")
    if not isinstance(plan, list) or not all(isinstance(step, str) and step.strip() for step in plan):
        raise ContentError("key 'plan' is not a list of strings; expected four steps", path, line)
    if len(plan) != len(PLAN_STEPS):
        steps = "; ".join(f"{number}) {step}" for number, step in enumerate(PLAN_STEPS, start=1))
        raise ContentError(f"the plan has {len(plan)} steps; expected four: {steps}", path, line)
    parse_python(record["code"], path, line)
    return Demonstration(record["agent_input"], record["agent_output"], tuple(plan), record["code"])
