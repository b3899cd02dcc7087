import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent import ContentError, Demonstration, GuardAgent, InputError, Memory, UnknownNameError, retrieve
from guardagent.programs.lock import Lock, agents
from guardagent.programs.memory.agents import add_demonstrations, load_agent
from guardagent.programs.memory.retrieval import read_demonstrations
from tests.conftest import Write

GOOD = {"agent_input": "in", "agent_output": "out", "plan": ["1", "2", "3", "4"], "code": "pass"}


@pytest.mark.parametrize("name", ["ehragent", "seeact", "csqa"])
def test_the_shipped_agents_are_complete(name: str) -> None:
    """Each has a request, a specification, a program and at least three demonstrations."""
    agent = Memory().agent(name)
    assert len(agent.demonstrations) >= 3
    assert agent.request
    assert agent.specification
    assert agent.program


def test_a_program_needs_no_demonstrations(agent_folder: Callable[..., Path], write: Write) -> None:
    """It judges without a model; an agent without a program is nothing without them."""
    program = "def check(agent_input, agent_output, facts):\n    return {'label': 1, 'reasons': ['no']}\n"
    memory = agent_folder(program=program)
    (memory / "echo" / "demonstrations.jsonl").unlink()
    assert GuardAgent(agent="echo", memory=memory).guard("in", "out").reasons == ("no",)
    assert load_agent(memory / "echo").demonstrations == ()
    assert Lock.of(agents(memory / "echo"), "lock").files["program"].keys() == {"echo/program.py"}
    added = add_demonstrations(memory / "echo", write("new.jsonl", json.dumps(GOOD)))
    assert (added, len(load_agent(memory / "echo").demonstrations)) == (1, 1)
    (memory / "echo" / "demonstrations.jsonl").unlink()
    (memory / "echo" / "program.py").unlink()
    with pytest.raises(InputError, match=r"demonstrations\.jsonl: no such file"):
        load_agent(memory / "echo")


def test_a_users_folder_comes_before_the_shipped_one(agent_folder: Callable[..., Path]) -> None:
    """The first folder that has an agent wins; the others are still found."""
    memory = Memory(agent_folder(name="seeact"))
    assert memory.agent("seeact").request.startswith("The agent may not say")
    assert memory.agent("csqa")


def test_an_unknown_agent_is_named_with_the_nearest() -> None:
    """A misspelt agent is no permission to go on without one."""
    with pytest.raises(UnknownNameError, match="unknown agent 'ehragnet'; did you mean 'ehragent'"):
        Memory().agent("ehragnet")
    with pytest.raises(UnknownNameError):
        Memory().agent("../ehragent")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"plan": ["1", "2", "3"]}, "the plan has 3 steps; expected four"),
        ({"plan": "1 2 3 4"}, "expected four steps"),
        ({"plan": ["1", "2", " ", "4"]}, "expected four steps"),
        ({"code": ""}, "key 'code' is missing or empty"),
        ({"agent_imput": "x"}, "did you mean 'agent_input'"),
        ({"agent_input": 3}, "key 'agent_input' is missing or empty"),
    ],
)
def test_a_wrong_demonstration_says_line_and_expectation(write: Write, change: dict[str, Any], says: str) -> None:
    """Each is validated on entry, and nothing of the file is taken."""
    path = write("d.jsonl", json.dumps(GOOD) + "\n\n" + json.dumps(GOOD | change) + "\n")
    with pytest.raises(ContentError, match=says) as error:
        read_demonstrations(path)
    assert "d.jsonl:3" in str(error.value)


def test_duplicate_keys_are_errors_in_json_and_in_yaml(write: Write, agent_folder: Callable[..., Path]) -> None:
    """The second value of a key would silently hide the first."""
    with pytest.raises(ContentError, match=r"d\.jsonl:1: .*key 'code' appears twice"):
        read_demonstrations(write("d.jsonl", '{"code": "a", "code": "b"}'))
    folder = agent_folder(specification="---\ndata:\n  a: 1\n  a: 2\n---\ntext") / "echo"
    with pytest.raises(ContentError, match=r"specification\.md:4: key 'a' appears twice"):
        load_agent(folder)


