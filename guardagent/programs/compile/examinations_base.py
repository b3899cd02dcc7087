"""The results of examinations that a program must pass before it is written, and citations of examples."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.suite import Suite
from guardagent.types import thaw


@dataclass(frozen=True, slots=True)
class Failure:
    """A run with an unexpected outcome.

    Attributes:
        note: the change to the example; empty for the example itself.
    """

    test: str
    example: Example
    note: str
    expected: str
    actual: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "test": self.test,
            "example": self.example.id,
            "note": self.note,
            "expected": self.expected,
            "given": self.actual,
            "agent_input": self.example.agent_input,
            "agent_output": self.example.agent_output,
            "facts": thaw(self.example.facts),
        }


@dataclass(slots=True)
class ExaminationResult:
    """The result of one kind of test: the number of runs, and the failures.

    Attributes:
        unchecked: what could not be tested, and why; for the report.
        missing: a missing piece of the answer; goes back to the model like a failure.
        advice: a suggested change that no failing run supports; for the model and the report.
        no_rule_reason: the model's reason why the clause sets no rule.
    """

    name: str
    about: str
    runs: int = 0
    failures: list[Failure] = field(default_factory=list)
    unchecked: str = ""
    missing: str = ""
    advice: str = ""
    no_rule_reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        failures = [failure.to_dict() for failure in self.failures]
        row = {"name": self.name, "about": self.about, "runs": self.runs, "failures": failures}
        return row | ({"lacks": self.missing} if self.missing else {})


def citations_in(tree: ast.Module, suite: Suite, length: int) -> Iterator[tuple[ast.Constant, str, Example]]:
    """Yields (node, string, example) for literals of at least `length` characters that occur in one example only.

    They are a sign of memorization. Literals that also occur in the request or the specification do not count.
    """
    known = f"{suite.target.request}\n{suite.target.whole_specification}"
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(node, ast.Constant) and isinstance(text, str) and len(text) >= length and text not in known:
            holders = [one for one in suite.examples if text in one.agent_input or text in one.agent_output]
            if len(holders) == 1 < len(suite.examples):
                yield node, text, holders[0]
