"""Names and docstrings keep to the words of the field; `[tool.words]` in pyproject.toml lists the others."""

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
WORDS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["words"]
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class ModuleWords(NamedTuple):
    """The names that a module binds, the first words of its docstrings, and its classes."""

    names: set[str]
    openings: set[str]
    classes: list[str]


@cache
def modules() -> dict[Path, ModuleWords]:
    """Returns the words of each module; the syntax trees would fill the memory."""
    paths = [path for folder in WORDS["folders"] for path in sorted((ROOT / folder).rglob("*.py"))]
    own = [path for path in paths if not any(path.is_relative_to(ROOT / other) for other in WORDS["others_code"])]
    return {path.relative_to(ROOT): words_of(list(ast.walk(ast.parse(path.read_bytes())))) for path in own}


def words_of(nodes: list[ast.AST]) -> ModuleWords:
    names = {name for node in nodes for name in bound_names(node)}
    openings = {(ast.get_docstring(node) or "").partition(" ")[0] for node in nodes if isinstance(node, DOCUMENTED)}
    return ModuleWords(names, openings, [node.name for node in nodes if isinstance(node, ast.ClassDef)])


def bound_names(node: ast.AST) -> Iterator[str]:
    """Names that a node defines or assigns: classes, functions, parameters, variables, attributes."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.alias(asname=str(name)):
            yield name
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield name


def test_no_name_is_made_of_a_banned_word() -> None:
    """Neither a module nor anything in it."""
    banned = set(WORDS["names"])
    names = {
        path: {name for name in words.names if banned & set(name.lower().split("_"))}
        for path, words in modules().items()
    }
    assert {path: found for path, found in names.items() if found} == {}
    assert [path for path in modules() if path.stem.strip("_") in WORDS["modules"]] == []


def test_no_docstring_opens_with_a_question_word() -> None:
    """The first word is a subject or a verb."""
    opening = {path: words.openings & set(WORDS["openings"]) for path, words in modules().items()}
    assert {path: found for path, found in opening.items() if found} == {}


def test_a_class_name_is_used_once() -> None:
    """Except by members of one kind of plug-in, which are looked up by that name."""
    package = [words for path, words in modules().items() if path.parts[0] == "guardagent"]
    names = Counter(name for words in package for name in words.classes)
    assert {name for name, times in names.items() if times > 1} <= set(WORDS["plugin_classes"])