def test_added_demonstrations_are_all_there_or_none(write: Write, agent_folder: Callable[..., Path]) -> None:
    """A file with one wrong line changes nothing."""
    folder = agent_folder() / "echo"
    other = json.dumps(GOOD | {"agent_output": "other"})
    assert add_demonstrations(folder, write("new.jsonl", json.dumps(GOOD) + "\n" + other)) == 2
    assert len(load_agent(folder).demonstrations) == 3
    with pytest.raises(ContentError, match=r"new\.jsonl:1: this demonstration exists already"):
        add_demonstrations(folder, write("new.jsonl", other))
    with pytest.raises(ContentError):
        add_demonstrations(folder, write("bad.jsonl", json.dumps(GOOD) + "\n" + json.dumps(GOOD | {"plan": []})))
    assert len(load_agent(folder).demonstrations) == 3
    with pytest.raises(InputError, match="is not the folder of an agent"):
        add_demonstrations(folder.parent / "other", write("new.jsonl", json.dumps(GOOD)))


def levenshtein(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


texts = st.text(alphabet="ab ", max_size=8)
memories = st.lists(st.builds(Demonstration, texts, texts, st.just(("", "", "", "")), texts), max_size=8)


@given(memories, texts, texts, st.integers(0, 9), st.booleans())
def test_retrieval_is_exactly_the_k_nearest(
    demonstrations: list[Demonstration], agent_input: str, agent_output: str, k: int, least: bool
) -> None:
    """As a plain implementation would have it, ties in the memory's order, in both directions."""
    sign = -1 if least else 1
    ranked = sorted(
        range(len(demonstrations)),
        key=lambda i: (
            sign
            * (
                levenshtein(demonstrations[i].agent_input, agent_input)
                + levenshtein(demonstrations[i].agent_output, agent_output)
            )
        ),
    )
    got = retrieve(demonstrations, agent_input, agent_output, k, least_similar=least)
    assert got == [demonstrations[i] for i in ranked[:k]]


FRONT = "---\nrequired_checks:\n  - check_access(input, output)\n---\nAn agent."


@pytest.mark.parametrize("text", [FRONT, FRONT.replace("\n", "\r\n"), "\ufeff" + FRONT, FRONT.replace("---", "---  ")])
def test_front_matter_is_found_however_its_lines_end(agent_folder: Callable[..., Path], text: str) -> None:
    """Editors of all kinds write the same specification."""
    folder = agent_folder() / "echo"
    (folder / "specification.md").write_bytes(text.encode())
    assert [check.text for check in load_agent(folder).required] == ["check_access(input, output)"]


@pytest.mark.parametrize(
    "text",
    [
        "\n" + FRONT,
        " " + FRONT,
        "# Title\n" + FRONT,
        FRONT.replace("---\nAn", "An"),
        FRONT.replace("---", "----"),
        FRONT.replace("---", "+++"),
        "```yaml\n" + FRONT.replace("---\n", ""),
        "---\ndata: {}\n---\n" + FRONT,
        FRONT.replace("  - check_access(input, output)\n", ""),
        FRONT.replace("required_checks", "required_check"),
        FRONT.replace("  - check", "  - 5\n  - check"),
    ],
)
def test_a_required_check_cannot_get_lost(agent_folder: Callable[..., Path], text: str) -> None:
    """Front matter that does not end, stands elsewhere or is empty is an error, not a text without checks."""
    folder = agent_folder() / "echo"
    (folder / "specification.md").write_text(text)
    with pytest.raises(ContentError, match=r"specification\.md"):
        load_agent(folder)


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("def check(a, b, c)\n    pass", "program.py:1: not valid Python"),
        ("def chek(a, b, c):\n    pass", "does not define a function 'check', only 'chek'; expected 'def check"),
        ("x = 1", "does not define a function 'check'; expected"),
        ("def check(a, b):\n    pass", "program.py:1: 'check' has other parameters; expected"),
    ],
)
def test_a_program_that_cannot_run_is_an_error_at_load(
    agent_folder: Callable[..., Path], program: str, says: str
) -> None:
    """Before the first run is judged, with the file's name."""
    with pytest.raises(ContentError, match=says):
        load_agent(agent_folder(program) / "echo")
