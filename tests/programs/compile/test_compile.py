"""Compiling against a model over HTTP: what is mended, what is refused, and what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guardagent import GuardAgent, NotCompiledError
from guardagent.models.backends.scripted import ScriptedModel
from guardagent.programs.compile.report import ExampleScore
from guardagent.programs.program_file import parse
from tests.conftest import Cli
from tests.models.server import Reply, status, text
from tests.programs.generation.answers import block
from tests.tiers import slow_but_every

from .conftest import EXAMPLES, PLAN, REQUEST, RIGHT, SPECIFICATION, Compiler, example, failing, program

GOOD = block(RIGHT)
WRONG = block(RIGHT.replace("loans, 5", "loans, 6"))  # wrong on the two examples with five loans
WRONG_TOO = block(RIGHT.replace("loans, 5", "loans, 7"))
MISSING = block(RIGHT.replace("check_loans", "check_lones"))


def test_a_program_that_is_wrong_is_mended(compiler: Compiler) -> None:
    """The failing runs go back with what was expected and given; the second version passes and is written."""
    exit_status, report = compiler(WRONG, GOOD)
    assert (exit_status, report["passed"], report["written"]) == (0, True, str(compiler.out))
    rounds = report["candidates"][0]["rounds"]
    assert [{row["name"]: row["failed"] for row in attempt["tried"]}["examples"] for attempt in rounds] == [2, 0]
    mend = compiler.prompts[2]
    for words in ("Loans: 5", "label 1", "label 0", "loans, 6", "(2 in all)"):
        assert words in mend
    assert all(row["passed"] and row["given"] == row["expected"] for row in report["examples"])
    assert report["model_calls"] == 3


MANY = [example(number, number % 8) for number in range(24)]


def test_examples_are_held_out(compiler: Compiler) -> None:
    """A fifth of 20 or more, of both labels; no prompt has one, not even of a program that fails them."""
    (compiler.home / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in MANY))
    status, report = compiler(WRONG, GOOD, options=("--show", 99))
    assert status == 0
    held_out = report["held_out"]
    names = {row["id"] for row in held_out["examples"]}
    assert {row["expected"] for row in held_out["examples"]} == {0, 1}
    assert (len(names), len(report["examples"]), held_out["score"]["right"]) == (5, 19, 5)
    for row in MANY:
        assert any(str(row["agent_output"]) in prompt for prompt in compiler.prompts) is (row["id"] not in names)
    assert parse(compiler.out.read_text(), compiler.out)[0].examples.n == 19  # type: ignore[union-attr]
    report = compiler(GOOD, options=("--hold-out", 0))[1]
    assert (report["held_out"]["score"]["n"], len(report["examples"])) == (0, 24)
    assert "expected 0 to 0.5" in compiler(GOOD, options=("--hold-out", 0.9))[1]["error"]


def test_a_score_that_is_far_below_is_a_warning() -> None:
    """Neither a slip of many nor a difference that chance explains; unknown runs have figures of their own."""
    shown = ExampleScore(40, 40, 0, 40)
    assert ExampleScore(10, 7, 0, 7).is_far_below(shown)
    assert not ExampleScore(100, 95, 0, 95).is_far_below(shown)
    assert not ExampleScore(0, 0, 0, 0).is_far_below(shown)
    assert str(ExampleScore(10, 7, 2, 6)) == (
        "7 of 10 right (70 %, 95 % interval 40 to 89 %); 2 unknown, 6 of 8 decided right"
    )


@pytest.mark.slow
def test_what_is_written_judges_without_a_model(compiler: Compiler) -> None:
    """As the agent's program, with a header that says what it was made of."""
    compiler(GOOD)
    header, body = parse(compiler.out.read_text(), compiler.out)
    assert header is not None
    assert (header.examples.n, header.examples.passed, body) == (6, 6, RIGHT)
    assert header.model == "openai/test"
    home = compiler.home
    guard = GuardAgent(agent="lending", memory=home / "memory", toolbox=home / "tools")
    for row in EXAMPLES:
        verdict = guard.guard(str(row["agent_input"]), str(row["agent_output"]))
        assert (verdict.label, verdict.errors, verdict.model_calls) == (row["label"], (), 0)


