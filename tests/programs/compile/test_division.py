"""A large request in parts: divided, compiled part by part over HTTP, folded into one program, and tried as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from guardagent import GuardAgent
from guardagent.errors import AnswerError
from guardagent.models.backends.scripted import ScriptedModel
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.folding import DIVIDE_ABOVE, RequestPart, fold_programs, problem_of, read_division
from guardagent.programs.compile.request import Clause, clauses_of
from guardagent.programs.compile.trial import RunOutcome, Trial
from guardagent.sandbox import load_sandbox
from guardagent.sandbox.toolbox import Toolbox
from tests.models.server import Reply, text
from tests.programs.generation.answers import block

from .conftest import SPECIFICATION, TOOL, Compiler

SENTENCES = """\
The agent lends books of a library.
A member may borrow a book only while fewer than five are on loan.
A blocked member borrows nothing.
Books of the reading room are not lent; a member's own copy is.
"""
DIVISION = '{"parts": [[2], [3], [4]], "context": [1]}'
MORE_TOOLS = '''

def check_never(found: bool, what: str) -> tuple[bool, dict[str, str]]:
    """Denies what was found, since it may never be."""
    return bool(found), {what: "never"} if found else {}
'''
LOANS = """\
LIMIT = 5


def value_of(agent_input, facts):
    return str(facts["loans"]) if "loans" in facts else field(agent_input, "Loans")


def check(agent_input, agent_output, facts):
    denied, why = check_loans(value_of(agent_input, facts), LIMIT)
    return {"label": int(denied), "reasons": list(why.values()), "details": {"broken": ["loans"] if denied else []},
            "answer": None if denied else field(agent_output, "Answer")}
"""
# The same names as above, with other meanings.
BLOCKED = """\
LIMIT = "blocked"


def value_of(agent_input):
    return field(agent_input, "Status").lower()


def check(agent_input, agent_output, facts):
    # clause 3
    denied, why = check_never(value_of(agent_input) == LIMIT, "a blocked member")
    return {"label": int(denied), "reasons": ["blocked"] if denied else [], "details": {"broken": ["blocked"]} if denied
            else {}, "answer": None if denied else field(agent_output, "Answer")}
