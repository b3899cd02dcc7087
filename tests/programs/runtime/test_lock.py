"""Lock files: nothing runs that does not stand in them as it is."""

from __future__ import annotations

import importlib.util
import json
import py_compile
import shutil
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from guardagent import GuardAgent, InputError, guard, load_policies
from guardagent._support.files import shipped_folder
from tests.conftest import Cli, Write

PROGRAM = """
    def check(agent_input, agent_output, facts):
        check_quiet(agent_output)
        return {"label": 0, "answer": agent_output}
    """
TOOL = '''
    from ._words import LOUD


    def check_quiet(text: str) -> tuple[bool, str]:
        """Whether a text is quiet."""
        return LOUD in text, ""
    '''
POLICIES = """
    version: 1
    toolbox: [tools/quiet.py]
    policies:
      - {id: quiet, request: Be quiet., program: programs/quiet.py}
      - {id: order, temporal: "G !tool:shout"}
    """


@pytest.fixture
def home(agent_folder: Callable[..., Path], write: Write, cli: Cli) -> Path:
    """An agent, a toolbox, templates and policies of one's own, all of them locked."""
    memory = agent_folder(PROGRAM)
    write("tools/quiet.py", TOOL)
    write("tools/_words.py", 'LOUD = "HEY"\n')
    write("programs/quiet.py", PROGRAM)
    write("policies.yaml", POLICIES)
    write("cases.jsonl", '{"id": "1", "history": [], "proposed": {"tool": "say", "args": {}}}\n')
    shutil.copytree(shipped_folder("prompts"), memory.parent / "prompts")
    home = memory.parent
    made = cli(
        *("lock", "-o", home / "lock.json", "--memory", memory, "--agent", "echo", "--toolbox", home / "tools"),
        *("--prompts", home / "prompts", "--policies", home / "policies.yaml", "--json"),
    )
    assert made.status == 0, made.err
    assert json.loads(made.out)["files"]["agent"] == 2
    return home


def make(home: Path, **options: object) -> GuardAgent:
    folders = {"memory": home / "memory", "toolbox": home / "tools", "prompts": home / "prompts"}
    return GuardAgent(agent="echo", locked=home / "lock.json", **folders, **options)  # type: ignore[arg-type]


def changed(path: Path) -> None:
    path.write_text(path.read_text() + "\n")


def test_what_is_locked_runs(home: Path, cli: Cli, write: Write) -> None:
    """In a guard, by itself, and in policies."""
    assert make(home).guard("a", "b").label == 0
    files = ["--input", write("i.txt", "a"), "--output-log", write("o.txt", "b"), "--locked", home / "lock.json"]
    own = ["--toolbox", home / "tools", "--prompts", home / "prompts"]
    assert cli("guard", "--agent", "echo", "--memory", home / "memory", *own, *files).status == 0
    assert cli("run", home / "programs" / "quiet.py", *own[:2], *files).status == 0
    load_policies(home / "policies.yaml", locked=home / "lock.json")
    judged = [home / "cases.jsonl", "--policies", home / "policies.yaml", "--locked", home / "lock.json"]
    assert cli("check", *judged).status == 0


@pytest.mark.parametrize(
    "file",
    [
        "memory/echo/program.py",
        "memory/echo/request.md",
        "memory/echo/specification.md",
        "tools/quiet.py",
        "tools/_words.py",
        "prompts/plan.j2",
    ],
)
def test_a_guard_refuses_what_changed(home: Path, file: str) -> None:
    """And names the file; the same for the function `guard`, which keeps guards."""
    folders = {"memory": home / "memory", "toolbox": home / "tools", "prompts": home / "prompts"}
    options = {"agent": "echo", "locked": home / "lock.json", **folders}
    assert guard(None, "a", "b", **options).label == 0  # type: ignore[arg-type]
    changed(home / file)
    with pytest.raises(InputError, match=f"{Path(file).name}: has changed since it was locked"):
        make(home)
    with pytest.raises(InputError, match="has changed since"):
        guard(None, "a", "b", **options)  # type: ignore[arg-type]