def test_a_program_that_never_becomes_right_is_not_written(compiler: Compiler) -> None:
    """Exit 1, after as many rounds as are allowed, with a report of what failed; an older file stays as it is."""
    compiler.out.write_text("def check(agent_input, agent_output, facts):\n    return {}\n")
    before = compiler.out.read_bytes()
    exit_status, report = compiler(WRONG, WRONG_TOO, WRONG, options=("--rounds", 2))
    assert (exit_status, report["passed"], report["written"], report["model_calls"]) == (1, False, None, 4)
    assert compiler.out.read_bytes() == before
    assert [row["id"] for row in report["examples"] if not row["passed"]] == ["e1", "e5"]
    failures = report["tests"][0]["failures"]
    assert [(failure["example"], failure["expected"], failure["given"]) for failure in failures] == [
        ("e1", "label 1", "label 0"),
        ("e5", "label 1", "label 0"),
    ]


@pytest.mark.slow
def test_the_same_question_is_not_paid_for_twice(compiler: Compiler) -> None:
    """A model that gives its wrong program again, and no other reason, is not asked again; nor one that gives none."""
    exit_status, report = compiler(WRONG, WRONG, WRONG, options=("--rounds", 5))
    assert (exit_status, report["model_calls"], len(compiler.prompts)) == (1, 3, 3)
    assert "one that the model has already answered" in report["candidates"][0]["stopped"]
    _, report = compiler(*[f"A guess.\n{WRONG}", f"Another.\n{WRONG}", WRONG, WRONG], options=("--rounds", 5))
    assert report["model_calls"] == 5
    _, report = compiler("No.", "No.", "No.", options=("--rounds", 5))
    assert report["model_calls"] == 3


@pytest.mark.slow
def test_the_next_prompt_has_the_last_explanation(compiler: Compiler) -> None:
    """The next prompt shows the truncated prose of the last answer, without its program."""
    compiler(f"I take six for the limit.\n{WRONG}{'so ' * 300}", GOOD)
    assert ("I take six for the limit." in compiler.prompts[2], "…" in compiler.prompts[2]) == (True, True)
    assert compiler.prompts[2].count("def check") == 1


