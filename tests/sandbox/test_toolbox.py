from pathlib import Path

import pytest

from guardagent import ContentError, InputError, Toolbox, UnknownNameError
from tests.conftest import Write

GREET = '''
    def greet(name: str, *, loud: bool = False) -> str:
        """A greeting.

        Args:
            name: whom.
        """
        return f"hello {name}"
    '''


def test_functions_are_described_without_running_their_file(write: Write) -> None:
    """Signature and docstring come from the source: a file that cannot run can still be listed."""
    path = write("tools/a.py", "raise RuntimeError('ran')\n")
    path.write_text(path.read_text() + "def f(x: int = 1) -> int:\n    'Adds.'\n")
    tool = Toolbox.load(path.parent)["f"]
    assert (tool.signature, tool.summary, tool.line) == ("f(x: int=1) -> int", "Adds.", 2)


def test_a_users_function_adds_to_the_shipped_ones(write: Write) -> None:
    """A folder or a single file can be added."""
    path = write("tools/greet.py", GREET)
    for where in (path, path.parent):
        toolbox = Toolbox.load(where)
        assert toolbox.call("greet", "Ada") == "hello Ada"
        assert "check_access" in toolbox


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f():\n    return 1\n", "a.py:1: function 'f' has no docstring"),
        ("\ndef f():\n    'x'\n\ndef f():\n    'y'\n", "a.py:5: function 'f' is already defined on line 2"),
        ("def check_access(a, b):\n    'x'\n", "already defined in"),
        ("async def f():\n    'x'\n", "expected a plain function"),
        ("def f(:\n", "a.py:1: not Python"),
        ("", "is empty"),
    ],
)
def test_a_wrong_file_is_an_error_at_load(write: Write, source: str, message: str) -> None:
    """No file is skipped: the message has the file, the line and what was expected."""
    with pytest.raises(ContentError, match=message.replace("(", r"\(")):
        Toolbox.load(write("tools/a.py", source).parent)


def test_the_same_name_in_two_files_names_both_places(write: Write) -> None:
    """The error for a duplicate has the location of the first one."""
    write("tools/a.py", "def f():\n    'x'\n")
    path = write("tools/b.py", "def f():\n    'x'\n")
    with pytest.raises(ContentError, match=r"b\.py:1: function 'f' is already defined in .*a\.py:1"):
        Toolbox.load(path.parent)


def test_a_file_that_fails_when_it_runs_is_located(write: Write) -> None:
    """The error has the line and the cause, and comes when the first function is needed."""
    toolbox = Toolbox.load(write("tools/a.py", "def f():\n    'x'\n\nLIMIT = 1 / 0\n").parent)
    with pytest.raises(ContentError, match=r"a\.py:4: running this toolbox file failed: ZeroDivisionError"):
        toolbox.call("f")


def test_an_unknown_name_or_folder_is_an_error(tmp_path: Path) -> None:
    """The nearest known name is suggested; an empty or missing folder is not ignored."""
    with pytest.raises(UnknownNameError, match="did you mean 'check_access'"):
        Toolbox.load().call("chek_access")
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError, match="expected"):
            Toolbox.load(folder)


def test_every_shipped_function_is_typed_and_documented() -> None:
    """Each has a return type and a summary sentence."""
    for tool in Toolbox.load().values():
        assert "->" in tool.signature, tool.name
        assert tool.summary.endswith((".", ":")), tool.name


def test_files_of_a_folder_may_share_private_ones(write: Write) -> None:
    """A file that begins with an underscore has no tools, and the others can import it."""
    write("tools/_shared.py", "LIMIT = 5\n")
    path = write(
        "tools/a.py", "from ._shared import LIMIT\n\ndef limit() -> int:\n    'The limit.'\n    return LIMIT\n"
    )
    toolbox = Toolbox.load(path.parent)
    assert toolbox.call("limit") == 5
    assert toolbox["limit"].path == path
