"""Reorders fields of the input: consecutive lines `Name: value`, or the keys of a JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.fields import fields_of
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.transformations import Variant

ABOUT = "the fields of the input come in another order"


def variants(example: Example, _suite: Suite) -> Iterator[Variant]:
    changed = _json(example.agent_input) or _lines(example.agent_input)
    if changed != example.agent_input:
        yield Variant(replace(example, agent_input=changed), "steady", "the fields reversed")


def _lines(text: str) -> str:
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        run = _run(lines, at)
        lines[at : at + run] = reversed(lines[at : at + run])
        at += max(run, 1)
    return "\n".join(lines)


def _run(lines: list[str], at: int) -> int:
    """Returns the number of consecutive field lines with the same indent."""
    indents: list[str] = []
    for line in lines[at:]:
        found = fields_of(line)
        if not found or (indents and found[0].indent != indents[0]):
            break
        indents.append(found[0].indent)
    return len(indents)


def _json(text: str) -> str:
    """Returns the JSON object of a text with its keys reversed; empty for any other text."""
    try:
        value = json.loads(text)
    except ValueError:
        return ""
    if not isinstance(value, dict):
        return ""
    return json.dumps(dict(reversed(value.items())), ensure_ascii=False)