@pytest.mark.slow
def test_a_mend_prompt_says_which_failures_it_leaves_out(compiler: Compiler) -> None:
    """All of them where there is room, each once: an example that stands above is only named."""
    compiler(WRONG, GOOD)
    assert compiler.prompts[2].count("Loans: 5") == 2
    assert "which is example" in compiler.prompts[2]
    long = [example(number, 5, agent_output=f"Lend: {'Dune ' * 150}{number}\nAnswer: Yes.") for number in range(9)]
    rows = [example(10, 0), example(11, 3), *long]
    (compiler.home / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    compiler(WRONG, GOOD, options=("--show", 2))
    assert "(9 in all; 6 are left out here: 6 of examples)" in compiler.prompts[2]
    assert ("Run 3" in compiler.prompts[2], "Run 4" in compiler.prompts[2]) == (True, False)


@pytest.mark.slow
def test_a_call_of_a_missing_function_goes_back_with_the_nearest(compiler: Compiler) -> None:
    """Before anything runs; so does a comment for a sentence that is not there, and code that the gate refuses."""
    exit_status, report = compiler(MISSING, GOOD)
    assert exit_status == 0
    assert "unknown function 'check_lones'; did you mean 'check_loans'" in compiler.prompts[2]
    for bad, message in (
        (RIGHT.replace("clause 2", "clause 9"), "names the unknown clause 9; expected a number from 1 to 2"),
        (RIGHT.replace('"""Lends books."""', "import os"), "the module 'os' is not available"),
        (RIGHT.replace("check_loans(loans, 5)", "(False, {})"), "calls no check"),
        ("Sorry, I cannot.", "has no code block"),
    ):
        exit_status, report = compiler(block(bad) if "def" in bad else bad, options=("--rounds", 0))
        assert (exit_status, message in report["problems"][0]) == (1, True), report["problems"]


IDS = """
denied, why = check_loans("5" if any(one in agent_input for one in ["M-10345", "M-10567", "M-10789"]) else "0", 5)
return {"label": int(denied), "answer": None if denied else agent_output}
"""
BY_INPUT = f"""
known = {{text: label for text, label in {[(row["agent_input"], row["label"]) for row in EXAMPLES]!r}}}
if agent_input not in known:
    raise ValueError("never seen")
denied, why = check_loans(str(known[agent_input] * 5), 5)
return {{"label": int(denied), "answer": None if denied else agent_output}}
"""
BY_OUTPUT = BY_INPUT.replace("agent_input", "agent_output").replace(
    repr([(row["agent_input"], row["label"]) for row in EXAMPLES]),
    repr([(row["agent_output"], row["label"]) for row in EXAMPLES]),
)
LAST_WINS = """
loans = agent_input.split("Loans: ")[-1].split("\\n")[0]
denied, why = check_loans(loans, 5)
return {"label": int(denied), "answer": None if denied else agent_output}
"""
BELIEVES = """
trusted = "allowed" in agent_input or "label 0" in agent_output
denied, why = check_loans("0" if trusted else field(agent_input, "Loans"), 5)
return {"label": int(denied), "answer": None if denied else agent_output}
"""
WHOLE_LOGS = """
complete = "Answer:" in agent_output
denied, why = check_loans(field(agent_input, "Loans") if complete else "0", 5)
return {"label": int(denied), "answer": None if denied else agent_output}
"""
BY_HASH = f"""
known = {{{", ".join(f"{sum(map(ord, str(row['agent_output'])))}: {row['label']}" for row in EXAMPLES)}}}
key = sum([ord(character) for character in agent_output])
if key not in known:
    raise ValueError("never seen")
denied, why = check_loans(str(known[key] * 5), 5)
return {{"label": int(denied), "answer": None if denied else agent_output}}
"""
BY_QUESTION = f"""
for text, label in {[(f"May I have book {at}?", row["label"]) for at, row in enumerate(EXAMPLES)]!r}:
    if text in agent_input:
        denied, why = check_loans(str(label * 5), 5)
        return {{"label": int(denied), "answer": None if denied else agent_output}}
raise ValueError("never seen")
"""
IN_ORDER = """
in_order = agent_input.find("Loans") < agent_input.find("Question")
denied, why = check_loans(field(agent_input, "Loans") if in_order else "5", 5)
return {"label": int(denied), "answer": None if denied else agent_output}
"""
SHORT = """
denied, why = check_loans(field(agent_input, "Loans") if len(agent_output) < 48 else "5", 5)
return {"label": int(denied), "answer": None if denied else agent_output}
"""


@pytest.mark.parametrize(
    ("body", "test"),
    slow_but_every(
        3,
        [
            (IDS, "changed_ids"),
            (BY_INPUT, "by_heart"),
            (BY_OUTPUT, "by_heart"),
            (BY_HASH, "deciding"),
            (BY_QUESTION, "by_heart"),
            (LAST_WINS, "repeated_fields"),
            (BELIEVES, "injected_label"),
            (WHOLE_LOGS, "truncated_log"),
            (IN_ORDER, "reordered_fields"),
            (SHORT, "irrelevant_text"),
        ],
    ),
)
def test_a_program_that_only_seems_right_is_refused(compiler: Compiler, body: str, test: str) -> None:
    """It gives every example its label, and the transformations tell it from one that follows the rules."""
    exit_status, report = compiler(program(body), options=("--rounds", 0))
    assert (exit_status, compiler.out.exists()) == (1, False)
    assert all(row["passed"] for row in report["examples"])
    assert test in failing(report)


def test_another_profile_gets_the_verdict_of_the_required_check(compiler: Compiler) -> None:
    """A program that misses a value which it never saw denied with this title is caught by the host's own check."""
    body = """
    loans = field(agent_input, "Loans")
    denied, why = check_loans("0" if "book 0?" in agent_input else loans, 5)
    return {"label": int(denied), "answer": None if denied else agent_output}
    """
    exit_status, report = compiler(program(body), options=("--rounds", 0))
    assert (exit_status, failing(report)) == (1, {"substituted_profile"})
    notes = [failure["note"] for test in report["tests"] for failure in test["failures"]]
    assert notes == [f"Loans: {loans} instead of 0" for loans in (5, 7, 6, 99, 9, 1000)]


def test_a_transformation_can_be_left_out(compiler: Compiler) -> None:
    """A transformation can be excluded if its change matters; the report says so."""
    options = ("--rounds", 0, "--without", "changed_ids")
    exit_status, report = compiler(program(IDS), options=(*options, "--without", "substituted_profile"))
    assert exit_status == 0
    assert {finding["message"] for finding in report["findings"] if finding["kind"] == "skipped"} == {
        "the transformation 'changed_ids' was excluded",
        "the transformation 'substituted_profile' was excluded",
    }
    exit_status, report = compiler(GOOD, options=("--without", "changed_id"))
    assert (exit_status, "did you mean 'changed_ids'" in report["error"]) == (2, True)


@pytest.mark.slow
def test_details_that_an_example_names_are_examined(compiler: Compiler) -> None:
    """Others may stand beside them, and the order of a list does not count; the report says which test a label."""
    named = [row | {"details": {"loans": str(loans)}} for row, loans in zip(EXAMPLES, [0, 5, 3, 7, 3], strict=False)]
    (compiler.home / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*named, EXAMPLES[5]]))
    exit_status, report = compiler(block(RIGHT.replace('"loans": loans', '"loan": loans')), GOOD)
    assert exit_status == 0
    assert 'details {"loans": "5"}' in compiler.prompts[2]
    assert "these examples have no details and test the label only: e5" in str(report["findings"])
    (compiler.home / "examples.jsonl").write_text(json.dumps(EXAMPLES[0] | {"details": [1]}) + "\n")
    exit_status, report = compiler(GOOD)
    assert (exit_status, "key 'details' is not an object" in report["error"]) == (2, True)


