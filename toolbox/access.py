"""Access control and rules over user information (GuardAgent paper, Appendix F and Figure 17)."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any

_COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TEXT = frozenset({str})
_KEYS = frozenset({"info", "operator", "value", "violation"})


def check_access(allowed: dict[str, list[str]], needed: dict[str, list[str]]) -> tuple[bool, dict[str, list[str]]]:
    """Whether every database and column that is needed is allowed.

    Args:
        allowed: database -> columns the role may read.
        needed: database -> columns that are read, `"*"` for all of them, which no list covers.

    Returns:
        (denied, database -> the needed columns that are not allowed; all of them if the database is not).

    Raises:
        ValueError: one of them is not a mapping of databases to lists of columns, or `allowed` has the column "*".
    """
    _tables(allowed, "allowed")
    _tables(needed, "needed")
    if starred := [database for database, columns in allowed.items() if "*" in columns]:
        raise ValueError(f"'allowed' has '*' for {starred[0]!r}; expected the names of the columns")
    inaccessible: dict[str, list[str]] = {}
    for database, columns in needed.items():
        missing = [column for column in columns if column not in allowed.get(database, [])]
        if missing or database not in allowed:
            inaccessible[database] = missing
    return bool(inaccessible), inaccessible


def check_rule(rules: dict[str, dict[str, Any]], user_info: dict[str, Any]) -> tuple[bool, dict[str, str]]:
    """Whether a user satisfies every rule that applies.

    Args:
        rules: name -> {"info": field of user_info or None, "operator": "==", "!=", "<", "<=", ">"
            or ">=", "value": what the field is compared with, "violation": the text for people}.
            A rule whose info is None requires nothing.
        user_info: field -> value.

    Returns:
        (denied, violations): violations is rule name -> its violation text.

    Raises:
        ValueError: a field is missing or null, is of another type than the value it is compared with, or has no
            order to it (NaN, infinity, texts of different length). That is unknown, which is neither satisfied
            nor violated. A rule lacks a key, or has another one.
    """
    violations: dict[str, str] = {}
    unknown: list[str] = []
    for name, rule in rules.items():
        _rule(name, rule)
        if rule["info"] is None:
            continue
        try:
            if not _holds(user_info.get(rule["info"]), rule):
                violations[name] = rule["violation"]
        except ValueError as error:
            unknown.append(f"{name}: {error}")
    if unknown:
        known = f" (known violations: {'; '.join(violations.values())})" if violations else ""
        raise ValueError("; ".join(unknown) + known)
    return bool(violations), violations


def granted(access: dict[str, dict[str, list[str]]], role: str) -> dict[str, list[str]]:
    """The databases and columns that a role may read.

    Args:
        access: role -> database -> columns.
        role: the user's role, in any case.

    Returns:
        database -> columns.

    Raises:
        ValueError: the role is not one of the table's, or is two of them.
    """
    wanted = " ".join(role.casefold().split()) if isinstance(role, str) else role
    found = [table for name, table in access.items() if " ".join(name.casefold().split()) == wanted]
    if not found:
        raise ValueError(f"unknown role {str(role)[:60]!r}; known: {', '.join(access)}")
    if len(found) > 1:
        raise ValueError(f"the role {str(role)[:60]!r} appears {len(found)} times in the table, so it is unknown")
    return found[0]


def _tables(value: Any, name: str) -> None:
    # A string in place of a list would be compared by its letters.
    if not isinstance(value, Mapping) or not all(map(_is_names, value.values())):
        raise ValueError(f"{name!r} is not a mapping of databases to lists of columns")


def _is_names(columns: Any) -> bool:
    return isinstance(columns, list | tuple) and set(map(type, columns)) <= _TEXT


def _rule(name: str, rule: Any) -> None:
    if not isinstance(rule, Mapping) or rule.keys() != _KEYS:
        keys = ", ".join(map(str, rule)) if isinstance(rule, Mapping) else "no keys"
        raise ValueError(f"rule {name!r} has the keys {keys}; expected {', '.join(sorted(_KEYS))}")


def _holds(actual: Any, rule: dict[str, Any]) -> bool:
    expected = rule["value"]
    if rule["operator"] not in _COMPARE:
        raise ValueError(f"unknown operator {rule['operator']!r}; known: {' '.join(_COMPARE)}")
    if actual is None:
        raise ValueError(f"the user's {rule['info']!r} is unknown")
    if _kind(actual) != _kind(expected):
        raise ValueError(f"the user's {rule['info']!r} is {actual!r}, which cannot be compared with {expected!r}")
    if not _has_answer(actual, rule["operator"], expected):
        raise ValueError(f"the user's {rule['info']!r} is {actual!r}, which cannot be ordered against {expected!r}")
    return bool(_COMPARE[rule["operator"]](actual, expected))


def _has_answer(actual: Any, comparison: str, expected: Any) -> bool:
    """Whether two values can be compared. Strings are ordered only at equal length, as dates; "9" and "18" are not."""
    if _kind(actual) == "number":
        return (
            not any(isinstance(one, float) and math.isnan(one) for one in (actual, expected)) and abs(actual) < math.inf
        )
    return comparison in ("==", "!=") or (isinstance(actual, str) and len(actual) == len(expected))


def _kind(value: Any) -> str:
    # A boolean is not a number: `True >= 18` would be an accidental result.
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else type(value).__name__
