"""Names and docstrings keep to the words of the field; `[tool.words]` in pyproject.toml lists the others."""

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["words"]
TREES = {
    path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8"))
    for folder in WORDS["folders"]
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not any(path.is_relative_to(ROOT / other) for other in WORDS["others_code"])
}


def bound_names(tree: ast.Module) -> Iterator[str]:
    """Names that a module defines or assigns: classes, functions, parameters, variables, attributes."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.ClassDef(name=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.arg(arg=name)
            ):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.alias(asname=str(name)):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Every docstring of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def test_no_name_is_made_of_a_banned_word() -> None:
    """Neither a module nor anything in it."""
    banned = set(WORDS["names"])
    names = {
        path: {name for name in bound_names(tree) if banned & set(name.lower().split("_"))}
        for path, tree in TREES.items()
    }
    assert {path: found for path, found in names.items() if found} == {}
    assert [path for path in TREES if path.stem.strip("_") in WORDS["modules"]] == []


def test_no_docstring_opens_with_a_question_word() -> None:
    """The first word is a subject or a verb."""
    opening = {
        path: [text for text in docstrings(tree) if text.partition(" ")[0] in WORDS["openings"]]
        for path, tree in TREES.items()
    }
    assert {path: found for path, found in opening.items() if found} == {}


def test_a_class_name_is_used_once() -> None:
    """Except by members of one kind of plug-in, which are looked up by that name."""
    package = [tree for path, tree in TREES.items() if path.parts[0] == "guardagent"]
    names = Counter(node.name for tree in package for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, times in names.items() if times > 1} <= set(WORDS["plugin_classes"])