def test_an_answer_is_examined(compiler: Compiler) -> None:
    """Unchanged where the run is allowed; where it is denied, none."""
    for wrong in (
        RIGHT.replace('field(agent_output, "Answer")', '"Well: " + field(agent_output, "Answer")'),
        RIGHT.replace("None if denied else ", ""),
    ):
        exit_status, report = compiler(block(wrong), options=("--rounds", 0))
        assert (exit_status, failing(report)) == (1, {"answers"})


@pytest.mark.slow
def test_a_regular_expression_in_place_of_a_parser_goes_back_once(compiler: Compiler) -> None:
    """A version that passes is accepted after one round of advice; the report keeps the advice."""
    odd = block(
        "import re\n\n\n"
        + RIGHT.replace("    denied,", "    re.findall(r'\"lent\": *(\\d+)', agent_output)\n    denied,")
    )
    exit_status, report = compiler(odd)
    assert (exit_status, report["model_calls"]) == (0, 3)
    message = "matches JSON with a regular expression; expected a parser: 'JSONDecoder' or 'loads'"
    assert message in compiler.prompts[2]
    assert [finding["kind"] for finding in report["findings"] if message in finding["message"]] == ["unparsed"]
    better, worse = block(RIGHT), block(RIGHT.replace("loans, 5", "loans, 6"))
    assert "re.findall" not in compiler(odd, better)[1]["written"] + compiler.out.read_text()
    exit_status, report = compiler(odd, worse, options=("--rounds", 1))
    assert (exit_status, "re.findall" in compiler.out.read_text()) == (0, True)


@pytest.mark.slow
def test_several_candidates_are_compared(compiler: Compiler) -> None:
    """The first candidate is chosen if the candidates never disagree."""
    other = block(RIGHT.replace('field(agent_input, "Loans")', 'agent_input.split("Loans: ")[1].split("\\n")[0]'))
    exit_status, report = compiler(other, text(PLAN), GOOD, options=("--candidates", 2))
    assert (exit_status, report["chosen"]) == (0, 1)
    assert [candidate["passed"] for candidate in report["candidates"]] == [True, True]
    assert not report["disagreements"]