"""
ROOM = '''\
LIMIT = """Reading
    room"""


def check(agent_input, agent_output, facts):
    denied, why = check_never(field(agent_input, "Shelf").lower() == LIMIT.split()[0].lower(), "the reading room")
    if denied and "own copy" in agent_output:
        denied = denied and True
    return {"label": int(denied), "answer": None if denied else field(agent_output, "Answer")}
'''
GOOD = {2: [LOANS], 3: [BLOCKED], 4: [ROOM]}


def run(number: int, label: int, loans: int = 1, status: str = "member", shelf: str = "open", **more: object) -> Any:
    agent_input = (
        f"Member: M-{10234 + 111 * number}\nLoans: {loans}\nStatus: {status}\nShelf: {shelf}\nQuestion: Book {number}?"
    )
    return {
        "id": f"e{number}",
        "agent_input": agent_input,
        "agent_output": f"Answer: Here is {number}.",
        "label": label,
    } | more


ALLOWED = [run(0, 0), run(1, 0, 4), run(2, 0, 3)]
RUNS = [*ALLOWED, run(3, 1, 5), run(4, 1, 7), run(5, 1, 2, "blocked"), run(6, 1, 1, "member", "reading")]
FAST = ("--crosshair", 0, "--divide", "always", "--no-properties")


class Dividing:
    """Compiles with a server that answers for each part in its turn; the last answer of a part is repeated.

    Attributes:
        prompts: part -> the prompts for it.
    """

    def __init__(self, compiler: Compiler, request: str = SENTENCES) -> None:
        self.compiler = compiler
        own = compiler.home / "memory" / "lending"
        (own / "request.md").write_text(request)
        (own / "specification.md").write_text(SPECIFICATION)
        (compiler.home / "tools" / "loans.py").write_text(TOOL + MORE_TOOLS)
        self.examples(RUNS)
        self.prompts: dict[int, list[str]] = {}

    def examples(self, rows: list[dict[str, object]]) -> None:
        (self.compiler.home / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def __call__(
        self, answers: dict[int, list[str]], division: str = DIVISION, options: tuple[object, ...] = FAST
    ) -> tuple[int, dict[str, Any]]:
        def reply(request: dict[str, Any]) -> Reply:
            system = request["messages"][0]["content"]
            head, found, part = system.partition("Write the program for this part of it alone:\n")
            number = int(part.split(".")[0]) if found else 0
            prompts = self.prompts.setdefault(number, [])
            prompts.append(head + part + request["messages"][-1]["content"])
            if not found:
                return text(division)
            made = answers[number][min(len(prompts), len(answers[number])) - 1]
            return text(made if "```" in made else block(made))

        self.prompts = {}
        self.compiler._serve(reply)
        home, out = self.compiler.home, self.compiler.out
        agent = ["--agent", "lending", *self.compiler.folders, "--examples", home / "examples.jsonl", "-o", out]
        ran = self.compiler.run("compile", *agent, "--model", "openai/test", "--json", *options)
        return ran.status, json.loads(ran.out) if ran.out else {"error": ran.err}

    @property
    def counts(self) -> dict[int, int]:
        return {number: len(prompts) for number, prompts in self.prompts.items()}


@pytest.fixture
def dividing(compiler: Compiler) -> Dividing:
    return Dividing(compiler)


def findings(report: dict[str, Any], kind: str) -> list[int | None]:
    return [one["clause"] for one in report["findings"] if one["kind"] == kind]


@pytest.mark.slow
def test_a_request_in_parts_becomes_one_program(dividing: Dividing) -> None:
    """Compiled part by part, also where the parts use the same names; it judges as the agent's program does."""
    exit_status, report = dividing(GOOD)
    assert exit_status == 0, report
    assert dividing.counts == {0: 1, 2: 1, 3: 1, 4: 1}
    home = dividing.compiler.home
    guard = GuardAgent(agent="lending", memory=home / "memory", toolbox=home / "tools")
    for row in RUNS:
        verdict = guard.guard(row["agent_input"], row["agent_output"])
        assert (verdict.label, verdict.errors, verdict.model_calls) == (row["label"], (), 0)
    worst = run(9, 1, 6, "blocked", "reading")
    verdict = guard.guard(worst["agent_input"], worst["agent_output"])
    assert verdict.reasons[:2] == ("6 of 5", "blocked")
    assert verdict.details["broken"] == ("loans", "blocked")
    assert guard.guard(ALLOWED[0]["agent_input"], ALLOWED[0]["agent_output"]).answer == "Here is 0."


@pytest.mark.slow
def test_the_prompt_of_a_part(dividing: Dividing) -> None:
    """The whole request, its part, the context, and of denied runs that it may be for another part."""
    dividing.examples([*RUNS, run(7, 1, 1, "blocked", clauses=[3])])
    dividing(GOOD, options=(*FAST, "--show", 20))
    prompt = dividing.prompts[3][0]
    for words in (
        SENTENCES.split("\n")[3],
        "3. A blocked member borrows nothing.\nThese sentences set no rule of their own, and hold for every part:\n1.",
        "label 1, for a sentence of this part",
        "label 1 of the whole request: perhaps for this part, perhaps for another",
    ):
        assert words in prompt
    assert "label 1, for the sentences 3: not of this part" in dividing.prompts[2][0]


