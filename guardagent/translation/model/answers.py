"""Reads the YAML or JSON of a model's answer, with lines in every error."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

from guardagent.errors import AnswerError, ContentError
from guardagent.policy.file.policy_keys import Key, reads
from guardagent.policy.file.source_tree import SourceNode
from guardagent.policy.file.yaml_reader import parse

MOST_CHARACTERS = 200_000
_BLOCK = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([\w+#.-]*)[^\n]*\n(.*?)^[ \t]*\1[ \t]*$", re.DOTALL | re.MULTILINE)
_LANGUAGES = ("", "yaml", "yml", "json")


def read_answer(answer: str, key: Key) -> Any:
    """Reads the block of an answer by the reader of a key.

    Raises:
        AnswerError: the answer has no such block, or several, or its content is not as expected; with the line.
    """
    node = _parsed(_block(answer))
    try:
        return key.read(node, key)
    except ContentError as error:
        raise AnswerError(str(error)) from None


def _block(answer: str) -> str:
    if len(answer) > MOST_CHARACTERS:
        raise AnswerError(f"the answer has {len(answer):,} characters; expected at most {MOST_CHARACTERS:,}")
    found = list(_BLOCK.finditer(answer.replace("\r\n", "\n")))
    blocks = [textwrap.dedent(one[3]) for one in found if one[2].lower() in _LANGUAGES]
    if len(blocks) == 1:
        return blocks[0]
    if blocks:
        raise AnswerError(f"the answer has {len(blocks)} blocks; expected everything in one ```yaml block")
    if found or not re.match(r"\s*(?:\{|[a-z_]+:)", answer):
        raise AnswerError("the answer has no ```yaml block; expected one with the keys that are asked for")
    return answer


def _parsed(text: str) -> SourceNode:
    try:
        node = parse(text.encode("utf-8", "replace"), Path("answer"), None, fast=True)
    except ContentError as error:
        raise AnswerError(f"not readable as YAML: {error}") from None
    if node is None:
        raise AnswerError("the block is empty; expected the keys that are asked for")
    return node


@reads(lambda _: {})
def plain(node: SourceNode, key: Key) -> Any:  # noqa: ARG001 - the shape of a reader
    """Reads any value as it is."""
    return node.plain


@reads(lambda _: {"type": "object"})
def plain_mapping(node: SourceNode, key: Key) -> dict[str, Any]:
    """Reads a mapping of any content."""
    if not isinstance(node.value, dict):
        raise key.mismatch(node)
    return dict(node.plain)


@reads(lambda _: {"type": "array"})
def listed(node: SourceNode, key: Key) -> tuple[Any, ...]:
    """Reads a list, which may be empty or missing its content, of items of one kind."""
    if node.plain is None:
        return ()
    if not isinstance(node.value, list):
        raise key.mismatch(node)
    assert key.item is not None
    return tuple(key.item.read(one, key.item) for one in node.value)


@reads(lambda _: {"type": "integer"})
def sentence_number(node: SourceNode, key: Key) -> int:
    """Reads the number of a sentence."""
    value = node.plain
    if isinstance(value, bool) or not isinstance(value, int):
        raise key.mismatch(node)
    return value


@reads(lambda _: {"type": "integer", "minimum": 1})
def position(node: SourceNode, key: Key) -> int:
    """Reads a position from 1."""
    value = sentence_number(node, key)
    if value < 1:
        raise key.mismatch(node)
    return value


@reads(lambda _: {"type": "string"})
def optional_text(node: SourceNode, key: Key) -> str:
    """Reads a string that may be empty or null."""
    value = node.plain
    if value is not None and not isinstance(value, str):
        raise key.mismatch(node)
    return value or ""
