"""`guardagent run PROGRAM --examples F`: a program over labelled runs."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Cli, CommandResult, Write

PROGRAM = """
    def check(agent_input: str, agent_output: str, facts: dict) -> dict:
        loans = int(facts.get("loans") or field(agent_input, "Loans"))
        rules = {"loans": {"info": "loans", "operator": "<", "value": 5, "violation": "five books are on loan"}}
        denied, why = check_rule(rules, {"loans": loans})
        return {"label": int(denied), "reasons": list(why.values())}
    """


def line(name: str, loans: object, label: int | None, **more: object) -> str:
    run = {"id": name, "agent_input": f"Loans: {loans}", "agent_output": "Lent.", "label": label}
    return json.dumps({**{key: value for key, value in run.items() if value is not None}, **more})


@pytest.fixture
def judge(cli: Cli, write: Write) -> Cli:
    def run(*lines: str, options: tuple[object, ...] = ()) -> CommandResult:
        examples = write("runs.jsonl", "\n".join(lines) + "\n")
        return cli("run", write("p.py", PROGRAM), "--examples", examples, *options)

    return run


def test_each_run_is_shown_with_the_label_that_was_expected(judge: Cli) -> None:
    """Wrong and unchecked runs have their reasons; the metrics go to standard error."""
    ran = judge(line("a", 1, 0), line("b", 7, 1), line("c", 7, 0), line("d", 1, 1, facts={"loans": 9}))
    rows = [row.split() for row in ran.out.splitlines()]
    assert rows[0] == ["right", "a", "label", "0,", "expected", "0"]
    assert [" ".join(row[:2]) for row in rows] == ["right a", "right b", "WRONG c", "five books", "right d"]
    assert "4 runs: 1 allowed, 3 denied (0 could not be fully checked)" in ran.err
    assert "accuracy 75.0%, precision 66.7%, recall 100.0% (tp 2, fp 1, fn 0, tn 1)" in ran.err


def test_json_is_one_verdict_in_a_line(judge: Cli) -> None:
    """With the id and what was expected, and nothing else on standard output."""
    ran = judge(line("a", 1, 0), line("b", 7, 1), options=("--json",))
    rows = [json.loads(row) for row in ran.out.splitlines()]
    assert [(row["id"], row["label"], row["expected"]) for row in rows] == [
        ("a", 0, {"label": 0}),
        ("b", 1, {"label": 1}),
    ]
    assert rows[1]["reasons"] == ["five books are on loan"]
    assert "accuracy 100.0%" in ran.err


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([line("a", 1, 1)], 0),
        ([line("a", 1, 0), line("b", 7, 0)], 1),
        ([line("a", 7, 1), line("b", "many", 1)], 3),
        ([line("b", "many", 1), "{", line("c", 1, 0)], 2),
        ([line("a", 1, None)], 2),
    ],
)
def test_the_worst_line_is_the_exit_status(judge: Cli, lines: list[str], status: int) -> None:
    """Labels never matter for it, and a line that cannot be read does not keep the others from being judged."""
    ran = judge(*lines, options=("--json",))
    assert ran.status == status
    assert len(ran.out.splitlines()) == sum(line != "{" and '"label": ' in line for line in lines)


def test_either_one_run_or_many(cli: Cli, write: Write, judge: Cli) -> None:
    """Half of a run, or both at once, is a mistake; so is a file without runs."""
    program, text = write("p.py", PROGRAM), write("in.txt", "Loans: 1")
    for options in ((), ("--input", text), ("--input", text, "--examples", text)):
        ran = cli("run", program, *options)
        assert (ran.status, "expected" in ran.err) == (2, True)
    assert "holds no runs" in judge("").err
