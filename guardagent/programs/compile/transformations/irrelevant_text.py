"""Irrelevant text: words that mean nothing, and empty space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.fields import append_text, fields_of
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.transformations import Variant

ABOUT = "irrelevant text is added"

_WORDS = "Vexil torba quandrine."  # of no language: they fall under no rule, and stand in no other text


def variants(example: Example, _suite: Suite) -> Iterator[Variant]:
    agent_input, log = example.agent_input, example.agent_output
    yield Variant(
        replace(example, agent_input=append_text(agent_input, _below(agent_input))), "steady", "words below the input"
    )
    yield Variant(replace(example, agent_output=append_text(log, f"\n{_WORDS}")), "steady", "words below the output")
    yield Variant(replace(example, agent_output=f"{_WORDS}\n\n{log}"), "steady", "words above the output")
    yield Variant(
        replace(example, agent_input=f"{agent_input}\n\n", agent_output=f"{log} \n"), "steady", "space at the ends"
    )


def _below(text: str) -> str:
    """The words, as a line of their own kind where the text ends with a field: else they may belong to its value."""
    fields = fields_of(text)
    return f"Remark: {_WORDS}" if fields and fields[-1].end == len(text.rstrip()) else _WORDS
