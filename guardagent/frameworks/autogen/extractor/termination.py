"""The termination of a team: its termination condition and its limit of turns."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from guardagent.frameworks.autogen.extractor.selection import AUTOGEN
from guardagent.workflow.extraction.objects import Alternatives, UnknownValue, is_a, private_attribute

_DISTRIBUTION = "autogen-agentchat"


@dataclass(frozen=True)
class Termination:
    """The conditions under which a team stops.

    Attributes:
        description: the condition and the limit as text; empty if there are none.
        handoffs: the hand-off targets that stop it.
        max_turns: its limit of turns.
        has_condition: it has a termination condition.
    """

    description: str = ""
    handoffs: frozenset[str] = frozenset()
    max_turns: int | None = None
    has_condition: bool = False

    @classmethod
    def of(cls, team: Any) -> Termination:
        condition = private_attribute(team, "_termination_condition", _DISTRIBUTION)
        turns = private_attribute(team, "_max_turns", _DISTRIBUTION)
        parts = [_description(condition)] if condition is not None else []
        limit = turns if isinstance(turns, int) else None
        parts += [f"max_turns={limit}" if limit is not None else "max_turns"] if turns is not None else []
        targets = frozenset(
            str(private_attribute(one, "_target", _DISTRIBUTION)) for one in _handoff_conditions(condition)
        )
        return cls(" | ".join(parts), targets, limit, condition is not None)

    def __bool__(self) -> bool:
        return bool(self.description)


def _handoff_conditions(condition: Any) -> Iterator[Any]:
    if is_a(condition, AUTOGEN, "HandoffTermination"):
        yield condition
    for one in _parts(condition):
        yield from _handoff_conditions(one)


def _parts(condition: Any) -> tuple[Any, ...]:
    """The operands of a combined condition."""
    if is_a(condition, AUTOGEN, "AndTerminationCondition", "OrTerminationCondition"):
        return tuple(private_attribute(condition, "_conditions", _DISTRIBUTION))
    return ()


def _description(condition: Any) -> str:
    if parts := _parts(condition):
        sign = " & " if is_a(condition, AUTOGEN, "AndTerminationCondition") else " | "
        return f"({sign.join(map(_description, parts))})"
    if isinstance(condition, UnknownValue | Alternatives):
        return "an unknown condition"
    values = ", ".join(f"{name}={value!r}" for name, value in _config(condition).items() if value not in (None, False))
    return f"{type(condition).__name__}({values})"


def _config(condition: Any) -> dict[str, Any]:
    """The configuration of a condition; empty if it is a function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return dict(condition.dump_component().config)
    except Exception:  # noqa: BLE001 - a condition of the program may raise anything; this is only a description
        return {}
