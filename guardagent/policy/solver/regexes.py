"""Regular expressions of SMT-LIB as functions that match in linear time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from guardagent._support.syntax import PatternError, compile_pattern
from guardagent.policy.solver.literals import text_value
from guardagent.policy.solver.unsupported_error import UnsupportedError

Matcher = Callable[[str], bool]
_NOTHING = r"[^\x{0}-\x{10FFFF}]"
_SUFFIXES = {"re.*": "*", "re.+": "+", "re.opt": "?"}


def matcher(regex: Any) -> Matcher:
    """Returns a function that tests whether a string is in a regular language.

    Raises:
        UnsupportedError: only the solver can evaluate the expression.
    """
    name, parts = regex.decl().name(), regex.children()
    if name == "re.comp":
        return _without(_ANY, matcher(parts[0]))
    if name == "re.diff" and len(parts) == 2:
        return _without(matcher(parts[0]), matcher(parts[1]))
    if name == "re.inter":
        return _both([matcher(part) for part in parts])
    return _matches(_pattern(regex))


def _without(first: Matcher, second: Matcher) -> Matcher:
    return lambda text: first(text) and not second(text)


def _both(matchers: list[Matcher]) -> Matcher:
    return lambda text: all(one(text) for one in matchers)


def _ANY(_: str) -> bool:  # noqa: N802 - a constant
    return True


def _matches(pattern: str) -> Matcher:
    try:
        found = compile_pattern(pattern).fullmatch
    except PatternError:
        raise UnsupportedError from None
    return lambda text: found(text) is not None


def _pattern(regex: Any) -> str:
    name, parts = regex.decl().name(), regex.children()
    if name in ("str.to_re", "re.range"):
        texts = [text_value(part) for part in parts]
        return _literal(texts[0]) if name == "str.to_re" else _range(*texts)
    inner = [f"(?:{_pattern(part)})" for part in parts]
    if name in _SUFFIXES:
        return inner[0] + _SUFFIXES[name]
    if name in ("re.loop", "re.^") and len(parts) == 1:
        return _loop(inner[0], name, regex.decl().params())
    if name in ("re.++", "re.union"):
        return ("" if name == "re.++" else "|").join(inner)
    plain = {"re.allchar": "(?s:.)", "re.all": "(?s:.*)", "re.none": _NOTHING}.get(name)
    if plain is None:
        raise UnsupportedError
    return plain


def _loop(inner: str, name: str, params: list[int]) -> str:
    if name == "re.^":
        return f"{inner}{{{params[0]}}}"
    if len(params) == 1:
        return f"{inner}{{{params[0]},}}"
    return _NOTHING if params[0] > params[1] else f"{inner}{{{params[0]},{params[1]}}}"


def _literal(text: str) -> str:
    return "".join(f"\\x{{{ord(one):X}}}" for one in text)


def _range(first: str, last: str) -> str:
    if len(first) != 1 or len(last) != 1 or first > last:
        return _NOTHING
    return f"[\\x{{{ord(first):X}}}-\\x{{{ord(last):X}}}]"
