"""When a team of AutoGen stops: its termination condition and its limit of turns, in words."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from guardagent.frameworks.autogen.extractor.selection import AUTOGEN
from guardagent.workflow.extraction.framework_objects import Alternatives, UnknownValue, is_a, private_attribute

_DISTRIBUTION = "autogen-agentchat"


@dataclass(frozen=True)
class Termination:
    """When a team stops.

    Attributes:
        description: the condition and the limit; empty where it never stops by them.
        handoffs: to whom a hand-off stops it.
        max_turns: after how many turns it stops at the latest.
        has_condition: there is a termination condition.
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
        targets = frozenset(str(private_attribute(one, "_target", _DISTRIBUTION)) for one in _handoffs(condition))
        return cls(" | ".join(parts), targets, limit, condition is not None)

    def __bool__(self) -> bool:
        return bool(self.description)


def _handoffs(condition: Any) -> Iterator[Any]:
    if is_a(condition, AUTOGEN, "HandoffTermination"):
        yield condition
    for one in _parts(condition):
        yield from _handoffs(one)


def _parts(condition: Any) -> tuple[Any, ...]:
    """The conditions that one is combined of."""
    if is_a(condition, AUTOGEN, "AndTerminationCondition", "OrTerminationCondition"):
        return tuple(private_attribute(condition, "_conditions", _DISTRIBUTION))
    return ()


def _description(condition: Any) -> str:
    if parts := _parts(condition):
        sign = " & " if is_a(condition, AUTOGEN, "AndTerminationCondition") else " | "
        return f"({sign.join(map(_description, parts))})"
    if isinstance(condition, UnknownValue | Alternatives):
        return "a condition that is not known"
    values = ", ".join(f"{name}={value!r}" for name, value in _config(condition).items() if value not in (None, False))
    return f"{type(condition).__name__}({values})"


def _config(condition: Any) -> dict[str, Any]:
    """What a condition says of itself; those made of a function say nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return dict(condition.dump_component().config)
    except Exception:  # noqa: BLE001 - whatever the condition of some program raises: these are only words
        return {}
