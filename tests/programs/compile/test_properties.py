"""Properties: what each clause says of every run, tried on runs that are made of the examples."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from guardagent.programs.compile import Example
from guardagent.programs.compile.examples import CompileTarget
from guardagent.programs.compile.properties import (
    Change,
    apply_changes,
    possible_changes,
    random_changes,
    shrink,
    single_changes,
)
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import Properties, read_properties
from guardagent.sandbox.toolbox import Toolbox
from tests.programs.generation.answers import block
from tests.tiers import slow_after

from .conftest import RIGHT, Compiler, failing, program

PROPERTY = """\
def property_1(agent_input, agent_output, facts):
    loans = int(facts["loans"] if "loans" in facts else field(agent_input, "Loans"))
    return "deny" if loans >= 5 else "allow"
"""
SECOND = """

def property_2(agent_input, agent_output, facts):
    return None
"""
GOOD = block(RIGHT) + block(PROPERTY)
TWELVE_ARE_FINE = block(RIGHT.replace('"Loans")\n', '"Loans")\n    loans = "0" if loans == str(12) else loans\n', 1))


def tried(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {test["name"]: test for test in report["tests"]}


def findings(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(finding["kind"], finding["message"]) for finding in report["findings"]]


@pytest.mark.slow
def test_the_report_says_on_how_many_runs_a_property_was_tried(compiler: Compiler) -> None:
    """And which clauses have none, or one that says nothing."""
    exit_status, report = compiler(GOOD)
    property_1 = tried(report)["property_1"]
    assert (exit_status, property_1["failures"], report["properties"].strip()) == (0, [], PROPERTY.strip())
    assert property_1["runs"] > 50
    assert "distinct runs: deny" in property_1["about"]
    assert ("unchecked", "no property for clause 2") in findings(report)
    exit_status, report = compiler(block(RIGHT) + block(PROPERTY + SECOND))
    assert "the property of clause 2 makes no claim about any of" in str(findings(report))


@pytest.mark.slow
def test_a_counterexample_goes_back_shrunk(compiler: Compiler) -> None:
    """No example has twelve loans, and no transformation finds it; a run with one change does."""
    exit_status, report = compiler(TWELVE_ARE_FINE + block(PROPERTY), block(RIGHT))
    assert exit_status == 0
    first, second = report["candidates"][0]["rounds"]
    assert [row["name"] for row in first["tried"] if row["failed"]] == ["property_1"]
    assert {"name": "property_1", "failed": 0} in second["tried"]
    mend = compiler.prompts[2]
    assert "property_1 says deny; the Loans of agent_input: 12\n" in mend
    assert "def property_1" in mend
    assert "Loans: 12" in mend
    assert "deny, as the property says: label 1\n" in mend


@pytest.mark.slow
def test_the_same_runs_each_time(compiler: Compiler) -> None:
    """A failure is reproducible, and leaves nothing in the working directory."""
    reports = [compiler(TWELVE_ARE_FINE + block(PROPERTY), options=("--rounds", 0)) for _ in range(2)]
    assert reports[0][0] == 1
    assert failing(reports[0][1]) == {"property_1"}
    assert reports[0][1]["tests"] == reports[1][1]["tests"]


@pytest.mark.slow
def test_a_program_that_denies_what_must_pass_is_refused(compiler: Compiler) -> None:
    """Undecided it may be; a crash is no answer."""
    never = RIGHT.replace('"Loans")\n', '"Loans")\n    loans = "9" if loans == "4" else loans\n', 1)
    for odd in (never, never.replace('"9"', "str(1 // 0)")):
        exit_status, report = compiler(block(odd) + block(PROPERTY), options=("--rounds", 0))
        assert (exit_status, failing(report)) == (1, {"property_1"})
        assert tried(report)["property_1"]["failures"][0]["expected"] == "label 0, or undecided"
    unknown = RIGHT.replace('"Loans")\n', '"Loans")\n    if loans == "4":\n        raise ValueError("four")\n', 1)
    assert compiler(block(unknown) + block(PROPERTY))[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "message"),
    slow_after(
        1,
        [
            (PROPERTY.replace(">= 5", ">= 8"), "property_1 says allow"),
            (PROPERTY.replace(">= 5", ">= 3"), "property_1 says deny"),
            (PROPERTY.replace('"allow"', '"pass"'), "failed: it returned 'pass'"),
            (PROPERTY.replace("facts):", "more):"), "facts"),
            (PROPERTY.replace("int(", "list(").replace(">= 5", "[99]"), "failed: "),
        ],
    ),
)
def test_a_property_that_an_example_contradicts_is_wrong(compiler: Compiler, wrong: str, message: str) -> None:
    """It goes back; a person reads that it was changed."""
    exit_status, report = compiler(block(RIGHT) + block(wrong), GOOD)
    assert exit_status == 0, report["tests"]
    assert ("changed", "the model changed this property after its first version; review it") in findings(report)
    assert message in compiler.prompts[2]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (PROPERTY.replace("property_1", "property_7"), "clause 7 does not exist"),
        (PROPERTY.replace("field(", "feild("), "unknown function 'feild'"),
        ("import os\n" + PROPERTY, "the module 'os' is not available"),
        (PROPERTY.replace("return", "return ("), "not Python"),
    ],
)
def test_properties_pass_the_gate_before_any_of_them_runs(compiler: Compiler, wrong: str, message: str) -> None:
    """As programs do; what is wrong goes back."""
    exit_status, report = compiler(block(RIGHT) + block(wrong), options=("--rounds", 0))
    assert (exit_status, len(report["problems"])) == (1, 1)
    assert message in report["problems"][0]
    assert report["problems"][0].startswith("the properties: ")


@pytest.mark.slow
def test_a_property_does_not_go_away(compiler: Compiler) -> None:
    """An answer without properties keeps those before; one that leaves some out is refused."""
    other = PROPERTY.replace("property_1", "property_2").replace('"allow"', "None")
    exit_status, report = compiler(
        TWELVE_ARE_FINE + block(PROPERTY), TWELVE_ARE_FINE + block(other), options=("--rounds", 1)
    )
    assert (exit_status, report["problems"]) == (
        1,
        ["the properties: 'property_1' is missing now; expected all properties, or no second block"],
    )


@pytest.mark.slow
@pytest.mark.parametrize("first", [block(RIGHT.replace("check_loans", "check_lones")), "No program yet.\n"])
def test_properties_outlive_a_program_that_cannot_run(compiler: Compiler, first: str) -> None:
    """They stood beside it and were right: the next version is held to them, and the model is shown them."""
    exit_status, report = compiler(first + block(PROPERTY), TWELVE_ARE_FINE, options=("--rounds", 1))
    assert (exit_status, failing(report)) == (1, {"property_1"})
    assert "def property_1" in compiler.prompts[2]


@pytest.mark.slow
def test_each_clause_has_a_property_or_a_reason(compiler: Compiler) -> None:
    """Else nothing is written, the model is told, and so is the person; who may say that it need not be."""
    compiler.strict = True
    lacks = "no property for clause 2; expected 'property_N' for each clause"
    exit_status, report = compiler(GOOD, options=("--rounds", 1))
    assert (exit_status, compiler.out.exists(), failing(report)) == (1, False, set())
    assert tried(report)["properties"]["lacks"].startswith(lacks)
    assert lacks in compiler.prompts[2]
    exit_status, report = compiler(block(RIGHT) + block(PROPERTY + SECOND), options=("--rounds", 0))
    assert exit_status == 1
    assert "the property of clause 2 only returns None, without a reason" in tried(report)["properties"]["lacks"]
    reason = SECOND.replace("    return", '    """It says how to deny."""\n    return')
    exit_status, report = compiler(block(RIGHT) + block(PROPERTY + reason))
    assert (exit_status, compiler.out.exists()) == (0, True)
    assert ("context", "the model claims that this sentence sets no rule: It says how to deny.") in findings(report)
    exit_status, report = compiler(GOOD, options=("--no-properties",))
    assert (exit_status, ("unchecked", "no property for clause 2") in findings(report)) == (0, True)


@pytest.mark.slow
def test_what_a_required_check_denies_no_property_lets_pass(compiler: Compiler) -> None:
    """Nor what another property forbids: the most severe claim counts."""
    everyone = PROPERTY.replace(
        '"deny" if loans >= 5 else "allow"', '"allow" if loans not in (5, 7) and not facts else None'
    )
    assert compiler(block(RIGHT) + block(everyone))[0] == 0
    both = PROPERTY + everyone.replace("property_1", "property_2").replace("not in (5, 7)", "< 99")
    assert compiler(block(RIGHT) + block(both))[0] == 0


def test_nothing_is_left_out_silently(compiler: Compiler) -> None:
    """Without runs that are made of the examples, the report says so."""
    _, report = compiler(GOOD, options=("--inputs", 0))
    assert ("unchecked", "properties were tested on the examples only: '--inputs' is 0") in findings(report)
    assert tried(report)["property_1"]["runs"] == 6


@pytest.mark.slow
def test_properties_run_in_the_sandbox_only(compiler: Compiler) -> None:
    """One that never ends is stopped there, and is wrong."""
    endless = PROPERTY.replace("    return", "    while True:\n        pass\n    return")
    exit_status, report = compiler(block(RIGHT) + block(endless), options=("--rounds", 0))
    assert (exit_status, "time limit" in str(tried(report)["property_1"]["failures"])) == (1, True)


def world(*examples: Example) -> Suite:
    return Suite(CompileTarget("A request.", "", Toolbox.load()), examples)


def test_runs_are_made_of_the_shape_of_the_examples() -> None:
    """Lines, JSON objects and facts; limits from the program, and fields that are missing."""
    first = Example("a", "Role: nurse\nAge: 17", '{"rows": 3, "ok": true}', 0, {"role": "nurse", "limit": 2})
    second = Example("b", "Role: cook\nAge: 40", "free words", 1, {"role": "cook"})
    here = replace(world(first, second), sources=("x > 18",))
    made = {(change.origin, change.name): change for of in possible_changes(here) for change in of}
    every = [str(change) for of in possible_changes(here) for change in of]
    for note in (
        "the Role of agent_input: cook",
        "the Role of agent_input missing",
        "the Age of agent_input: 18",
        "the ok of agent_output: False",
        "the rows of agent_output: 19",
        "the text of agent_output: free words",
        "the role of facts: cook",
        "the limit of facts: 3",
    ):
        assert note in every
    assert set(made) == {
        *(("agent_input", name) for name in ("Role", "Age")),
        *(("agent_output", name) for name in ("", "rows", "ok")),
        *(("facts", name) for name in ("role", "limit")),
    }
    assert Change("agent_input", "Role", None).apply(first).agent_input == "Age: 17"
    assert Change("agent_input", "Age", '"18"').apply(first).agent_input == "Role: nurse\nAge: 18"
    assert json.loads(Change("agent_output", "rows", "19").apply(first).agent_output) == {"rows": 19, "ok": True}
    assert Change("agent_output", "rows", "19").apply(second) == second
    assert Change("facts", "limit", None).apply(first).facts == {"role": "nurse"}


def test_the_sweep_reaches_every_limit_before_anything_random() -> None:
    """Each number of the request, one less and one more, alone and as a sum; a run that fails is made simple."""
    example = Example("a", "Role: nurse\nAge: 40", '{"n": {"x": 3}}\n{"n": {"x": 4}}', 0)
    place = Suite(CompileTarget("At most 1,500, or twenty-one.", "", Toolbox.load()), [example])
    assert place.limits == [1500, 21]
    notes = [apply_changes(*run)[1] for run in single_changes([example], possible_changes(place), place.limits)]
    for note in (
        "the Age of agent_input: 22",
        "the n.x of agent_output: 1499",
        "the n.x (number 2) of agent_output: 1498",
    ):
        assert note in notes
    assert notes.index("the Age of agent_input missing") < notes.index("the Age of agent_input: unknown")
    runs = list(random_changes([example], possible_changes(place), 50))
    assert runs == list(random_changes([example], possible_changes(place), 50))
    old = (example, (Change("agent_input", "Role", '"cook"'), Change("agent_input", "Age", '"7"')))
    run, note = shrink(old, lambda run, _note: "Age: 7" in run.agent_input)
    assert (run.agent_input, note) == ("Role: nurse\nAge: 7", "the Age of agent_input: 7")


def test_properties_stand_in_a_block_of_their_own() -> None:
    """A program that defines functions of such a name holds none."""
    inside = block(RIGHT + "\n\n" + PROPERTY)
    assert read_properties(inside) == Properties()
    assert read_properties(GOOD).numbers == (1,)
    assert program("pass") not in GOOD


def test_properties_that_do_not_load_are_shown_once(compiler: Compiler) -> None:
    """Although each of them fails, on each example."""
    compiler.strict = True
    broken = PROPERTY.replace("def property_1", "X = 1 // 0\n\n\ndef property_1")
    compiler(f"{block(RIGHT)}{block(broken)}", block(RIGHT), options=("--rounds", 1))
    assert compiler.prompts[2].count("division") == 1
