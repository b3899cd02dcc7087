"""Selector group chats: a function or a model chooses the next speaker.

The model chooses only if the function chose nobody. Its candidates are those of a function, or everyone but the speaker
that it chose last; AutoGen 0.7 accepts any participant from it, candidate or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from guardagent.frameworks.autogen.extractor.agents import speakers
from guardagent.frameworks.autogen.extractor.selection import SpeakerChoice, speaker_choice
from guardagent.frameworks.autogen.extractor.termination import Termination
from guardagent.frameworks.autogen.extractor.turns import TeamTurn, exits_of, widen
from guardagent.workflow.extraction.objects import private_attribute
from guardagent.workflow.extraction.regions import Assembly, Region, RegionExit

_DISTRIBUTION = "autogen-agentchat"
_BY_FUNCTION, _BY_MODEL = "selector_func chooses it", "the model chooses it"
_NO_CANDIDATE = "the model names it, though it is not a candidate"
_TASK = "user"  # the source of a task given as a string


def selector(assembly: Assembly, team: Any, turns: list[TeamTurn], stop: Termination) -> Region:
    """Connects each participant with its possible successors."""
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
    """The possible successors of each speaker."""

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
        """The possible successors; includes a repeated choice after a team that stops before its first turn."""
        found = list(self.after(last))
        yield from found
        if last is not None and any(turn.region.empty and why != _BY_FUNCTION for turn, why in found):
            yield last, _BY_MODEL

    def after(self, last: TeamTurn | None) -> Iterator[tuple[TeamTurn, str]]:
        """The possible next speakers after one, or at the start, each with the reason."""
        choice = self._choice(last, self.function)
        self._note_unknown(choice, last, "selector_func")
        for turn in self._members(choice):
            yield turn, _BY_FUNCTION
        if choice.may_be_none or choice.unknown:
            yield from self._by_model(last)

    def _choice(self, last: TeamTurn | None, function: Any) -> SpeakerChoice:
        """The speakers that a function can choose; a missing function chooses nobody."""
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
            why = f"in {self.team.name!r}, AutoGen 0.7 accepts the name of any participant from the model"
            self._widen(last, why)
        yield from ((turn, _NO_CANDIDATE) for turn in others)

    def _may_follow(self, turn: TeamTurn, last: TeamTurn | None) -> bool:
        """Whether the model can choose a speaker: not the one it chose last, unless repeats are allowed."""
        return self.repeats or turn is not last or turn.name in self._by_function

    def _note_repeats(self, offered: list[TeamTurn]) -> None:
        if len(offered) > 1 and not self.repeats:
            self.assembly.note(
                f"in {self.team.name!r}, the last speaker repeats if the model names no other after all attempts; "
                "these edges are omitted"
            )

    def _note_unknown(self, choice: SpeakerChoice, last: TeamTurn | None, what: str) -> None:
        if choice.unknown:
            why = f"the choice of the {what} of {self.team.name!r} is unknown; it is assumed to be any participant"
            self._widen(last, why)
        for name in sorted(choice.names - {turn.name for turn in self.turns}):
            self.assembly.note(
                f"the {what} of {self.team.name!r} names {name!r}, which is not a participant: an error at run time"
            )

    def _widen(self, last: TeamTurn | None, why: str) -> None:
        if last is None:
            self.assembly.note(why)
        else:
            widen(self.assembly, last.region.nodes, why)
