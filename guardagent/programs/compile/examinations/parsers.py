"""Whether the program looks for words of SQL, JSON or Python where a parser is there: advice, since no run shows it.

JSON has a parser in every program; SQL and Python have one where a function of the toolbox says that it reads them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from guardagent._support import syntax
from guardagent.programs.compile.examinations import ExaminationResult
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import Trial

ORDER = 18

ABOUT = "SQL, JSON and Python are parsed, where there is a parser"

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
                f"line {line} looks for {language} with a regular expression; {' or '.join(sorted(parsers))} parses it"
            )
    yield ExaminationResult("parsers", ABOUT, advice="; ".join(found))


def _parsers(language: str, suite: Suite) -> set[str]:
    """The functions that parse a language: those that take a text, and say that they read it."""
    described = {tool.name: tool.describe() for tool in suite.target.toolbox.values() if not tool.is_check}
    takes_text = {name: text for name, text in described.items() if re.search(r"\(\w+: str\b", text)}
    reads = _READS.get(language)
    return {name for name, text in takes_text.items() if reads and reads.search(text)} | _OWN.get(language, set())


def _patterns(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, text) of what is given to functions of `re`, also by a name."""
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
