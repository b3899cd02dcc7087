"""A walk as lines of text from top to bottom; a line beside a cycle leads back to its beginning."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent._terminal import single_line
from guardagent.workflow.reports._source_locations import location_of
from guardagent.workflow.reports._walks import WitnessStep, WitnessWalk

StyledText = tuple[str, str]
"""A string and its style."""

_MOST, _HEAD, _TAIL = 24, 12, 8
_KINDS = {"human": "green", "tool": "blue", "llm": "magenta", "router": "yellow", "subgraph": "cyan"}


def walk_lines(walk: WitnessWalk) -> Iterator[tuple[StyledText, ...]]:
    """Yields the lines of a walk."""
    # The last step of a cycle equals its first: a line leads back there instead.
    count = len(walk.steps) - (walk.turn is not None)
    hidden = range(_HEAD, count - _TAIL) if count > _MOST and walk.turn is None else range(0)
    for index in range(count):
        if hidden and index == hidden.start:
            yield (("  ⋮  ", "dim"), (f"{len(hidden):,} more steps", "dim"))
        if index not in hidden:
            yield from _step(walk, index, count)
    if walk.turn is not None:
        condition = single_line(walk.steps[-1].condition)
        yield (("╰─┘ ", "red"), (f"{condition}: and around again" if condition else "and around again", "red"))


def _step(walk: WitnessWalk, index: int, count: int) -> Iterator[tuple[StyledText, ...]]:
    step, turn = walk.steps[index], len(walk.steps) if walk.turn is None else walk.turn
    if condition := single_line(step.condition):
        yield (("│ " if index > turn else "  ", "red"), ("┆  ", "dim"), (condition, "italic"))
    side = "╭▶" if index == turn else "│ " if index > turn else "  "
    last = index == count - 1 and walk.turn is None
    node = " ●" if last and not index else "└●" if last else "├○" if index else "┌○"
    yield ((side, "red"), (f"{node} ", "red" if last else "dim"), *_words(step))


def _words(step: WitnessStep) -> Iterator[StyledText]:
    place = location_of(step.node)
    yield (single_line(step.node.id), "bold")
    yield (f"  {step.node.kind}", _KINDS.get(step.node.kind, "dim"))
    if step.calls:
        yield (f"  calls {', '.join(map(single_line, step.calls))}", "")
    if place:
        yield (f"  {single_line(place)}", "dim")