@pytest.mark.slow
def test_the_report_maps_sentences_to_lines_and_examples(dividing: Dividing) -> None:
    """A sentence has the lines that name it, or all of its part; what the host wrote around them is no finding."""
    _, report = dividing(GOOD)
    written = dividing.compiler.out.read_text().split("\n")
    lines = {row["clause"]: [written[line - 1] for line in row["lines"]] for row in report["clauses"]}
    assert lines[1] == []
    assert "    LIMIT = 5" in lines[2]
    assert lines[3][0].strip().startswith("denied, why = check_never(")
    assert lines[4][0] == '    LIMIT = """Reading'
    assert [row.get("denies") for row in report["clauses"]] == [None, ["e3", "e4"], ["e5"], ["e6"]]
    assert [row["denies"] for row in report["parts"]] == [["e3", "e4"], ["e5"], ["e6"]]
    assert [(row["clauses"], row["versions"]) for row in report["parts"]] == [([2], 1), ([3], 1), ([4], 1)]
    assert (findings(report, "context"), findings(report, "uncovered"), findings(report, "unexercised")) == (
        [1],
        [],
        [],
    )
    unexecuted = [written[one["line"] - 1].strip() for one in report["findings"] if one["kind"] == "unexecuted"]
    assert unexecuted == ["denied = denied and True"]


@pytest.mark.slow
def test_a_part_that_names_the_sentence_of_another(dividing: Dividing) -> None:
    """Does not take that one's own lines from it."""
    _, report = dividing({**GOOD, 3: [BLOCKED.replace("# clause 3", "# clauses 2, 3")]})
    rows = {row["clause"]: row["lines"] for row in report["clauses"]}
    assert set(rows[3]) < set(rows[2])


@pytest.mark.slow
def test_a_part_that_no_example_exercises_is_a_finding(dividing: Dividing) -> None:
    """Nothing shows that its code ever denies."""
    dividing.examples(RUNS[:-1])
    exit_status, report = dividing(GOOD)
    assert (exit_status, findings(report, "unexercised")) == (0, [4])
    assert "the code for clause 4 denies no example" in str(report["findings"])


@pytest.mark.slow
def test_a_part_that_never_passes_is_named(dividing: Dividing) -> None:
    """It denies what is allowed: nothing is folded or written, and no further part is asked for."""
    everyone = BLOCKED.replace("== LIMIT", "!= LIMIT")
    exit_status, report = dividing({**GOOD, 3: [everyone]}, options=(*FAST, "--rounds", 1))
    assert (exit_status, dividing.compiler.out.exists(), dividing.counts) == (1, False, {0: 1, 2: 1, 3: 2})
    assert "the code for clause 3 did not pass alone (fails 3 of 3 runs)" in report["problems"][0]
    assert [(row["clauses"], row["passed"], row["versions"]) for row in report["parts"]] == [
        ([2], True, 1),
        ([3], False, 2),
    ]
    assert {one["example"] for one in report["parts"][1]["failures"]} == {"e0", "e1", "e2"}
    broken = dividing({**GOOD, 3: [BLOCKED.replace("check_never", "chek_never")]}, options=(*FAST, "--rounds", 0))
    assert "unknown function 'chek_never'; did you mean 'check_never'" in broken[1]["parts"][1]["problems"][0]


@pytest.mark.slow
def test_a_whole_program_that_fails_goes_back_to_the_part_at_fault(dividing: Dividing) -> None:
    """By the sentence that the example breaks; by what denies the example no more once it is changed; else to all."""
    blind = BLOCKED.replace("== LIMIT", '== "barred"')
    exit_status, report = dividing({**GOOD, 3: [blind, BLOCKED]})
    assert (exit_status, dividing.counts) == (0, {0: 1, 2: 2, 3: 2, 4: 2})
    assert "this part alone: label 0" in dividing.prompts[3][1]
    named = [row | {"clauses": [3]} if row["id"] == "e5" else row for row in RUNS]
    dividing.examples(named)
    exit_status, report = dividing({**GOOD, 3: [blind, BLOCKED]})
    assert (exit_status, dividing.counts, report["parts"][1]["versions"]) == (0, {0: 1, 2: 1, 3: 2, 4: 1}, 2)
    dividing.examples(RUNS)
    believes = ROOM.replace("denied, why", 'if "label 0" in agent_input:\n        agent_input = ""\n    denied, why')
    exit_status, report = dividing({**GOOD, 4: [believes, ROOM]})
    assert (exit_status, dividing.counts) == (0, {0: 1, 2: 1, 3: 1, 4: 2})
    assert "label 0" in dividing.prompts[4][1]


