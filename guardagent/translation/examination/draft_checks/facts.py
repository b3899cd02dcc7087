"""Facts and state that nobody declares: the host would not give them, and every call would be denied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from guardagent.errors import name_hint
from guardagent.policy.equivalence.places import ITEMS, Place
from guardagent.translation.drafting.draft import Problem
from guardagent.translation.examination.examined import ExaminedDraft
from guardagent.translation.examination.schemas import missing, segments
from guardagent.translation.samples.shapes import ShapePath

Keys = tuple[str, ...]


def check(examined: ExaminedDraft) -> Iterator[Problem]:
    """All of them are fatal."""
    known = {"fact": _Known(examined, "fact"), "state": _Known(examined, "state")}
    for rule in examined.rules:
        places = [one for one in rule.places.reads if one[0] in known and len(one) > 1]
        for place in places:
            if not _is_outer(place, places) and not known[place[0]].has(place[1:]):
                name = ".".join(part for part in place[1:] if part != ITEMS)
                name = f"state.{name}" if place[0] == "state" else name
                text = (
                    f"the rule reads {'the fact' if place[0] == 'fact' else 'the state'} {name!r}, which is not "
                    f"declared; declare it under 'facts', with a description, or use another one"
                    f"{name_hint(name, known[place[0]].names)}"
                )
                yield rule.problem("fact", text, fatal=True)


class _Known:
    """The declared and recorded facts, or the state."""

    def __init__(self, examined: ExaminedDraft, kind: str) -> None:
        declared = [*(one.name for one in examined.context.facts), *(one.name for one in examined.draft.facts)]
        samples = examined.context.samples
        paths = () if samples is None else samples.facts if kind == "fact" else samples.state
        self._declared = [segments(one.removeprefix("state.") if kind == "state" else one) for one in declared]
        self._shown = _with_values(paths)
        self.names = {*declared, *(".".join(one) for one in self._shown if ITEMS not in one)}

    def has(self, keys: Keys) -> bool:
        """Whether a path, one within it or one around it is known."""
        if any(keys[: len(one)] == one[: len(keys)] for one in self._declared if one):
            return True
        is_begun = any(one[0] in (keys[0], "*") for one in self._shown)
        return is_begun and all(missing(self._shown, keys[:at]) is None for at in range(1, len(keys) + 1))


def _with_values(paths: tuple[ShapePath, ...]) -> Mapping[Keys, ShapePath]:
    """The paths that have a value somewhere; every case has an empty `context` and an unknown `user_confirmed`."""
    shown = {segments(one.path): one for one in paths if one.types != ("null",)}
    if not any(one[0] == "context" and len(one) > 1 for one in shown if one):
        shown.pop(("context",), None)
    return {keys: one for keys, one in shown.items() if keys}


def _is_outer(place: Place, places: list[Place]) -> bool:
    """Whether the rule also reads a place within this one."""
    return any(len(one) > len(place) and one[: len(place)] == place for one in places)
