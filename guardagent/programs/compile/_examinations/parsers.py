"""Advises against regular expressions for SQL, JSON or Python if a parser is available.

Every program has a JSON parser. SQL and Python have one if the description of a toolbox function mentions them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from guardagent._support import syntax
from guardagent.programs.compile.examinations_base import ExaminationResult
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import Trial

ORDER = 18

ABOUT = "SQL, JSON and Python are parsed if a parser is available"

_MATCHED = {
    "SQL": re.compile(r"\bSELECT\b|\bFROM\b|\bJOIN\b", re.IGNORECASE),
    "JSON": re.compile(r'"\w+\\*"\s*(?:\\s[*+])?\s*:'),
    "Python": re.compile(r"\w+\\\(|\bimport\b|\bdef\b"),
}
_READS = {
    "SQL": re.compile(r"(?<![A-Za-z])SQL(?![A-Za-z])|\b(?:table|database)s? and columns\b", re.IGNORECASE),
    "Python": re.compile(r"\bPython\b|\bcode\b"),
}
_OWN = {"JSON": {"loads", "JSONDecoder"}}


def examine(trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    tree = syntax.parse(trial.program)
    named = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name)
    }
    found = []
    for language, words in _MATCHED.items():
        parsers = _parsers(language, suite)
        line = next((line for line, pattern in _patterns(tree) if words.search(pattern)), 0)
        if line and parsers and not parsers & named:
            found.append(
                f"line {line} matches {language} with a regular expression; "
                f"expected a parser: {' or '.join(map(repr, sorted(parsers)))}"
            )
    yield ExaminationResult("parsers", ABOUT, advice="; ".join(found))


def _parsers(language: str, suite: Suite) -> set[str]:
    """Returns the functions that parse a language, by their parameter type and description."""
    described = {tool.name: tool.describe() for tool in suite.target.toolbox.values() if not tool.is_check}
    takes_text = {name: text for name, text in described.items() if re.search(r"\(\w+: str\b", text)}
    reads = _READS.get(language)
    return {name for name, text in takes_text.items() if reads and reads.search(text)} | _OWN.get(language, set())


def _patterns(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields (line, pattern) of the calls of `re` functions, also through a constant."""
    named = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re")), args=[ast.Constant(value=str(text)), *_]):
                yield node.lineno, text
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re")), args=[ast.Name(id=name), *_]) if name in named:
                yield node.lineno, named[name]
            case _:
                pass