@pytest.mark.slow
def test_a_whole_program_that_never_passes_is_not_written(dividing: Dividing) -> None:
    """After the rounds the report names the part at fault."""
    other = LOANS.replace('field(agent_output, "Answer")', 'field(agent_output, "Answer")[:4]')
    exit_status, report = dividing({**GOOD, 2: [other]}, options=(*FAST, "--rounds", 1))
    assert (exit_status, dividing.compiler.out.exists(), dividing.counts) == (1, False, {0: 1, 2: 2, 3: 1, 4: 1})
    assert [row["passed"] for row in report["parts"]] == [False, True, True]
    assert "the parts do not agree on the answer" in report["parts"][0]["failures"][0]["given"]


@pytest.mark.slow
def test_properties_of_parts_are_tried_on_the_whole(dividing: Dividing) -> None:
    """Their helpers may have the same names; a breach goes back to the part whose property it is."""
    loans = (
        "def said(agent_input, facts):\n"
        "    return int(facts['loans'] if 'loans' in facts else field(agent_input, 'Loans')) >= 5\n\n\n"
        "def property_2(agent_input, agent_output, facts):\n    return 'deny' if said(agent_input, facts) else None\n"
    )
    blocked = (
        "def said(agent_input):\n    return field(agent_input, 'Status') in ('blocked', 'barred')\n\n\n"
        "def property_3(agent_input, agent_output, facts):\n    return 'deny' if said(agent_input) else None\n"
    )
    barred = BLOCKED.replace("== LIMIT", 'in (LIMIT, "barred")')
    answers = {**GOOD, 2: [block(LOANS) + block(loans)], 3: [block(BLOCKED) + block(blocked), block(barred)]}
    dividing.examples([*RUNS, run(7, 1, 5, "barred")])
    exit_status, report = dividing(answers)
    assert exit_status == 0, report["tests"]
    assert dividing.counts == {0: 1, 2: 1, 3: 2, 4: 1}
    assert {"property_2", "property_3"} <= {test["name"] for test in report["tests"]}
    wrong = {**GOOD, 2: [block(LOANS) + block(blocked)]}
    _, report = dividing(wrong, options=(*FAST, "--rounds", 0))
    assert "'property_3' belongs to another part; expected clause 2" in report["parts"][0]["problems"][0]


def test_short_requests_stay_whole(dividing: Dividing) -> None:
    """So do all that a person says, and those that the model does not divide."""
    whole = dividing({}, division=block(LOANS), options=("--rounds", 0, "--crosshair", 0))[1]
    assert (whole["parts"], whole["model_calls"], dividing.counts) == ([], 1, {0: 1})
    long = "\n".join(f"- Rule {number} holds." for number in range(DIVIDE_ABOVE + 1))
    (dividing.compiler.home / "memory" / "lending" / "request.md").write_text(long)
    dividing({}, division="{}", options=("--rounds", 0))
    assert "You divide a guard request" in dividing.prompts[0][0]
    assert "You write a guard program" in dividing.prompts[0][1]
    dividing({}, division="{}", options=("--rounds", 0, "--divide", "never"))
    assert "You divide" not in str(dividing.prompts)


def test_a_division_that_is_none(dividing: Dividing) -> None:
    """An invalid division goes back; without any, mode `always` fails; an unknown mode is wrong input."""
    exit_status, report = dividing(GOOD, division='{"parts": [[2], [3]]}', options=(*FAST, "--rounds", 1))
    assert (exit_status, len(dividing.prompts[0])) == (3, 2)
    assert "sentence 1 is missing; expected each number from 1 to 4 once" in report["error"]
    assert "sentence 1 is missing" in dividing.prompts[0][1]
    assert dividing(GOOD, options=("--divide", "alway"))[0] == 2
    dividing.examples([*RUNS, run(7, 1, 9, clauses=[7])])
    assert "example 'e7': key 'clauses' has the unknown sentence 7" in dividing(GOOD)[1]["error"]


