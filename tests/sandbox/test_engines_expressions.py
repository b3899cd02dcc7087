"""A program has one answer: that of Python, in every engine, or it is refused."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

from guardagent import Limits
from guardagent.errors import ProgramError
from guardagent.sandbox import load_sandbox
from guardagent.sandbox.engines import monty
from tests.sandbox.expressions import MODULES, expressions
from tests.tiers import slow_after

HEAD = f"import {', '.join(MODULES)}\n"
SHOW = "def show(v):\n    return repr(sorted(v, key=repr)) if isinstance(v, set) else repr(v)\n"
INPUTS = {"agent_input": "", "agent_output": "", "facts": {}}
SPACE: dict[str, Any] = {}
exec(HEAD + SHOW, SPACE)  # noqa: S102 - the same code as in the programs


def by_python(expression: str) -> str | None:
    """The type and the representation of the value; None for an error."""
    try:
        value = eval(expression, SPACE)  # noqa: S307 - the expressions are ours
        return f"{type(value).__name__} {SPACE['show'](value)}"
    except Exception:  # noqa: BLE001 - whatever it is, the program fails
        return None


def program_of(texts: list[str]) -> str:
    functions = "".join(f"def e{at}():\n    return {text}\n" for at, text in enumerate(texts))
    tried = "".join(
        f"    try:\n        v = e{at}()\n        out.append(type(v).__name__ + ' ' + show(v))\n"
        "    except Exception:\n        out.append(None)\n"
        for at in range(len(texts))
    )
    check = "def check(agent_input, agent_output, facts):\n    out = []\n"
    return f"{HEAD}{SHOW}{functions}{check}{tried}    return {{'label': 0, 'answer': '', 'details': {{'out': out}}}}\n"


def looks_for_words(text: str) -> bool:
    return r"\w" in text or r"\b" in text


def by_engine(name: str, texts: list[str]) -> dict[str, str | None]:
    sandbox = load_sandbox(name, Limits(seconds=20))
    results: dict[str, str | None] = {}
    for words in (False, True):
        group = [text for text in texts if looks_for_words(text) is words]
        for at in range(0, len(group), 64):
            part = group[at : at + 64]
            answer = sandbox.run(program_of(part), INPUTS, functions={})
            results |= zip(part, answer["details"]["out"], strict=True)
    return results


def is_refused(text: str) -> bool:
    program = program_of([text])
    return bool(monty.unsupported(program, frozenset()) or monty._word_gap(program, INPUTS))


@pytest.mark.parametrize("count", slow_after(1, [400, 2000]))
@pytest.mark.parametrize("engine", ["monty", "restricted"])
def test_expressions_have_the_value_of_python(engine: str, count: int) -> None:
    """Monty may refuse one before it runs, or fail; it never gives another value."""
    texts = [text for text in expressions(count, seed=7) if engine == "restricted" or not is_refused(text)]
    assert len(texts) > 0.85 * count
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = list(map(by_python, texts))
    results = by_engine(engine, texts)
    rows = [(text, value, results[text]) for text, value in zip(texts, expected, strict=True)]
    wrong = [row for row in rows if row[2] not in (row[1], *[None] * (engine == "monty"))]
    assert not wrong, json.dumps(wrong[:5], indent=1)
    assert sum(row[1] == row[2] for row in rows) > 0.95 * len(rows)


@pytest.mark.parametrize(
    ("text", "gap"),
    [
        ("round(2.675, 2)", "'round' to some digits"),
        ("round(2.675, ndigits=2)", "'round' to some digits"),
        ("(2.5).is_integer()", "'is_integer'"),
        ("datetime.date.fromisoformat('20240229')", "'fromisoformat'"),
        ("re.sub('x*', '-', 'aäx b')", "matches an empty text"),
        ("re.search(r'\\w', '½')", r"U\+00BD"),
        ("{1: 'a', True: 'b'}", "a key that equals another one"),
    ],
)
def test_known_differences_are_refused(text: str, gap: str) -> None:
    """`auto` takes the other engine; Monty alone says which part it does not support."""
    program = program_of([text])
    with pytest.raises(ProgramError, match=gap):
        load_sandbox("monty").run(program, INPUTS, functions={})
    assert load_sandbox("auto").run(program, INPUTS, functions={})["details"]["out"] == [by_python(text)]


def test_a_date_is_no_date_with_time() -> None:
    """In the restricted engine, whose classes have another clock, a date still equals no date with a time."""
    texts = [
        "datetime.date(2024, 2, 29) == datetime.datetime(2024, 2, 29)",
        "datetime.date(2024, 2, 29) < datetime.datetime(2024, 2, 29)",
        "repr(datetime.datetime(2024, 2, 29))",
        "len({datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29).date()})",
    ]
    expected = ["bool False", None, "str 'datetime.datetime(2024, 2, 29, 0, 0)'", "int 1"]
    assert list(by_engine("restricted", texts).values()) == expected
