"""A library's lending agent, its examples, and a compiler with a scripted server as its model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli, Write
from tests.models.conftest import Serve, serve
from tests.models.server import Reply, text
from tests.programs.generation.answers import block

__all__ = ["serve"]

PLAN = "1. A limit of five loans.\n2. The loans stand in the input.\n3. The title stands in the log.\n4. check_loans."
TOOL = '''
def check_loans(loans: str, limit: int) -> tuple[bool, dict[str, str]]:
    """Whether a member with so many loans may borrow one more book."""
    if not str(loans).isdigit():
        raise ValueError(f"the number of loans is {loans!r}")
    return int(loans) >= limit, {"limit": f"{loans} of {limit}"} if int(loans) >= limit else {}
'''
REQUEST = (
    "A member may borrow a book only while fewer than five are on loan. Otherwise deny, and say how many there are."
)
SPECIFICATION = """\
---
data: {limit: 5}
required_checks:
  - check_loans(field(input, "Loans"), limit)
---
The target agent lends books. Input: Member, Loans and Question. Output: lines Lend and Answer.
"""
RIGHT = '''\
"""Lends books."""


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    # clause 1
    loans = str(facts["loans"]) if "loans" in facts else field(agent_input, "Loans")
    denied, why = check_loans(loans, 5)
    # clause 2
    return {
        "label": int(denied),
        "reasons": list(why.values()),
        "details": {"loans": loans},
        "answer": None if denied else field(agent_output, "Answer"),
    }
'''


def example(number: int, loans: int, **more: object) -> dict[str, object]:
    return {
        "id": f"e{number}",
        "agent_input": f"Member: M-{10234 + 111 * number}\nLoans: {loans}\nQuestion: May I have book {number}?",
        "agent_output": f"Lend: Dune {number}\nAnswer: Here is book {number}.",
        "label": int(loans >= 5),
        **more,
    }


EXAMPLES = [example(number, loans) for number, loans in enumerate([0, 5, 3, 7, 3, 5])]


@pytest.fixture
def lending(write: Write) -> Path:
    """The folder with the agent, its toolbox and its examples."""
    write("tools/loans.py", TOOL)
    write("memory/lending/request.md", REQUEST)
    write("memory/lending/specification.md", SPECIFICATION)
    write(
        "memory/lending/demonstrations.jsonl",
        '{"agent_input": "a", "agent_output": "b", "plan": ["a", "b", "c", "d"], "code": "pass"}\n',
    )
    write("examples.jsonl", "".join(json.dumps(row) + "\n" for row in EXAMPLES))
    return write("README.md", "lending").parent


class Compiler:
    """Runs `guardagent compile` with the answers of a scripted server.

    Attributes:
        prompts: the user messages of all prompts.
        strict: whether a clause without a property is a reason to refuse it; here most tests have none.
    """

    def __init__(self, home: Path, start: Serve, cli: Cli) -> None:
        self.home = home
        self.out = home / "memory" / "lending" / "program.py"
        self.folders: list[object] = ["--memory", home / "memory", "--toolbox", home / "tools"]
        self.run = cli
        self.strict = False
        self.serve = start
        self.server: Any = None

    @property
    def prompts(self) -> list[str]:
        return [request["messages"][-1]["content"] for request in self.server.requests]

    def __call__(self, *answers: str | Reply, options: tuple[object, ...] = ()) -> tuple[int, dict[str, Any]]:
        """(exit status, report) of compiling with a plan and these programs."""
        replies = [text(answer) if isinstance(answer, str) else answer for answer in answers]
        self.server = self.serve([text(PLAN), *replies])
        agent = ["--agent", "lending", "--examples", self.home / "examples.jsonl", "-o", self.out]
        agent += [] if self.strict else ["--no-properties"]
        ran = self.run("compile", *agent, *self.folders, "--model", "openai/test", "--json", *options)
        return ran.status, json.loads(ran.out) if ran.out else {"error": json.loads(ran.err)["error"]["message"]}


@pytest.fixture
def compiler(lending: Path, serve: Serve, cli: Cli) -> Compiler:
    return Compiler(lending, serve, cli)


def failing(report: dict[str, Any]) -> set[str]:
    """The tests that the program of a report fails."""
    return {test["name"] for test in report["tests"] if test["failures"]}


def program(body: str) -> str:
    """A block with a program that has this body."""
    lines = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    return block(f"def check(agent_input, agent_output, facts):\n{lines}")