@pytest.mark.parametrize(
    "answer",
    [
        "none",
        '{"parts": []}',
        '{"parts": [[1], []]}',
        '{"parts": [[1, 2], [2]]}',
        '{"parts": [[1], [true]]}',
        '{"parts": [[1], [2, 3]]}',
        '{"parts": [[1], [2]], "rest": []}',
        '{"parts": [[1], [2]], "context": [2]}',
        '{"parts": {"1": 2}}',
    ],
)
def test_each_sentence_has_its_place_once(answer: str) -> None:
    """Or it is no division."""
    with pytest.raises(AnswerError):
        read_division(answer, clauses_of("One. Two."))


def test_parts_in_the_order_of_the_request() -> None:
    """However the model orders them."""
    division = read_division('Here: {"parts": [[3], [2, 1]]}', clauses_of("One. Two. Three."))
    assert [part.name for part in division.parts] == ["clauses 1, 2", "clause 3"]


FORGED = "def check(agent_input, agent_output, facts):\n    return {'label': 0}\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def check(a, b, c):\n    global PARTS\n    PARTS = ()\n", "line 2: 'global' is not available"),
        (f"x = 1\n\f{FORGED}", "form feeds"),
        (f"if True:\n    x = 1\n\f    y = 2\n{FORGED}", "form feeds"),
        (f"return check\n{FORGED}", "has a 'return' outside a function"),
        (f'x = """\n  a\n""" + f"""{{\n1}}\n b"""\n{FORGED}', ""),
        (f'"""Doc."""\nfrom __future__ import annotations\n{FORGED}', ""),
        (f"x = (1 +\\\n2)\n{FORGED}", ""),
    ],
)
def test_indented_code_keeps_its_meaning(source: str, expected: str) -> None:
    """Word by word, or it is refused before it runs."""
    problem = problem_of(source)
    assert (expected in problem) if expected else (problem == "")


PARTS = [RequestPart((Clause(number, f"Sentence # clause 9 {number}."),)) for number in (1, 2)]


@pytest.mark.parametrize("engine", ["monty", "restricted"])
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("{'label': 1, 'reasons': ['a']}", "{'label': 1, 'reasons': ['b', 'a']}", RunOutcome(1, reasons=("a", "b"))),
        ("{'label': 0, 'answer': 'x'}", "{'label': 0, 'answer': 'x'}", RunOutcome(0, answer="x")),
        ("{'label': 0, 'answer': 'x'}", "{'label': 0, 'answer': None}", "do not agree on the answer"),
        ("{'label': 1, 'details': {'unknown': ['age']}}", "{'label': 0}", "missing information: clause 1: age"),
        (
            "{'label': 1, 'details': {'unknown': ['age']}}",
            "{'label': 1, 'reasons': ['b']}",
            RunOutcome(1, reasons=("b",)),
        ),
        ("{'label': 1, 'details': {'unknown': ['age']}}", "int('x')", "clause 2: invalid literal"),
        ("int('x')", "{'label': 1, 'reasons': ['b']}", RunOutcome(1, reasons=("b",))),
        ("{'label': 0}['x']", "{'label': 1, 'reasons': ['b']}", "KeyError"),
        ("{'label': 0, 'details': {'unknown': ['a']}}", "{'label': 0}", "gives no answer"),
        ("{'label': 2}", "{'label': 0}", "gives no answer"),
        ("json.loads('{')", "{'label': 1, 'reasons': ['b']}", "JSONDecodeError"),
        ("{'label': len(facts.pop('x')[0].pop('y')) - 1}", "{'label': len(facts['x'][0]['y']) - 1}", RunOutcome(0)),
        ("{'label': 0, 'details': {'n': 1}}", "{'label': 0, 'details': {'n': 2, 'risk': 'x'}}", RunOutcome(0)),
    ],
)
def test_the_most_severe_answer_stands(engine: str, first: str, second: str, expected: RunOutcome | str) -> None:
    """A denial over what is invalid, that over what is unknown, that over what passes; a crash over everything."""
    body = "import json\ndef check(agent_input, agent_output, facts):\n    check_access({}, {})\n    return "
    folded = fold_programs(dict(zip(PARTS, (body + first, body + second), strict=True)), Toolbox.load())
    trial = Trial(folded.source, load_sandbox(engine), Toolbox.load())
    outcome = trial.outcome(Example("x", "in", "out", 0, {"x": [{"y": "z"}]}))
    if isinstance(expected, RunOutcome):
        assert outcome == expected
    else:
        assert (outcome.label, expected in str(outcome)) == (1, True), outcome


