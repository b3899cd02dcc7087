"""Compiled programs: their header, what makes them stale, and what a guard does with those that are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent import ContentError, GuardAgent, InputError, Toolbox, guard, load_policies
from guardagent.models.backends.scripted import ScriptedModel
from guardagent.programs.program_file import (
    ExampleEvidence,
    Header,
    called_functions,
    digest_of,
    header_of,
    parse,
    staleness,
    whole_specification,
    write,
)
from guardagent.sandbox.toolbox import source_files
from tests.conftest import Cli, Write
from tests.programs.generation.answers import CODE, PLAN

REQUEST = "Nobody may have more than five."
SPECIFICATION = "It counts."
BODY = """\
def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    denied, why = check_count(int(agent_output), 5)
    return {"label": int(denied), "reasons": list(why.values()), "answer": None if denied else agent_output}
"""
TOOL = '''
from ._limits import words


def check_count(number: int, limit: int) -> tuple[bool, dict[str, str]]:
    """Whether there are too many."""
    return number > limit, words() if number > limit else {}


def other() -> int:
    """Nothing that the program calls."""
    return 1
'''
LIMITS = 'def words() -> dict[str, str]:\n    return {"limit": "too many"}\n'


@pytest.fixture
def memory(write: Write) -> Path:
    """An agent with a compiled program, and beside it a toolbox."""
    write("tools/count.py", TOOL)
    write("tools/_limits.py", LIMITS)
    write("memory/count/request.md", REQUEST)
    write("memory/count/specification.md", SPECIFICATION)
    write(
        "memory/count/demonstrations.jsonl",
        '{"agent_input": "a", "agent_output": "1", "plan": ["a", "b", "c", "d"], "code": "pass"}\n',
    )
    program = write("memory/count/program.py", "")
    program.write_text(write_program(program.parents[2] / "tools"))
    return program.parents[1]


def header(tools: Path, body: str = BODY) -> Header:
    toolbox = Toolbox.load(tools)
    return header_of(body, REQUEST, SPECIFICATION, toolbox, ExampleEvidence(digest_of("e"), 3, 3), model="test/m")


def write_program(tools: Path, body: str = BODY) -> str:
    return write(body, header(tools, body))


def make(memory: Path, **options: object) -> GuardAgent:
    return GuardAgent(agent="count", memory=memory, toolbox=memory.parent / "tools", **options)  # type: ignore[arg-type]


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_what_is_written_is_read_again(memory: Path) -> None:
    """Header and body, and line ends of another system change neither."""
    made, text = header(memory.parent / "tools"), write_program(memory.parent / "tools")
    assert parse(text, "p.py") == (made, BODY)
    assert parse(text.replace("\n", "\r\n"), "p.py") == (made, BODY)
    assert list(made.toolbox) == ["check_count"]
    assert parse(BODY, "p.py") == (None, BODY)
    assert make(memory).guard("a", "4").label == 0
    assert make(memory).guard("a", "6").label == 1


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("memory/count/request.md", "five", "six", "the request has changed"),
        ("memory/count/specification.md", "It counts", "---\ndata: {a: 1}\n---\nIt counts", "the specification has"),
        ("tools/count.py", "number > limit,", "number >= limit,", "'check_count' "),
        ("tools/_limits.py", "too many", "far too many", "'check_count' "),
        ("memory/count/program.py", '"answer": None', '"answer": 1', "edited after it was compiled"),
        ("memory/count/program.py", "n=3 passed=3", "n=9 passed=9", "the header was edited"),
        ("memory/count/program.py", "# model: test/m", "# model: test/n", "the header was edited"),
        ("memory/count/program.py", "# guardagent program 1", "# guardagent program 2", "is not a header of this"),
        ("memory/count/program.py", "# body", "# bodi", "the header was edited"),
        ("memory/count/program.py", "# model: ", "# examples: ", "the header was edited"),
        ("memory/count/program.py", "# guardagent", "x = 1\n# guardagent", "expected a header on the first line"),
    ],
)
def test_a_stale_program_is_refused(memory: Path, file: str, old: str, new: str, message: str) -> None:
    """Stale or forged: a denial that says what changed and what to do; a model takes over only where it may."""
    replaced(memory.parent / file, old, new)
    for mode in ("auto", "program"):
        verdict = make(memory, mode=mode).guard("a", "4")
        assert verdict.label == 1
        assert message in verdict.errors[0]
        assert "compile" in verdict.errors[0]
    code = CODE.replace("columns_read(agent_output)", "{}")
    assert make(memory, model=ScriptedModel([PLAN, code])).guard("a", "4").checked_by == "generated"


def test_a_forged_header_with_a_new_request_is_refused(memory: Path) -> None:
    """Whoever changes the request cannot make the old program fit by its digest alone."""
    other = "Nobody may have more than six."
    made = header(memory.parent / "tools")
    replaced(memory / "count" / "request.md", REQUEST, other)
    fresh = header_of(BODY, other, SPECIFICATION, Toolbox.load(memory.parent / "tools"), made.examples, model="m")
    replaced(memory / "count" / "program.py", made.request, fresh.request)
    assert "the header was edited" in make(memory).guard("a", "4").errors[0]


def test_what_the_program_does_not_depend_on_may_change(memory: Path) -> None:
    """Spaces, comments of the front matter, other files of the toolbox."""
    replaced(memory / "count" / "request.md", " ", "\n ")
    replaced(memory / "count" / "specification.md", "It counts", "---\n# nothing\nrequired_checks: []\n---\nIt  counts")
    (memory.parent / "tools" / "more.py").write_text('def more() -> int:\n    """More."""\n    return 1\n')
    assert make(memory).guard("a", "4").label == 0


def test_a_missing_function_is_reported_with_the_nearest(memory: Path) -> None:
    """One message lists all changes."""
    made = header(memory.parent / "tools")
    replaced(memory.parent / "tools" / "count.py", "def check_count", "def check_counts")
    message = staleness(made, "Other.", SPECIFICATION, Toolbox.load(memory.parent / "tools"))
    assert "the request has changed" in message
    assert "no longer exists; did you mean 'check_counts'" in message


def test_a_changed_file_counts_in_the_next_call_of_guard(memory: Path) -> None:
    """The public function keeps what it loaded only as long as the files stay the same."""
    options = {"agent": "count", "memory": str(memory), "toolbox": str(memory.parent / "tools")}
    assert guard(None, "a", "4", **options).label == 0  # type: ignore[arg-type]
    replaced(memory.parent / "tools" / "_limits.py", "too many", "many")
    assert "stale" in guard(None, "a", "4", **options).errors[0]  # type: ignore[arg-type]


def test_run_and_policies_refuse_it_too(memory: Path, cli: Cli, write: Write) -> None:
    """The program by itself is wrong input: where its toolbox changed, or the request that a policy states."""
    program, tools = memory / "count" / "program.py", memory.parent / "tools"
    files = ["--input", write("i.txt", "a"), "--output-log", write("o.txt", "4"), "--toolbox", tools]
    assert cli("run", program, *files).status == 0
    rule = "version: 1\ntoolbox: [tools/count.py]\npolicies: [{id: a, request: %s, program: memory/count/program.py}]\n"
    assert load_policies(write("good.yaml", rule % REQUEST))
    with pytest.raises(ContentError, match="the request has changed"):
        load_policies(write("bad.yaml", rule % "Something else."))
    replaced(tools / "count.py", "number > limit,", "number >= limit,")
    ran = cli("run", program, *files)
    assert (ran.status, "'check_count'" in ran.err) == (2, True)


def test_a_header_is_written_over_a_body_alone(memory: Path) -> None:
    """Two headers would leave open which of them counts; and a name of the model cannot forge a line."""
    tools = memory.parent / "tools"
    with pytest.raises(InputError, match="already has a header"):
        header(tools, write_program(tools))
    odd = header_of(BODY, "r", "s", Toolbox.load(tools), ExampleEvidence(digest_of(""), 1, 1), model="a\n# body: x")
    assert parse(write(BODY, odd), "p.py")[0] == odd
    with pytest.raises(ContentError, match="passed 1 of 2"):
        parse(
            write(
                BODY, header_of(BODY, "r", "s", Toolbox.load(tools), ExampleEvidence(digest_of(""), 2, 1), model="m")
            ),
            "p.py",
        )


def test_what_a_function_depends_on_is_followed_through_private_files() -> None:
    """Of a shipped function that imports a package of files; and names that are handed on count as called."""
    tool = Toolbox.load()["columns_read"]
    names = {path.name for path in source_files(tool.path)}
    assert {"ehr.py", "log.py", "vocabulary.py"} <= names
    assert "text.py" not in names
    assert called_functions("def check(a, b, c):\n    return list(map(word_count, a))\n", Toolbox.load()) == [
        "word_count"
    ]
    assert whole_specification("Text.") == "Text."
    assert whole_specification("Text.", ["check_a()"]) != whole_specification("Text.", [], {"a": 1})


UNDECIDED = """
    def check(agent_input, agent_output, facts):
        check_access({}, DATA)
        return {"label": LABEL, "details": {"unknown": UNKNOWN}, "reasons": []}
    """


def undecided(unknown: str = "['the age', 'the place']", label: str = "1", data: str = "{}") -> str:
    return UNDECIDED.replace("UNKNOWN", unknown).replace("LABEL", label).replace("DATA", data)


def test_a_program_that_cannot_decide_says_what_it_lacks(agent_folder: Callable[..., Path]) -> None:
    """Without a model that is a denial; with one, and in mode auto, code is generated."""
    memory = agent_folder(undecided())
    verdict = GuardAgent(agent="echo", memory=memory).guard("a", "b")
    assert verdict.errors == ("the program cannot decide; missing information: the age; the place",)
    assert verdict.details["unknown"] == ("the age", "the place")
    code = CODE.replace("columns_read(agent_output)", "{}")
    model = ScriptedModel([PLAN, code])
    assert GuardAgent(agent="echo", memory=memory, mode="program", model=model).guard("a", "b").errors
    assert not model.requests
    taken_over = GuardAgent(agent="echo", memory=memory, model=model).guard("a", "b")
    assert (taken_over.label, taken_over.checked_by, taken_over.model_calls) == (0, "generated", 2)


def test_what_a_check_denied_is_never_unknown(agent_folder: Callable[..., Path]) -> None:
    """A program cannot hand a denial over to a model."""
    model = ScriptedModel([PLAN, CODE])
    memory = agent_folder(undecided(data="{'salaries': ['all']}"))
    verdict = GuardAgent(agent="echo", memory=memory, model=model).guard("a", "b")
    assert (verdict.label, len(verdict.violations), model.requests) == (1, 1, [])


@pytest.mark.parametrize(
    ("unknown", "label", "message"),
    [
        ("'age'", "1", "expected a list of strings"),
        ("[1]", "1", "list of strings"),
        ("['age']", "0", "expected label 1"),
    ],
)
def test_invalid_unknown_details_are_an_error(
    agent_folder: Callable[..., Path], unknown: str, label: str, message: str
) -> None:
    """And denies."""
    memory = agent_folder(undecided(unknown, label))
    assert message in GuardAgent(agent="echo", memory=memory).guard("a", "b").errors[0]


def test_a_model_beside_a_program_is_loaded_on_demand(agent_folder: Callable[..., Path]) -> None:
    """So a program's verdicts need no key and no network; a model that cannot be loaded denies."""
    decided = GuardAgent(agent="echo", memory=agent_folder(undecided("[]", "0")), model="scripted/nowhere.jsonl")
    assert decided.guard("a", "b").label == 0
    guard = GuardAgent(agent="echo", memory=agent_folder(undecided()), model="scripted/nowhere.jsonl")
    assert "nowhere.jsonl: no such file" in guard.guard("a", "b").errors[0]
    guard.close()
