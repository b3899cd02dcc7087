"""Paths to values in an entry, such as `args.card.number`, which select the values to redact.

`*` matches any one name or position, `**` any number of them. Names are case-insensitive. A path skips lists:
`args.people.ssn` matches that of everyone in the list.
"""

from __future__ import annotations

from collections.abc import Iterable

from guardagent.errors import InputError, UnknownNameError

FieldPath = tuple[str, ...]
FieldPaths = tuple[FieldPath, ...]
"""The remainders of paths at some position; an empty one ends there."""


def parse_paths(paths: Iterable[str], fields: Iterable[str]) -> FieldPaths:
    """Parses paths, each beginning with the name of a field of an entry.

    Raises:
        InputError: a path is invalid.
    """
    if isinstance(paths, str):
        raise InputError(f"'redact' is the string {paths!r}; expected a list of paths")
    return tuple(_parse_path(text, frozenset(fields)) for text in paths)


def descend(paths: FieldPaths, name: str) -> FieldPaths:
    """Returns the remainders of paths after a name, one level deeper."""
    folded = _casefolded(name)
    return tuple(left for path in paths for left in _descend(path, folded))


def _descend(path: FieldPath, name: str) -> Iterable[FieldPath]:
    if not path:
        return
    first, rest = path[0], path[1:]
    if first == "**":
        yield path
        if not rest:
            yield ()
        else:
            yield from _descend(rest, name)
    elif first in ("*", name):
        yield rest


def _parse_path(text: str, fields: frozenset[str]) -> FieldPath:
    if not isinstance(text, str) or not all(part.strip() for part in text.split(".")):
        raise InputError(
            f"redact: {text!r} is not a path; expected names separated by dots, such as 'args.card.number'"
        )
    path = tuple(map(_casefolded, text.split(".")))
    if path[0] not in fields and path[0] != "**":
        raise UnknownNameError("field", path[0], fields, where=f"redact: {text!r}")
    return path


def _casefolded(name: str) -> str:
    return name.strip().casefold()