def test_a_part_may_ask_for_a_function(dividing: Dividing) -> None:
    """As a whole program may; nothing is written but the proposal."""
    function = 'def check_fines(member: str) -> tuple[bool, dict[str, str]]:\n    """Fines."""\n    return False, {}\n'
    asks = (
        '{"missing_function": "check_fines", "why": "who owes"}\n'
        + block(function)
        + block("def test_a():\n    pass\n")
    )
    exit_status, report = dividing({**GOOD, 3: [asks]})
    assert (exit_status, [Path(one).name for one in report["proposed"]]) == (
        1,
        ["check_fines.py", "test_check_fines.py"],
    )
    assert "clause 3" in report["problems"][0]


@pytest.mark.slow
def test_a_part_may_dispute_its_sentence(dividing: Dividing) -> None:
    """A disputed sentence stops its part before folding, until the user accepts the dispute."""
    dispute = '{"disputed": "clause 3", "why": "no run says who is blocked"}\n' + block(BLOCKED)
    exit_status, report = dividing({**GOOD, 3: [dispute]})
    assert (exit_status, dividing.counts, [one["id"] for one in report["disputes"]]) == (
        1,
        {0: 1, 2: 1, 3: 1},
        ["clause-3"],
    )
    assert "disputes 'clause-3'" in report["problems"][0]
    exit_status, report = dividing({**GOOD, 3: [dispute]}, options=(*FAST, "--accept-dispute", "clause-3"))
    assert (exit_status, report["disputes"], report["set_aside"]) == (0, [], ["clause-3"])


@pytest.mark.slow
def test_several_candidates_share_one_division(dividing: Dividing) -> None:
    """Each writes all parts of its own; one of which a part fails is left behind."""
    everyone = BLOCKED.replace("== LIMIT", "!= LIMIT")
    exit_status, report = dividing({**GOOD, 3: [everyone, BLOCKED]}, options=(*FAST, "--candidates", 2, "--rounds", 0))
    assert (exit_status, report["chosen"], dividing.counts) == (0, 2, {0: 1, 2: 2, 3: 2, 4: 1})


@pytest.mark.slow
def test_the_library_divides_too(dividing: Dividing) -> None:
    """`GuardAgent.compile(divide=...)`."""
    home = dividing.compiler.home
    model = ScriptedModel([DIVISION, *(block(GOOD[number][0]) for number in (2, 3, 4))])
    guard = GuardAgent(agent="lending", model=model, memory=home / "memory", toolbox=home / "tools")
    compiled = guard.compile(RUNS, divide="always", properties=False)
    guard.close()
    assert [row.denies for row in compiled.report.parts] == [["e3", "e4"], ["e5"], ["e6"]]
    assert "clause 2: passed" in compiled.report.to_text()


@pytest.mark.slow
def test_the_program_is_for_people(dividing: Dividing, tmp_path: Path) -> None:
    """The sentence stands above its function; the report in words names the parts."""
    dividing(GOOD)
    source = dividing.compiler.out.read_text()
    assert '# Sentence 3. A blocked member borrows nothing.\ndef clause_3():\n    LIMIT = "blocked"\n' in source
    server = dividing.compiler._serve([text(DIVISION), *(text(block(GOOD[number][0])) for number in (2, 3, 4))])
    agent = ["--agent", "lending", *dividing.compiler.folders, "--examples", dividing.compiler.home / "examples.jsonl"]
    ran = dividing.compiler.run("compile", *agent, "-o", tmp_path / "p.py", "--model", "openai/test", *FAST)
    assert (ran.status, len(server.requests)) == (0, 4)
    assert "2. A member may borrow a book only while fewer than five are on loan.: lines" in ran.out
    assert "compiled in parts, each tested alone:\n  clause 2: passed, 1 version, denies e3, e4\n" in ran.out
