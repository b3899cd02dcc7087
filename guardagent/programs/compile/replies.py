"""Proposals: functions that a model misses in the toolbox and writes with tests, for the user to accept.

Compiling never runs a proposal: it is parsed, and written to a folder that no toolbox is loaded from.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from guardagent._support import syntax
from guardagent._support.files import read_text, save_text
from guardagent.errors import AnswerError, InputError
from guardagent.programs.compile.target import CompileTarget
from guardagent.programs.generation.answers import objects, python_blocks

FOLDER = "proposed"
KEY = "missing_function"

_HEAD = """\
# Proposed by a model and never run. Reason: {why}
# Review it, then: guardagent toolbox accept {name}.py --toolbox FOLDER
"""


@dataclass(frozen=True, slots=True)
class FunctionProposal:
    """A function with its tests, and the model's reason for it."""

    name: str
    why: str
    source: str
    tests: str

    def to_dict(self) -> dict[str, str]:
        return {"name": self.name, "why": self.why, "source": self.source, "tests": self.tests}

    def write(self, beside: Path) -> list[Path]:
        """Writes the function and its tests to the folder of proposals beside a file, and returns their paths.

        Never overwrites a file with other content, since the user may have edited it.

        Raises:
            InputError: the folder cannot be created or written.
        """
        folder = _make_folder(beside.absolute().parent / FOLDER)
        head = _HEAD.format(why=" ".join(self.why.split()), name=self.name)
        tests = f"from {self.name} import {self.name}\n\n\n{self.tests.lstrip()}"
        texts = {f"{self.name}.py": head + self.source.lstrip(), f"test_{self.name}.py": tests}
        places = chain([folder], (folder / str(number) for number in count(2)))
        at = _make_folder(next(place for place in places if _is_free(place, texts)))
        for name, text in texts.items():
            save_text(at / name, text)
        return [at / name for name in texts]


def read_proposal(answer: str, target: CompileTarget) -> FunctionProposal | None:
    """Reads the proposal in an answer; None without one.

    Raises:
        AnswerError: the proposal is incomplete or invalid.
    """
    found = [value for value in objects(answer) if KEY in value]
    if not found:
        return None
    name, why = found[0].get(KEY), found[0].get("why")
    if len(found) > 1 or not isinstance(name, str) or not isinstance(why, str) or not name.isidentifier():
        raise AnswerError(f'invalid proposal; expected one JSON object {{"{KEY}": a name, "why": the reason}}')
    if name in target.toolbox or name.startswith("_"):
        raise AnswerError(
            f"the function {name!r} is in the toolbox or private; expected a public name that the toolbox lacks"
        )
    blocks = [block for block in python_blocks(answer) if not any(KEY in value for value in objects(block))]
    sources = [block for block in blocks if name in _functions(block)]
    tests = [block for block in blocks if any(test.startswith("test_") for test in _functions(block))]
    if len(sources) != 1 or len(tests) != 1 or sources == tests:
        raise AnswerError(f"expected two ```python blocks: one that defines {name!r}, and one with test_… functions")
    if problem := _source_problem(sources[0], name) or _unprintable_problem(sources[0] + tests[0] + why):
        raise AnswerError(problem)
    return FunctionProposal(name, why, sources[0], tests[0])


def _source_problem(source: str, name: str) -> str:
    """Returns the problem that keeps a source from being a toolbox file; empty without one."""
    functions = _functions(source)
    others = [other for other in functions if other != name and not other.startswith("_")]
    if others:
        return f"the block also defines {others[0]!r}; expected {name!r} alone, with private helpers (_name)"
    return (
        ""
        if ast.get_docstring(functions[name])
        else f"{name!r} has no docstring; expected one with its parameters and result"
    )


def _unprintable_problem(text: str) -> str:
    """Returns the problem of an unprintable character, which could hide code from a reviewer."""
    odd = next((one for one in text if not one.isprintable() and one not in "\n\t"), None)
    return f"the proposal contains the unprintable character {odd!a}; expected printable text" if odd else ""


def _functions(source: str) -> Mapping[str, ast.FunctionDef]:
    try:
        tree = syntax.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise AnswerError(f"a block of the proposal is not valid Python: {error}") from None
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def _is_free(folder: Path, texts: Mapping[str, str]) -> bool:
    """Whether a folder has none of these files, or has them with the same content."""
    files = {folder / name: text for name, text in texts.items()}
    return all(not file.exists() or read_text(file) == text for file, text in files.items())


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be created: {error.strerror}; expected a writable parent folder") from None
    return folder
