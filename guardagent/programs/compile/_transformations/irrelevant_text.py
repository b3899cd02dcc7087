"""Adds irrelevant text: meaningless words, and white space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.fields import append_text, fields_of
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.transformations import Variant

ABOUT = "irrelevant text is added"

_WORDS = "Vexil torba quandrine."  # invented words, which no rule or text contains


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
    """Returns the words, as a separate field if the text ends with one, so that they do not extend its value."""
    fields = fields_of(text)
    return f"Remark: {_WORDS}" if fields and fields[-1].end == len(text.rstrip()) else _WORDS
