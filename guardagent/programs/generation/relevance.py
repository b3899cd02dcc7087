"""Which functions of a toolbox a prompt describes in full: those that a text names, or whose topic it touches.

Of the other checks a prompt has signature and summary, since no program may do without a check; of the rest the name.
The model can ask for the description of any of them.

The topic of a function are the words of its name and of the first line of its docstring; a word that few functions of
the toolbox share weighs more. No model is asked, and the same texts give the same functions.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from guardagent.errors import AnswerError, name_hint
from guardagent.programs.generation.answers import objects, prose
from guardagent.sandbox.toolbox import Tool, Toolbox

KEY = "describe"

_TOUCHED = 0.25  # of the weight of a topic
_SHORTEST = 4  # letters of a word that says something
_STEM = 6
_WORD = re.compile(r"[a-z]+")
_EMPTY = frozenset("also another been every from have more most only other such than that their them they this what "
                   "when where whether which with word words text texts true false none".split())  # fmt: skip


@dataclass(frozen=True, slots=True)
class FunctionSelection:
    """The functions for a prompt.

    Attributes:
        toolbox: all of them.
        names: those that are described in full, in their order.
        requested: those of them that a model asked for.
    """

    toolbox: Toolbox
    names: tuple[str, ...]
    requested: tuple[str, ...] = ()

    @property
    def prompt_data(self) -> dict[str, list[Tool]]:
        """What a template is given: `tools` in full, `brief_tools` with their summary, `other_tools` by name."""
        names = (*self.names, *self.requested)
        rest = [tool for name, tool in self.toolbox.items() if name not in names]
        return {
            "tools": [self.toolbox[name] for name in names],
            "brief_tools": [tool for tool in rest if tool.is_check],
            "other_tools": [tool for tool in rest if not tool.is_check],
        }

    def with_requested(self, answer: str) -> FunctionSelection | None:
        """This selection with the functions that an answer asks for; None where it asks for none.

        The second time all are described, so that a model cannot ask for one after the other.

        Raises:
            AnswerError: there is no such function, or it is described already.
        """
        names = _requested(answer)
        if names is None:
            return None
        hidden = [name for name in self.toolbox if name not in (*self.names, *self.requested)]
        for name in names:
            if name not in hidden:
                why = "is described already" if name in self.toolbox else f"is unknown{name_hint(name, self.toolbox)}"
                raise AnswerError(f"the function {name!r} {why}; expected an answer, or one of {', '.join(hidden)}")
        more = hidden if self.requested else [name for name in hidden if name in names]
        return replace(self, requested=(*self.requested, *more))


def select(toolbox: Toolbox, topics: Iterable[str] = (), names: Iterable[str] = ()) -> FunctionSelection:
    """The functions that a prompt describes in full.

    Args:
        toolbox: all functions there are.
        topics: texts such as the request. A function counts whose topic one of them touches, or which it names.
        names: texts such as code. A function counts that one of them names.
    """
    topics = list(topics)
    words = set(re.findall(r"\w+", "\n".join((*topics, *names))))
    touched = _relevant(toolbox, [_stems(text) for text in topics])
    return FunctionSelection(toolbox, tuple(name for name in toolbox if name in words or name in touched))


def _relevant(toolbox: Toolbox, texts: Sequence[Collection[str]]) -> set[str]:
    """The names of the functions of whose topic one of the texts holds enough."""
    topics = {name: _stems(f"{name} {tool.summary}") for name, tool in toolbox.items()}
    counts = Counter(stem for topic in topics.values() for stem in topic)
    weights = {stem: math.log(1 + len(topics) / count) for stem, count in counts.items()}
    return {name for name, topic in topics.items() if any(_share(topic, text, weights) >= _TOUCHED for text in texts)}


def _share(topic: Collection[str], text: Collection[str], weights: Mapping[str, float]) -> float:
    """The part of a topic's weight that a text holds."""
    whole = sum(weights[stem] for stem in topic)
    return sum(weights[stem] for stem in topic if stem in text) / whole if whole else 0.0


@lru_cache(64)
def _stems(text: str) -> frozenset[str]:
    """The words of a text without their endings, as far as they say something."""
    words = {word for word in _WORD.findall(text.lower()) if len(word) >= _SHORTEST and word not in _EMPTY}
    return frozenset(re.sub(r"(?:ing|ed|es|s|e)$", "", word)[:_STEM] for word in words)


def _requested(answer: str) -> list[str] | None:
    """The names in an answer that is one object {"describe": [names]}; None in any other answer."""
    found = [value for value in objects(prose(answer)) if set(value) == {KEY}]
    if not found:
        return None
    names = found[0][KEY]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise AnswerError(f'expected {{"{KEY}": [names of functions]}}')
    return names