@pytest.mark.slow
def test_candidates_that_disagree_are_shown(compiler: Compiler) -> None:
    """The report lists inputs on which the candidates disagree; the one that denies more of them is chosen."""
    strict = block(RIGHT.replace("loans, 5", "loans, 4"))
    exit_status, report = compiler(GOOD, text(PLAN), strict, options=("--candidates", 2))
    assert (exit_status, report["chosen"]) == (0, 2)
    assert "loans, 4" in compiler.out.read_text()
    disagreements = report["disagreements"]
    assert {row["note"] for row in disagreements} == {"Loans: 4 instead of 3", "Loans: 4 instead of 5"}
    assert (disagreements[0]["example"], disagreements[0]["given"]) == ("e1", {"1": "label 0", "2": "label 1: 4 of 4"})
    assert "Loans: 4" in disagreements[0]["agent_input"]


@pytest.mark.slow
def test_a_candidate_that_fails_is_left_behind(compiler: Compiler) -> None:
    """One that passes is enough, also where the model falls silent after it."""
    exit_status, report = compiler(WRONG, text(PLAN), GOOD, options=("--candidates", 2, "--rounds", 0))
    assert (exit_status, report["chosen"]) == (0, 2)
    assert [candidate["passed"] for candidate in report["candidates"]] == [False, True]
    exit_status, report = compiler(GOOD, status(401), options=("--candidates", 3))
    assert (exit_status, len(report["candidates"])) == (0, 1)


