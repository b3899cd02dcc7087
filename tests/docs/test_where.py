"""docs/where.md has the file of each command and public name; it and docs/architecture.md name files that exist."""

import re
from collections.abc import Iterator

import pytest

import guardagent
from guardagent.cli.commands import COMMANDS, LazyCommand
from tests.docs.test_docs import ROOT
from tests.docs.test_imports import Imported, mentioned, of_pages

PAGE = (ROOT / "docs" / "where.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"\w+/[\w./]*")
FOLDERS = [ROOT, ROOT / "guardagent", ROOT / "guardagent" / "policy"]


def rows(heading: str) -> Iterator[list[list[str]]]:
    """Yields the code of each cell, for the rows of the table below a heading."""
    table = PAGE.partition(f"## … {heading}\n")[2].partition("\n## ")[0]
    for line in re.findall(r"^\| (`.+) \|$", table, re.MULTILINE):
        yield [CODE.findall(cell) for cell in line.split(" | ")]


def commands() -> dict[str, str]:
    return {name: file for names, [file], _ in rows("find the code of a command?") for name in names}


def files_of_names() -> dict[Imported, str]:
    table = rows("find the code of a public name?")
    return {Imported(module, name): file for [module], names, [file] in table for name in names}


def paths() -> set[str]:
    """Returns the paths that the two pages name; NAME stands for the name of a framework."""
    paths = {path for page in (PAGE, ARCHITECTURE) for path in CODE.findall(page) if PATH.fullmatch(path)}
    for drawing in re.findall(r"^```text\n(.*?)^```", ARCHITECTURE, re.MULTILINE | re.DOTALL):
        paths |= set(PATH.findall(drawing))
    return {path.replace("NAME", "langgraph") for path in paths}


def test_each_command_has_a_row_with_its_file() -> None:
    """The file is that of the function, and for a group that of all its commands."""
    files = {
        name: {
            f"cli/{entry.module}.py"
            for entry in ([place] if isinstance(place, LazyCommand) else place.entries.values())
        }
        for name, place in COMMANDS.items()
    }
    assert {name: {file} for name, file in commands().items()} == files


def test_each_public_name_has_a_row() -> None:
    """These are the names of `guardagent`, and those that the pages import from a module that does not define them."""
    imported = {Imported("guardagent", name) for name in guardagent.__all__} | of_pages() | set(mentioned())
    listed = {file.name for file in files_of_names()}
    missing = {
        public_name
        for public_name in imported
        if public_name.name not in listed and not public_name.module.startswith("guardagent.frameworks")
    }
    missing = {public_name for public_name in missing if public_name.name and not is_module(public_name)}
    assert {
        public_name
        for public_name in missing
        if not any(is_defined(public_name, file) for file in own_files(public_name))
    } == set()


def is_module(imported: Imported) -> bool:
    path = ROOT.joinpath(*imported.module.split("."), imported.name)
    return path.is_dir() or path.with_suffix(".py").exists()


def own_files(imported: Imported) -> list[str]:
    folder = imported.module.removeprefix("guardagent").replace(".", "/").removeprefix("/")
    return [f"{folder}.py", f"{folder}/__init__.py"]


@pytest.mark.parametrize(("imported", "file"), files_of_names().items(), ids=str)
def test_a_public_name_is_defined_in_its_file(imported: Imported, file: str) -> None:
    assert is_defined(imported, file)


def is_defined(imported: Imported, file: str) -> bool:
    """Whether a file of the package defines a name."""
    path = ROOT / "guardagent" / file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return bool(
        re.search(rf"^(?:class|def|async def) {imported.name}\b|^{imported.name}\b(?:: .*)? = ", text, re.MULTILINE)
    )


def test_the_pages_name_existing_files() -> None:
    """Paths begin at the repository or at the package; those about the language also at its room."""
    assert {path for path in paths() if not any((folder / path).exists() for folder in FOLDERS)} == set()
    assert {"cli/policies.py", "session/session.py", "language/language.lark", "tests/policy/lint_cases.py"} <= paths()
