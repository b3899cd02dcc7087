"""Every import of the package in README and docs/ works, whether or not the host's framework is installed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from guardagent.errors import InputError

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
STATEMENT = re.compile(r"^\s*(from guardagent[\w.]* import (?:\([^)]*\)|[^\n]*)|import guardagent[\w.]*)", re.MULTILINE)
DOTTED = re.compile(r"`(guardagent(?:\.\w+)+)\.(\w+)`")  # two names are as often an attribute of a trace


class Imported(NamedTuple):
    module: str
    name: str


def imported_by(text: str) -> set[Imported]:
    """Returns the names that a text or a program imports from the package."""
    nodes = [node for match in STATEMENT.finditer(text) for node in ast.parse(match[1]).body]
    named = {
        Imported(str(node.module), name.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    return named | {Imported(name.name, "") for node in nodes if isinstance(node, ast.Import) for name in node.names}


def of_pages() -> set[Imported]:
    return {imported for page in PAGES for imported in imported_by(page.read_text(encoding="utf-8"))}


def mentioned() -> Iterator[Imported]:
    """Yields the dotted names in the sentences of the pages."""
    for page in PAGES:
        yield from (Imported(*names) for names in DOTTED.findall(page.read_text(encoding="utf-8")) if "." in names[0])


def exists(imported: Imported) -> bool:
    try:
        module = import_module(imported.module)
        return (
            not imported.name or hasattr(module, imported.name) or bool(_sources(f"{imported.module}.{imported.name}"))
        )
    except (ImportError, InputError):  # the framework may be missing: the source shows its names
        return any(f'"{imported.name}"' in source.read_text(encoding="utf-8") for source in _sources(imported.module))


def _sources(module: str) -> list[Path]:
    path = ROOT.joinpath(*module.split("."))
    return [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists()]


@pytest.mark.parametrize(
    "imported", sorted(of_pages() | set(mentioned())), ids=lambda imported: ".".join(filter(None, imported))
)
def test_an_import_of_the_pages_works(imported: Imported) -> None:
    """The module exists, and has the name."""
    assert exists(imported)


def test_imports_of_the_pages_are_collected() -> None:
    """The set includes imports from the package, a room and a host's folder, and a name in a sentence."""
    assert {Imported("guardagent", "guard"), Imported("guardagent.enforcement", "ToolGuard")} <= of_pages()
    assert any(of_page.module.startswith("guardagent.frameworks.") for of_page in of_pages())
    assert Imported("guardagent.bench", "run_evaluation") in set(mentioned())
    assert not exists(Imported("guardagent", "gard"))
    assert not exists(Imported("guardagent.frameworks.nobody.adapter", "guarded"))
