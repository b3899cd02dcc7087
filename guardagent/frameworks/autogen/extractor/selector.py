"""A selector group chat: a function or a model chooses who speaks next.

A model is only asked where the function chose nobody. It is offered the candidates, or everybody but the last whom it
chose itself; AutoGen 0.7 takes anybody's name from it, though, candidate or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from guardagent.frameworks.autogen.extractor.agents import speakers
from guardagent.frameworks.autogen.extractor.selection import SpeakerChoice, speaker_choice
from guardagent.frameworks.autogen.extractor.termination import Termination
from guardagent.frameworks.autogen.extractor.turns import TeamTurn, exits_of, widen
from guardagent.workflow.extraction.framework_objects import private_attribute
from guardagent.workflow.extraction.regions import Assembly, Region, RegionExit

_DISTRIBUTION = "autogen-agentchat"
_BY_FUNCTION, _BY_MODEL = "selector_func chooses it", "the model chooses it"
_NO_CANDIDATE = "the model names it, though it is no candidate"
_TASK = "user"  # of a task that is given as a text


def selector(assembly: Assembly, team: Any, turns: list[TeamTurn], stop: Termination) -> Region:
    """Connects everybody with those who can be chosen after them."""
    selection = SpeakerSelection(assembly, team, turns)
    entries = tuple(
        replace(entry, kind="conditional", condition=why)
        for turn, why in selection.successors(None)
        for entry in turn.region.entries
    )
    for turn in turns:
        for following, why in selection.successors(turn):
            assembly.connect([_with_condition(leave, why) for leave in turn.region.exits], following.later)
    return Region(entries, exits_of(assembly, turns, stop))


def _with_condition(leave: RegionExit, why: str) -> RegionExit:
    return replace(leave, condition=" and ".join(filter(None, (leave.condition, why))), conditional=True)


@dataclass
class SpeakerSelection:
    """Who can be chosen after whom."""

    assembly: Assembly
    team: Any
    turns: list[TeamTurn]

    def __post_init__(self) -> None:
        self.function = private_attribute(self.team, "_selector_func", _DISTRIBUTION)
        self.candidates = private_attribute(self.team, "_candidate_func", _DISTRIBUTION)
        self.repeats = private_attribute(self.team, "_allow_repeated_speaker", _DISTRIBUTION)
        self._by_function = {
            turn.name for one in self.turns for turn in self._members(self._choice(one, self.function))
        }

    def successors(self, last: TeamTurn | None) -> Iterator[tuple[TeamTurn, str]]:
        """The same, where a team that the model chooses may stop before its first turn: it chooses again then."""
        found = list(self.after(last))
        yield from found
        if last is not None and any(turn.region.empty and why != _BY_FUNCTION for turn, why in found):
            yield last, _BY_MODEL

    def after(self, last: TeamTurn | None) -> Iterator[tuple[TeamTurn, str]]:
        """Everybody who can speak after somebody, or first, and why."""
        choice = self._choice(last, self.function)
        self._note_unknown(choice, last, "selector_func")
        for turn in self._members(choice):
            yield turn, _BY_FUNCTION
        if choice.may_be_none or choice.unknown:
            yield from self._by_model(last)

    def _choice(self, last: TeamTurn | None, function: Any) -> SpeakerChoice:
        """Whom a function can choose; a function that is not there chooses nobody."""
        if function is None:
            return SpeakerChoice(may_be_none=True)
        sources = (_TASK,) if last is None else speakers(last.runner)
        return speaker_choice(function, sources, has_spoken=last is not None)

    def _members(self, choice: SpeakerChoice) -> list[TeamTurn]:
        return [turn for turn in self.turns if choice.unknown or turn.name in choice.names]

    def _by_model(self, last: TeamTurn | None) -> Iterator[tuple[TeamTurn, str]]:
        if self.candidates is None:
            offered = [turn for turn in self.turns if self._may_follow(turn, last)]
            self._note_repeats(offered)
            yield from ((turn, _BY_MODEL) for turn in offered)
            return
        choice = self._choice(last, self.candidates)
        self._note_unknown(choice, last, "candidate_func")
        offered = self._members(choice)
        for turn in offered:
            yield turn, _BY_MODEL
        if len(offered) > 1:
            yield from self._non_candidates(offered, last)

    def _non_candidates(self, offered: list[TeamTurn], last: TeamTurn | None) -> Iterator[tuple[TeamTurn, str]]:
        others = [turn for turn in self.turns if turn not in offered and self._may_follow(turn, last)]
        if others:
            self.assembly.note(f"in {self.team.name}, AutoGen 0.7 takes the name of any participant from the model")
            self._widen(last)
        yield from ((turn, _NO_CANDIDATE) for turn in others)

    def _may_follow(self, turn: TeamTurn, last: TeamTurn | None) -> bool:
        """Whether the model can choose somebody: not whom it chose last, unless that is allowed."""
        return self.repeats or turn is not last or turn.name in self._by_function

    def _note_repeats(self, offered: list[TeamTurn]) -> None:
        if len(offered) > 1 and not self.repeats:
            self.assembly.note(
                f"in {self.team.name}, whom the model chose last speaks again where the model names nobody else, "
                "however often it is asked: these edges are left out"
            )

    def _note_unknown(self, choice: SpeakerChoice, last: TeamTurn | None, what: str) -> None:
        if choice.unknown:
            self.assembly.note(f"whom the {what} of {self.team.name} chooses cannot be known: it is anybody here")
            self._widen(last)
        for name in sorted(choice.names - {turn.name for turn in self.turns}):
            self.assembly.note(f"the {what} of {self.team.name} names {name!r}, who is no participant: an error")

    def _widen(self, last: TeamTurn | None) -> None:
        widen(self.assembly, last.region.nodes if last else ())