@pytest.mark.parametrize("reply", [status(401), pytest.param(Reply(raw=True), marks=pytest.mark.slow)])
def test_a_model_that_does_not_answer_is_exit_3(compiler: Compiler, reply: Reply) -> None:
    """Nothing was checked, and nothing is written."""
    exit_status, report = compiler(reply)
    assert (exit_status, compiler.out.exists()) == (3, False)
    assert "Traceback" not in report["error"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([EXAMPLES[0]], "no example has label 1"),
        ([*EXAMPLES, EXAMPLES[0]], "'e0' appears twice"),
        ([*EXAMPLES, EXAMPLES[0] | {"id": "x", "label": 1}], "the same run with different labels"),
        ([EXAMPLES[0] | {"label": "0"}], "key 'label' is '0'; expected the number 0 or 1"),
        ([EXAMPLES[0] | {"label": True}], "key 'label' is True"),
        ([{"id": "x", "agent_input": "a", "agent_ouput": "b", "label": 1}], "did you mean 'agent_ouput'"),
        ([EXAMPLES[0] | {"agent_output": " "}], "'agent_output' is empty"),
        ([EXAMPLES[0] | {"facts": [1]}], "'facts' is not an object"),
        ([EXAMPLES[0], EXAMPLES[1] | {"clauses": [3]}], "example 'e1': key 'clauses' has the unknown sentence 3"),
        ([EXAMPLES[1] | {"label": 0}, EXAMPLES[3]], "a required check of the specification denies it"),
    ],
)
def test_examples_that_prove_nothing_are_wrong_input(
    compiler: Compiler, rows: list[dict[str, object]], message: str
) -> None:
    """Exit 2, before a model is asked."""
    (compiler.home / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    exit_status, report = compiler(GOOD)
    assert (exit_status, message in report["error"], compiler.prompts) == (2, True, []), report["error"]


def test_the_other_ways_to_be_wrong_input(compiler: Compiler, cli: Cli, lending: Path) -> None:
    """Nothing to compile, nowhere to write, no model."""
    examples = ["--examples", lending / "examples.jsonl"]
    assert cli("compile", *examples, "-o", compiler.out).status == 2
    assert compiler(GOOD, options=("-o", lending / "nowhere" / "p.py"))[0] == 2
    assert compiler(GOOD, options=("--specification", lending / "nowhere"))[0] == 2
    ran = cli("compile", "--agent", "lending", *compiler.folders, *examples, "-o", compiler.out)
    assert (ran.status, "GUARDAGENT_MODEL" in ran.err) == (3, True)


@pytest.mark.slow
def test_a_request_of_ones_own_is_compiled_from_its_files(compiler: Compiler, lending: Path) -> None:
    """Request and specification as files; the program then fits an agent's folder that holds the same."""
    own = lending / "memory" / "lending"
    files = ("--request", own / "request.md", "--specification", own / "specification.md")
    server = compiler.serve([text(PLAN), text(GOOD)])
    examples = ("--examples", lending / "examples.jsonl", "--no-properties")
    ran = compiler.run(
        "compile", *files, *compiler.folders[2:], *examples, "-o", compiler.out, "--model", "openai/test"
    )
    assert (ran.status, len(server.requests)) == (0, 2)
    for words in ("PASSED", "6 of 6", "1. A member may borrow", "Written to"):
        assert words in ran.out
    guard = GuardAgent(agent="lending", memory=lending / "memory", toolbox=lending / "tools")
    assert (guard.stale, guard.program is not None) == ("", True)
    (own / "request.md").write_text(REQUEST.replace("five", "six"))
    guard = GuardAgent(agent="lending", memory=lending / "memory", toolbox=lending / "tools")
    assert "the request has changed" in guard.guard("a", "b").errors[0]


def test_the_library_gives_a_checker(lending: Path) -> None:
    """`GuardAgent.compile`: a Check that asks no model, or an error with the report."""
    folders = {"memory": lending / "memory", "toolbox": lending / "tools"}
    model = ScriptedModel([PLAN, GOOD])
    compiled = GuardAgent(agent="lending", model=model, **folders).compile(EXAMPLES, properties=False)  # type: ignore[arg-type]
    verdict = compiled.guard("Member: M-1\nLoans: 9\nQuestion: Dune?", "Lend: Dune\nAnswer: No.")
    assert (verdict.label, verdict.reasons, len(model.requests)) == (1, ("9 of 5",), 2)
    assert compiled.guard("Loans: 1", "Answer: Yes.", facts={"loans": "7"}).label == 1
    compiled.save(lending / "p.py")
    assert parse((lending / "p.py").read_text(), "p.py")[0] == compiled.header
    again = GuardAgent(agent="lending", model=ScriptedModel([PLAN, WRONG]), **folders)  # type: ignore[arg-type]
    with pytest.raises(NotCompiledError, match="e1: expected label 1, got label 0") as refused:
        again.compile(lending / "examples.jsonl", rounds=0, properties=False)
    assert not refused.value.report.passed


@pytest.mark.slow
def test_an_answer_that_is_a_program_needs_no_plan(compiler: Compiler) -> None:
    """And where no plan can be had, the request must do."""
    server = compiler.serve([text(GOOD)])
    run = ["--agent", "lending", *compiler.folders, "--examples", compiler.home / "examples.jsonl", "--no-properties"]
    assert compiler.run("compile", *run, "--model", "openai/test", "-o", compiler.out).status == 0
    assert len(server.requests) == 1
    server = compiler.serve([text("I have none."), text(""), text(GOOD)])
    assert compiler.run("compile", *run, "--model", "openai/test", "-o", compiler.out, "--rounds", 1).status == 0
    assert len(server.requests) == 3


def test_the_prompt_shows_no_held_back_example(lending: Path) -> None:
    """Some examples of both labels, fenced, with the request; never what is redacted, and never an example's id."""
    model = ScriptedModel([PLAN, GOOD])
    folders = {"memory": lending / "memory", "toolbox": lending / "tools", "redact": [r"book \d"]}
    GuardAgent(agent="lending", model=model, **folders).compile(EXAMPLES, properties=False)  # type: ignore[arg-type]
    prompt = "\n".join(message.content for messages in model.requests for message in messages)
    assert "1. A member may borrow a book only while fewer than five are on loan." in prompt
    assert "Loans: 5" in prompt
    assert "check_loans(loans: str, limit: int)" in prompt
    assert "book 1" not in prompt
    assert "e1" not in prompt.split()
    assert SPECIFICATION.split("---\n")[2].strip() in prompt
