"""The plan, program or judgement in an answer of a model, and the toolbox functions that a prompt describes in full.

An invalid answer is an AnswerError, never a guess.

A prompt describes the functions that a text names, or whose topic it touches. It has only the names of the rest; if no
described function is a check, it has signature and summary of all checks, since every program needs one. The model can
request any description. The topic of a function is the words of its name and of the first line of its docstring,
weighted by their rarity in the toolbox. The selection is deterministic and uses no model.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from guardagent._support import json_values, syntax
from guardagent.errors import AnswerError, name_hint
from guardagent.programs.memory.retrieval import PLAN_STEPS
from guardagent.sandbox import ENGINES
from guardagent.sandbox.toolbox import Toolbox

_NUMBERED = re.compile(r"^[\s>*_#-]*(?:step\s*)?(\d)\s*[.):]", re.IGNORECASE | re.MULTILINE)
_INLINE = re.compile(r"(?:^|(?<=\s))(?:step\s*)?(\d)[.):](?=\s)", re.IGNORECASE)
_BULLET = re.compile(r"^([ \t]*)[-*•][ \t]+", re.MULTILINE)
_ENGINE = re.compile(r"^\W*(?:execution )?engine\W+(\w+)", re.IGNORECASE | re.MULTILINE)
_BLOCK = re.compile(
    r"^[ \t]*(```+|~~~+)[ \t]*([\w+#.-]*)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|(?=^[ \t]*\1[ \t]*\w)|\Z)",
    re.DOTALL | re.MULTILINE,
)
_PYTHON = ("", "python", "py", "python3")
_LONGEST_BEGINNING = 200
_CHECK = re.compile(r"^def check\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Plan:
    """A model's plan: its text, the four mandatory steps, and the named engine (default `auto`)."""

    text: str
    steps: tuple[str, ...]
    engine: str


def read_plan(answer: str) -> Plan:
    """Reads the plan in an answer.

    Raises:
        AnswerError: the plan has fewer than four steps (Section 4.2), or names an unknown engine.
    """
    text = answer.strip()
    steps = _steps(text)
    wanted = len(PLAN_STEPS)
    if len(steps) < wanted:
        raise AnswerError(f"the plan has {len(steps)} recognizable steps; expected four, numbered 1 to 4")
    # All text after the third step belongs to the last one.
    return Plan(text, (*steps[: wanted - 1], "\n".join(steps[wanted - 1 :])), _engine(text))


def read_code(answer: str) -> str:
    """Reads the program in an answer: of several, the last complete one.

    Raises:
        AnswerError: the answer has no program; with what it says instead.
    """
    answer, blocks = _lines(answer), _blocks(answer)
    if not blocks:
        if _CHECK.search(answer) and is_python(answer):
            return answer.strip() + "\n"
        raise AnswerError(
            "the answer has no code block; expected one ```python block that defines 'check'; it says "
            f"{_beginning(answer)!r}"
        )
    python = [code for language, code in blocks if language in _PYTHON]
    if not python:
        raise AnswerError(f"the code is in {blocks[0][0]!r}; expected Python")
    programs = [code for code in python if _CHECK.search(code)]
    if not programs:
        raise AnswerError("no code block defines a function 'check'; expected one complete program in one block")
    return next((code for code in reversed(programs) if is_python(code)), programs[-1])


def _beginning(answer: str) -> str:
    text = " ".join(answer.split())
    return text if len(text) <= _LONGEST_BEGINNING else f"{text[:_LONGEST_BEGINNING]}…"


def read_judgement(answer: str) -> dict[str, Any]:
    """Reads the JSON object with a label in an answer.

    Raises:
        AnswerError: the answer has no such object, or more than one.
    """
    values = [value for value in objects(answer) if "label" in value]
    if len(values) != 1:
        raise AnswerError(f"the answer has {len(values) or 'no'} JSON objects with a 'label'; expected exactly one")
    return values[0]


def python_blocks(answer: str) -> list[str]:
    """Returns the code blocks of an answer that are marked as Python or not marked."""
    return [code for language, code in _blocks(answer) if language in _PYTHON]


def prose(answer: str) -> str:
    """Returns an answer without its Python blocks."""
    text = _BLOCK.sub(lambda match: "" if match[2].lower() in _PYTHON else match[0], _lines(answer))
    return "" if _CHECK.search(text) and is_python(text) else text.strip()


