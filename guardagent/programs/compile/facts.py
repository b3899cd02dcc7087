"""The facts that a host may provide, and the text fields with the same meaning."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from guardagent._support import syntax
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.fields import value_locations
from guardagent.programs.compile.target import CompileTarget

_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_READ = re.compile(r"""\bfacts(?:\.get\(\s*|\[\s*)(["'])(\w+)\1""")
_TEXTS = ("agent_input", "agent_output")


def named_facts(target: CompileTarget, examples: Sequence[Example], sources: Iterable[str]) -> set[str]:
    """Returns the names of the facts in examples, in the specification, and in the code of programs."""
    found = {name for example in examples for name in example.facts}
    found |= {match[2] for check in target.required for match in _READ.finditer(check.text)}
    found |= {name for source in sources for name in _fact_names(source)}
    documented = " ".join(one for one in _SENTENCE.split(target.specification) if re.search(r"\bfacts?\b", one))
    fields = {location.name for example in examples for location in _places(example)}
    return found | {name for name in map(_snake, fields) if re.search(rf"\b{re.escape(name)}\b", documented)}


def linked_facts(names: Iterable[str], examples: Sequence[Example]) -> Mapping[str, tuple[str, str]]:
    """Returns fact -> (origin, name) of the field with the same name, else with the same value in all examples."""
    fields = dict.fromkeys(
        (origin, location.name)
        for example in examples
        for origin in _TEXTS
        for location in value_locations(getattr(example, origin))
    )
    found = {}
    for name in sorted(names):
        same = [field for field in fields if _snake(field[1]) == _snake(name)] or _fields_of_same_value(
            name, fields, examples
        )
        if same:
            found[name] = same[0]
    return found


def fact_value(text: Any) -> Any:
    """Converts a string from a text to the type that a host would use: a number, a boolean, else the string."""
    if not isinstance(text, str):
        return text
    truths = {"true": True, "yes": True, "false": False, "no": False}
    if text.strip().lower() in truths:
        return truths[text.strip().lower()]
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else text


def _fields_of_same_value(
    name: str, fields: Iterable[tuple[str, str]], examples: Sequence[Example]
) -> list[tuple[str, str]]:
    having = [example for example in examples if name in example.facts]
    return [
        (origin, field)
        for origin, field in fields
        if having
        and all(
            [fact_value(location.value) for location in value_locations(getattr(one, origin)) if location.name == field]
            == [fact_value(one.facts[name])]
            for one in having
        )
    ]


def _fact_names(source: str) -> Iterator[str]:
    """Yields the names of facts that a program reads by literal."""
    for node in ast.walk(syntax.parse(source)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="facts"), attr="get"), args=[ast.Constant(value=str(name)), *_]
            ):
                yield name
            case ast.Subscript(value=ast.Name(id="facts"), slice=ast.Constant(value=str(name))):
                yield name
            case ast.Compare(
                left=ast.Constant(value=str(name)), ops=[ast.In() | ast.NotIn()], comparators=[ast.Name(id="facts")]
            ):
                yield name
            case _:
                pass


def _places(example: Example) -> list[Any]:
    return [location for origin in _TEXTS for location in value_locations(getattr(example, origin))]


def _snake(name: str) -> str:
    """Returns the last key of a path in snake case, as facts are named."""
    return re.sub(r"[\s-]+", "_", name.rpartition(".")[2]).lower()
