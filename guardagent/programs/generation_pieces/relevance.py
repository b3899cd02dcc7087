"""Selects the toolbox functions that a prompt describes in full: those that a text names, or whose topic it touches.

For other checks a prompt has signature and summary, since every program needs a check; for the rest only the name. The
model can request the description of any of them.

The topic of a function is the words of its name and of the first line of its docstring, weighted by their rarity in the
toolbox. The selection is deterministic and uses no model.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from guardagent.errors import AnswerError, name_hint
from guardagent.programs.answers import objects, prose
from guardagent.sandbox.toolbox import Tool, Toolbox

KEY = "describe"

_TOUCHED = 0.25  # share of the weight of a topic
_SHORTEST = 4  # letters of a meaningful word
_STEM = 6
_WORD = re.compile(r"[a-z]+")
_EMPTY = frozenset("also another been every from have more most only other such than that their them they this what "
                   "when where whether which with word words text texts true false none".split())  # fmt: skip


@dataclass(frozen=True, slots=True)
class FunctionSelection:
    """The functions for a prompt.

    Attributes:
        toolbox: all functions.
        names: the functions described in full, in order.
        requested: further functions that the model requested.
    """

    toolbox: Toolbox
    names: tuple[str, ...]
    requested: tuple[str, ...] = ()

    @property
    def prompt_data(self) -> dict[str, list[Tool]]:
        """The template values: `tools` in full, `brief_tools` with their summary, `other_tools` by name."""
        names = (*self.names, *self.requested)
        rest = [tool for name, tool in self.toolbox.items() if name not in names]
        return {
            "tools": [self.toolbox[name] for name in names],
            "brief_tools": [tool for tool in rest if tool.is_check],
            "other_tools": [tool for tool in rest if not tool.is_check],
        }

    def with_requested(self, answer: str) -> FunctionSelection | None:
        """Returns the selection extended by the functions that an answer requests; None without a request.

        The second request adds all functions, which bounds the number of requests.

        Raises:
            AnswerError: a requested function is unknown, or is described already.
        """
        names = _requested(answer)
        if names is None:
            return None
        hidden = [name for name in self.toolbox if name not in (*self.names, *self.requested)]
        for name in names:
            if name not in hidden:
                why = "is described already" if name in self.toolbox else f"is unknown{name_hint(name, self.toolbox)}"
                raise AnswerError(
                    f"the function {name!r} {why}; expected an answer, or one of {', '.join(map(repr, hidden))}"
                )
        more = hidden if self.requested else [name for name in hidden if name in names]
        return replace(self, requested=(*self.requested, *more))


def select(toolbox: Toolbox, topics: Iterable[str] = (), names: Iterable[str] = ()) -> FunctionSelection:
    """Selects the functions that a prompt describes in full.

    Args:
        toolbox: all functions.
        topics: texts such as the request; they select the functions that they name or whose topic they touch.
        names: texts such as code; they select the functions that they name.
    """
    topics = list(topics)
    words = set(re.findall(r"\w+", "\n".join((*topics, *names))))
    touched = _relevant(toolbox, [_stems(text) for text in topics])
    return FunctionSelection(toolbox, tuple(name for name in toolbox if name in words or name in touched))


def _relevant(toolbox: Toolbox, texts: Sequence[Collection[str]]) -> set[str]:
    """Returns the functions whose topic one of the texts touches."""
    topics = {name: _stems(f"{name} {tool.summary}") for name, tool in toolbox.items()}
    counts = Counter(stem for topic in topics.values() for stem in topic)
    weights = {stem: math.log(1 + len(topics) / count) for stem, count in counts.items()}
    return {name for name, topic in topics.items() if any(_share(topic, text, weights) >= _TOUCHED for text in texts)}


def _share(topic: Collection[str], text: Collection[str], weights: Mapping[str, float]) -> float:
    """Returns the share of a topic's weight that a text contains."""
    whole = sum(weights[stem] for stem in topic)
    return sum(weights[stem] for stem in topic if stem in text) / whole if whole else 0.0


@lru_cache(64)
def _stems(text: str) -> frozenset[str]:
    """Returns the stems of the meaningful words of a text."""
    words = {word for word in _WORD.findall(text.lower()) if len(word) >= _SHORTEST and word not in _EMPTY}
    return frozenset(re.sub(r"(?:ing|ed|es|s|e)$", "", word)[:_STEM] for word in words)


def _requested(answer: str) -> list[str] | None:
    """Returns the names in an answer with an object {"describe": [names]}; None for any other answer."""
    found = [value for value in objects(prose(answer)) if set(value) == {KEY}]
    if not found:
        return None
    names = found[0][KEY]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise AnswerError(f'invalid request for descriptions; expected {{"{KEY}": [names of functions]}}')
    return names