def test_unlocked_content_is_refused(home: Path, write: Write, cli: Cli) -> None:
    """New files, other agents, and a locked file in another one's place. Nothing of them runs."""
    evil = write("tools/more.py", 'def more() -> int:\n    """M."""\n    return 1\n\n\nraise RuntimeError("ran")\n')
    with pytest.raises(InputError, match=r"more\.py: is not in the lock file"):
        make(home)
    evil.unlink()
    shutil.copytree(home / "memory" / "echo", home / "memory" / "other")
    with pytest.raises(InputError, match="is not in the lock file"):
        GuardAgent(agent="other", memory=home / "memory", locked=home / "lock.json")
    files = ["--input", write("i.txt", "a"), "--output-log", write("o.txt", "b"), "--locked", home / "lock.json"]
    ran = cli("run", write("free/quiet.py", PROGRAM), "--toolbox", home / "tools", *files)
    assert (ran.status, "free/quiet.py" in ran.err) == (2, True)


def other(home: Path, file: str) -> Path:
    """A source that would let everything pass, and leaves a trace when it runs."""
    path = home / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"import pathlib\npathlib.Path({str(home / 'ran')!r}).touch()\nLOUD = 'nothing'\n")
    return path


def compiled(home: Path) -> None:
    cached = importlib.util.cache_from_source(str(home / "tools" / "_words.py"))
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH  # Python runs it and never looks at the source
    py_compile.compile(str(other(home, "elsewhere.py")), cached, invalidation_mode=unchecked)


def native(home: Path) -> None:
    (home / "tools" / f"_words{EXTENSION_SUFFIXES[0]}").write_bytes(b"Python would load this one first")


@pytest.mark.parametrize("put", [compiled, native])
def test_nothing_takes_the_place_of_a_locked_file(home: Path, put: Callable[[Path], None]) -> None:
    """A toolbox is its sources: Python would take what lies beside them."""
    put(home)
    assert make(home).guard("a", "HEY").label == 1
    assert not (home / "ran").exists()


def test_a_package_in_a_locked_files_place_is_refused(home: Path) -> None:
    """Python would import it, but it is not in the lock file."""
    other(home, "tools/_words/__init__.py")
    with pytest.raises(InputError, match=r"__init__\.py: is not in the lock file"):
        make(home)
    assert not (home / "ran").exists()


def test_what_no_import_shows_is_not_imported(home: Path, cli: Cli, write: Write) -> None:
    """By a name that is put together, for one: what the lock file does not cover stays out."""
    other(home, "tools/_hidden.py")
    start = "import importlib\n\nimportlib.import_module('._hidden', __package__)\n"
    write("tools/loose.py", start + 'def loose() -> int:\n    """L."""\n    return 1\n')
    locked = cli("lock", "-o", home / "lock.json", "--memory", home / "memory", "--toolbox", home / "tools")
    assert locked.status == 0
    with pytest.raises(InputError, match=r"loose\.py:3: .*an import in this toolbox folder names"):
        GuardAgent(agent="echo", locked=home / "lock.json", memory=home / "memory", toolbox=home / "tools")
    assert not (home / "ran").exists()


@pytest.mark.parametrize("file", ["policies.yaml", "tools/quiet.py", "programs/quiet.py"])
def test_policies_refuse_what_changed(home: Path, cli: Cli, file: str) -> None:
    """Before anything of them runs."""
    changed(home / file)
    with pytest.raises(InputError, match=f"{Path(file).name}: has changed"):
        load_policies(home / "policies.yaml", locked=home / "lock.json")
    ran = cli("check", home / "cases.jsonl", "--policies", home / "policies.yaml", "--locked", home / "lock.json")
    assert ran.status == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "is not a lock file"),
        ('{"guardagent_lock": 2, "files": {}}', "expected 1"),
        ('{"guardagent_lock": 1, "files": {"program": {"a": "b"}}}', "expected names"),
        ('{"guardagent_lock": 1, "files": {"programs": {}}}', "expected kinds among 'agent', 'program'"),
        ('{"guardagent_lock": 1, "files": {}}', "is not in the lock file"),
    ],
)
def test_an_invalid_lock_file_locks_everything(write: Write, text: str, message: str) -> None:
    """It is an error, never a lock that is open."""
    with pytest.raises(InputError, match=message):
        GuardAgent(agent="ehragent", locked=write("lock.json", text))


def test_the_shipped_content_is_locked_without_a_name(cli: Cli, tmp_path: Path) -> None:
    """All that may run of it, in words too; a folder that is not there is wrong input."""
    made = cli("lock", "-o", tmp_path / "lock.json")
    assert (made.status, "program 3" in made.out) == (0, True)
    assert GuardAgent(agent="csqa", locked=tmp_path / "lock.json").guard("a", "b").errors
    assert cli("lock", "-o", tmp_path / "no" / "lock.json").status == 2
    assert cli("lock", "-o", tmp_path / "lock.json", "--agent", "nobody").status == 2