def holds_code(answer: str) -> bool:
    """Whether an answer has a code block, or is Python that defines a function."""
    return bool(_BLOCK.search(answer)) or ("def " in answer and is_python(answer))


def is_python(text: str) -> bool:
    try:
        syntax.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _blocks(answer: str) -> list[tuple[str, str]]:
    """Returns (language, code) of each block."""
    return [(match[2].lower(), textwrap.dedent(match[3])) for match in _BLOCK.finditer(_lines(answer))]


def _lines(answer: str) -> str:
    return answer.replace("\r\n", "\n").replace("\r", "\n")


def _steps(text: str) -> list[str]:
    """Splits a plan into steps: by numbers, else by bullets, else by paragraphs or lines."""
    numbered = max(_numbered(text, _NUMBERED), _numbered(text, _INLINE), key=len)
    if len(numbered) > 1:
        return numbered
    bullets = list(_BULLET.finditer(text))
    if len(bullets) > 1:
        least = min(len(match[1].expandtabs()) for match in bullets)
        return _cut(text, [match for match in bullets if len(match[1].expandtabs()) == least])
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
    return paragraphs if len(paragraphs) > 1 else [line.strip() for line in text.splitlines() if line.strip()]


def _numbered(text: str, pattern: re.Pattern[str]) -> list[str]:
    """Splits a text at 1, then 2, and so on; other numbers in between belong to a step."""
    marks: list[re.Match[str]] = []
    for match in pattern.finditer(text):
        if int(match[1]) == len(marks) + 1:
            marks.append(match)
    return _cut(text, marks)


def _cut(text: str, marks: list[re.Match[str]]) -> list[str]:
    ends = [match.start() for match in marks[1:]] + [len(text)]
    steps = [text[match.end() : end].strip(" \t\r\n*_#") for match, end in zip(marks, ends, strict=False)]
    return [step for step in steps if step]


def _engine(text: str) -> str:
    named = _ENGINE.findall(text)
    name = named[-1].lower() if named else "auto"
    if name == "python":  # every engine runs Python
        return "auto"
    if name not in ENGINES.shipped():  # only the operator may choose another package's engine
        raise AnswerError(f"the plan names the unknown engine {name!r}{name_hint(name, ENGINES.shipped())}")
    return name


def objects(text: str) -> Iterator[dict[str, Any]]:
    """Yields the outermost JSON objects in a text, except those with a duplicate key."""
    decoder = json_values.decoder()
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            yield value
        at = text.find("{", end)


# --- functions in a prompt

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
    def prompt_data(self) -> dict[str, Sequence[Any]]:
        """The template values: `tools` in full, `brief_tools` with their summary, `other_tools` by name, names."""
        tools = [self.toolbox[name] for name in (*self.names, *self.requested)]
        rest = [tool for tool in self.toolbox.values() if tool not in tools]
        brief = [] if any(tool.is_check for tool in tools) else [tool for tool in rest if tool.is_check]
        others = [tool for tool in rest if tool not in brief]
        return {"tools": tools, "brief_tools": brief, "other_tools": others, "requested": self.requested}

    def with_plan(self, plan: str) -> FunctionSelection:
        """Returns the selection with the functions that a plan names, and those that their descriptions refer to."""
        waiting, chosen = select(self.toolbox, names=[plan]).names, set(self.names)
        while waiting:
            chosen.update(waiting)
            waiting = tuple(name for name in _mentioned(self.toolbox, waiting) if name not in chosen)
        chosen.difference_update(self.requested)
        return replace(self, names=tuple(name for name in self.toolbox if name in chosen))

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


def _mentioned(toolbox: Toolbox, names: Iterable[str]) -> list[str]:
    """Returns the functions that descriptions name, and not just as words of English."""
    described = "\n".join(toolbox[name].describe() for name in names)
    words = set(re.findall(r"\w+(?=\()|(?<=`)\w+(?=`)|\w*_\w*", described))
    return [name for name in toolbox if name in words]


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
    values = [value for value in objects(prose(answer)) if set(value) == {KEY}]
    if not values:
        return None
    names = values[0][KEY]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise AnswerError(f'invalid request for descriptions; expected {{"{KEY}": [names of functions]}}')
    return names
