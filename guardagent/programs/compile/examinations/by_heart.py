"""Whether the program knows the examples by heart: it holds words of single examples, for at least half of them."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent._support import syntax
from guardagent.programs.compile.examinations import Failure, Tried
from guardagent.programs.compile.quotes import quoted_by
from guardagent.programs.compile.trial import Trial
from guardagent.programs.compile.world import World

ORDER = 15

ABOUT = "the program does not hold words of single examples, for at least half of them"

_LENGTH = 12  # characters that stand in one example alone: hardly the words of a rule
_FEWEST = 3  # examples; of two, one is already half


def examine(trial: Trial, world: World) -> Iterator[Tried]:
    tried = Tried("by_heart", ABOUT, len(world.examples))
    quotes = quoted_by(syntax.parse(trial.program), world, _LENGTH)
    by_example = {example.id: (node, text) for node, text, example in quotes}
    if len(world.examples) >= _FEWEST and 2 * len(by_example) >= len(world.examples):
        for example in world.examples:
            if example.id in by_example:
                node, text = by_example[example.id]
                given = f"line {node.lineno} holds {text[:60]!r}"
                expected = "no words that stand in this example alone"
                tried.failures.append(Failure(tried.name, example, "as it is", expected, given))
    yield tried
