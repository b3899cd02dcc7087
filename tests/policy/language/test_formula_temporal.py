"""Temporal rules: the meaning of the forms, and syntax errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest

from guardagent.policy.language.formula import Formula, Literal, all_of, any_of, globally, negation, once, read_temporal
from guardagent.policy.language.grammar import TemporalError
from guardagent.policy.monitors.automaton import Alphabet, compile_formula

Trace = Sequence[frozenset[str]]
LETTERS = Alphabet(["p", "q", "r"]).letters[1::2]
TRACES = [trace for length in range(5) for trace in itertools.product(range(len(LETTERS)), repeat=length)]


def forbidden(trace: Trace) -> bool:
    return not any("p" in event for event in trace)


def until(trace: Trace) -> bool:
    for event in trace:
        if "q" in event:
            return True
        if "p" not in event:
            return False
    return False


def within(trace: Trace, steps: int = 2) -> bool:
    deadlines: list[int] = []
    for now, event in enumerate(trace):
        if "q" in event:
            deadlines = []
        elif "p" in event:
            deadlines.append(now + steps)
        if any(now >= deadline for deadline in deadlines):
            return False
    return not deadlines


def chain(trace: Trace, steps: Sequence[str]) -> bool:
    """Step by step as the table says: keeps the pending steps, and discharges each by its event."""
    pending: list[str] = []
    for event in trace:
        pending = discharged(pending, event)
        if "p" in event:
            if pending:
                return False
            pending = discharged(list(steps), event)
    return not pending


def discharged(pending: list[str], event: frozenset[str]) -> list[str]:
    while pending and pending[0] in event:
        pending = pending[1:]
    return pending


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("G !p", forbidden),
        ("p -> F q", lambda trace: chain(trace, ["q"])),
        ("p -> F[<=2] q", within),
        ("p -> F q -> F r", lambda trace: chain(trace, ["q", "r"])),
        ("p -> F q -> F r -> F q", lambda trace: chain(trace, ["q", "r", "q"])),
        ("p U q", until),
        ("(p -> F q) AND (G !r)", lambda trace: chain(trace, ["q"]) and not any("r" in event for event in trace)),
        ("(p -> F q) OR (p -> F r)", lambda trace: chain(trace, ["q"]) or chain(trace, ["r"])),
    ],
)
def test_a_form_means_what_its_definition_says(text: str, holds: Callable[[Trace], bool]) -> None:
    """On all traces of up to four events, the one without any included."""
    automaton = compile_formula(read_temporal(text), LETTERS)
    for trace in TRACES:
        state = 0
        for letter in trace:
            state = automaton.table[state][letter]
        assert automaton.accepting[state] == holds([LETTERS[letter].ok for letter in trace]), trace


def tool(name: str) -> Formula:
    return Literal(f"tool:{name}")


MIXED = any_of([negation(tool("a")), all_of([tool("b"), tool("c")])])


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("G(tool:pay -> O tool:login)", globally(any_of([negation(tool("pay")), once(tool("login"))]))),
        ("!tool:a || tool:b && tool:c", MIXED),
        ("NOT tool:a OR tool:b AND tool:c # a comment", MIXED),
        ('tool:"delete account"', tool("delete account")),
        ("tool:mcp__files__read-all.v2", tool("mcp__files__read-all.v2")),
        ('"G"', Literal("G")),
        ("Gx", Literal("Gx")),
        ("@writers", Literal("@writers")),
    ],
)
def test_operators_names_and_comments(text: str, formula: Formula) -> None:
    """Both spellings, quoted names, and names that begin like an operator."""
    assert read_temporal(text) == formula


@pytest.mark.parametrize(
    ("text", "problem", "column"),
    [
        ("G(a -> F b", "unexpected end; expected ')'", 11),
        ("tool: -> F b", "unexpected '-> F b'; expected a name or a string in quotes", 7),
        ("a ->", "unexpected end; expected a rule, such as tool:NAME", 5),
        ("a b", "unexpected 'b'; expected '->' or 'AND' or 'OR'", 3),
        ("a => b", "did you mean a rule such as 'tool:A -> F tool:B'", 3),
        ("always !tool:x", "did you mean a rule such as 'G !tool:NAME'", 8),
        ("F[<=] a", "expected a whole number", 5),
        ("a -> F[<=0] b", "the bound is 0; expected 1 to 1000", 10),
        ("a -> F[<=1001] b", "the bound is 1001; expected 1 to 1000", 10),
        ("G !tool:x)", "unexpected ')'; expected the end", 10),
        ("a &&\n&& b", "unexpected '&& b'", 1),
        ("", "unexpected end", 1),
        ("!" * 5000 + "a", "nested too deeply", 1),
        ("G " * 5000 + "a", "nested too deeply", 1),
        ("a " * 20_000, "40,000 characters", 1),
    ],
)
def test_a_syntax_error_shows_a_caret(text: str, problem: str, column: int) -> None:
    """Under the place, with what was expected there."""
    with pytest.raises(TemporalError) as raised:
        read_temporal(text)
    message = str(raised.value)
    assert problem in message
    assert raised.value.column == column
    assert message.splitlines()[-1] == " " * (column + 1) + "^"
