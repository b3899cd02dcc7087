"""Names and docstrings keep to the words of the field; `[tool.words]` in pyproject.toml lists the others."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
WORDS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["words"]
NO_NOUN = re.compile(WORDS["no_noun"], re.IGNORECASE)
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class ModuleWords(NamedTuple):
    """The names that a module binds, the first words of its docstrings, its classes, and its other strings."""

    names: set[str]
    variables: set[str]
    openings: set[str]
    classes: list[str]
    denials: list[str]


@cache
def modules() -> dict[Path, ModuleWords]:
    """Returns the words of each module; the syntax trees would fill the memory."""
    paths = [path for folder in WORDS["folders"] for path in sorted((ROOT / folder).rglob("*.py"))]
    own = [path for path in paths if not any(path.is_relative_to(ROOT / other) for other in WORDS["others_code"])]
    return {path.relative_to(ROOT): words_of(list(ast.walk(ast.parse(path.read_bytes())))) for path in own}


def checked_modules() -> dict[Path, ModuleWords]:
    """Returns the modules without the folders that have other words still."""
    return {path: words for path, words in modules().items() if not any(map(path.is_relative_to, WORDS["not_yet"]))}


def words_of(nodes: list[ast.AST]) -> ModuleWords:
    names = {name for node in nodes for name in bound_names(node)}
    openings = {(ast.get_docstring(node) or "").partition(" ")[0] for node in nodes if isinstance(node, DOCUMENTED)}
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    fields = {statement.target for node in classes for statement in node.body if isinstance(statement, ast.AnnAssign)}
    variables = {name for node in nodes if node not in fields for name in bound_names(node)}
    docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
    strings = [node.value for node in nodes if isinstance(node, ast.Constant) and node not in docstrings]
    denials = [string for string in strings if isinstance(string, str) and NO_NOUN.search(string)]
    return ModuleWords(names, variables, openings, [node.name for node in classes], denials)


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
    assert {path: banned_names for path, banned_names in names.items() if banned_names} == {}
    assert [path for path in modules() if path.stem.strip("_") in WORDS["modules"]] == []


def test_no_docstring_opens_with_a_question_word() -> None:
    """The first word is a subject or a verb."""
    opening = {path: words.openings & set(WORDS["openings"]) for path, words in modules().items()}
    assert {path: words for path, words in opening.items() if words} == {}


def test_a_class_name_is_used_once() -> None:
    """Except by members of one kind of plug-in, which are looked up by that name."""
    package = [words for path, words in modules().items() if path.parts[0] in ("guardagent", "benchmarks")]
    names = Counter(name for words in package for name in words.classes)
    assert {name for name, times in names.items() if times > 1} <= set(WORDS["plugin_classes"])


def test_class_names_differ_by_more_than_an_underscore() -> None:
    package = [words for path, words in checked_modules().items() if path.parts[0] not in WORDS["classes_not_yet"]]
    names = Counter(name.lstrip("_") for words in package for name in words.classes)
    assert {name for name, times in names.items() if times > 1} <= set(WORDS["plugin_classes"])


def test_a_variable_is_named_after_what_it_holds() -> None:
    """So are parameters, functions and attributes; only the fields of a class may have a documented name."""
    banned = set(WORDS["variables"])
    assert [path for path, words in checked_modules().items() if words.variables & banned] == []


def test_a_thing_is_not_a_noun() -> None:
    """No message says that it "is no" noun."""
    assert {path: words.denials for path, words in checked_modules().items() if words.denials} == {}
