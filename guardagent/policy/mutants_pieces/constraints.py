"""Changes of SMT-LIB text. Each variant is the kind of the change, and the changed text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from guardagent.policy.language.rule_text import number_text
from guardagent.policy.solver.sexpr import SExprReader, parts_of

TextVariants = Iterator[tuple[str, str]]

_BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_PREDICATES = ("=", "distinct", *_BOUNDARY)


def script_variants(text: str) -> TextVariants:
    """Changes one place of one assertion at a time."""
    for form in SExprReader(text).forms:
        if text[form.parts[0].start : form.parts[0].end] != "assert":
            continue
        yield "constraint dropped", text[: form.start] + text[form.end :]
        term = form.parts[1]
        for kind, changed in term_variants(text[term.start : term.end]):
            yield kind, text[: term.start] + changed + text[term.end :]


def term_variants(text: str) -> TextVariants:
    """Changes one place of a term at a time."""
    if _NUMBER.fullmatch(text):
        yield from (("limit moved", one) for one in _near_text(text))
    if not text.startswith("("):
        return
    parts = parts_of(text)
    words = [text[one.start : one.end] for one in parts]
    yield from _script_changes(words[0], words[1:])
    for part, word in list(zip(parts, words, strict=True))[1:]:
        for kind, changed in term_variants(word):
            yield kind, text[: part.start] + changed + text[part.end :]


def _script_changes(head: str, parts: list[str]) -> TextVariants:
    if head in _BOUNDARY:
        yield "limit moved", f"({_BOUNDARY[head]} {' '.join(parts)})"
    if head in _PREDICATES:
        yield "condition negated", f"(not ({head} {' '.join(parts)}))"
    if head == "not":
        yield "condition negated", parts[0]
    if head == "=>":
        yield "premise dropped", parts[-1]
    if head in ("and", "or"):
        for at in range(len(parts)):
            rest = parts[:at] + parts[at + 1 :]
            yield "condition dropped", rest[0] if len(rest) == 1 else f"({head} {' '.join(rest)})"
        other = "or" if head == "and" else "and"
        yield f"{other} in place of {head}", f"({other} {' '.join(parts)})"


def _near_text(text: str) -> tuple[str, ...]:
    """The numbers one unit of the last decimal above and below; SMT-LIB writes no negative ones."""
    digits = len(text.partition(".")[2].rstrip("0"))
    near = [Fraction(text) + sign * Fraction(1, 10**digits) for sign in (1, -1)]
    return tuple(_written(one, decimal="." in text) for one in near if one >= 0)


def _written(value: Fraction, *, decimal: bool) -> str:
    text = number_text(int(value) if value.denominator == 1 else value)
    return f"{text}.0" if decimal and "." not in text else text
