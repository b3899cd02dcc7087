"""Reads the text of Cedar policies by `cedar.lark`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guardagent.errors import ContentError

if TYPE_CHECKING:
    from lark import Lark


@dataclass(frozen=True, slots=True)
class CedarPolicy:
    """A policy as it is written.

    Attributes:
        line: its line in the file.
        source: its text.
        permits: whether it permits or forbids.
        annotations: the annotations by name, such as `id`.
        scope: the conditions on principal, action and resource.
        clauses: the other conditions, each with whether it is an `unless`, and its mark, such as `temporal`.
    """

    line: int
    source: str
    permits: bool
    annotations: dict[str, str]
    scope: tuple[Any, ...]
    clauses: tuple[tuple[bool, str, Any], ...]


def read_policies(text: str, name: str) -> Iterator[CedarPolicy]:
    """Yields the policies of a file.

    Raises:
        ContentError: the text is not Cedar, with its line.
    """
    from lark import UnexpectedInput

    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        place = f"this is not a policy of Cedar, at:\n{error.get_context(text).rstrip()}"
        raise ContentError(place, name, max(error.line, 1)) from None
    for policy in tree.children:
        yield _policy(policy, text)


@cache
def _parser() -> Lark:
    from lark import Lark

    grammar = Path(__file__).with_name("cedar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=True)


def _policy(policy: Any, text: str) -> CedarPolicy:
    annotations, scope, clauses, permits = {}, [], [], False
    for child in policy.children:
        match getattr(child, "data", ""):
            case "annotation":
                annotations[str(child.children[0])] = unquoted(child.children[1]) if child.children[1] else ""
            case "clause":
                is_unless, mark, condition = child.children
                clauses.append((is_unless.type == "UNLESS", str(mark or ""), condition))
            case "" if child is not None:
                permits = child == "permit"
            case _ if child is not None:
                scope.append(child)
    source = " ".join(text[policy.meta.start_pos : policy.meta.end_pos].split())
    return CedarPolicy(policy.meta.line, source, permits, annotations, tuple(scope), tuple(clauses))


_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|x([0-9a-fA-F]{2})|(.))")
_SIGNS = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}


def unquoted(token: str) -> str:
    """The value of a string in quotes."""

    def sign(escape: re.Match[str]) -> str:
        code = escape[1] or escape[2]
        return chr(int(code, 16)) if code else _SIGNS.get(escape[3], escape[3])

    return _ESCAPE.sub(sign, token[1:-1])


def entity_parts(token: str) -> tuple[str, str, str]:
    """The type and the id of an entity, and the kind of an event; empty for an entity alone."""
    before, quoted, kind = (
        token.partition('"')[0],
        token[token.index('"') : token.rindex('"') + 1],
        token.rpartition('"')[2],
    )
    return re.sub(r"\s|::\s*$", "", before), unquoted(quoted), re.sub(r"[\s:]", "", kind)


_LIKE = re.compile(r"\\\*|\*|" + _ESCAPE.pattern + r"|[^\\*]", re.DOTALL)


def like_pattern(token: str) -> str:
    """The regular expression of the pattern of `like`."""
    pieces = (piece[0] for piece in _LIKE.finditer(token[1:-1]))
    return "".join(
        ".*" if piece == "*" else escaped(piece[-1:] if piece == r"\*" else unquoted(f'"{piece}"')) for piece in pieces
    )


def escaped(text: str) -> str:
    """A string as a regular expression of the policy language."""

    def sign(match: re.Match[str]) -> str:
        return f"\\{match[0]}" if match[0].isprintable() else f"\\x{{{ord(match[0]):x}}}"

    return re.sub(
        r"[^\w ]", lambda match: match[0] if match[0] > "\x7f" and match[0].isprintable() else sign(match), text
    )
