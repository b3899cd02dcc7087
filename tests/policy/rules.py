"""Propositional rules and traces for tests that replay them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from guardagent.policy.language.formula import atoms, read_temporal
from guardagent.policy.monitors.automaton import Alphabet, Compiled, Standing, compile_formula
from guardagent.types import Event

SETS = {"@readers": frozenset({"get", "list"})}


def rule(text: str) -> Compiled:
    formula = read_temporal(text)
    alphabet = Alphabet(atoms(formula), {name[1:]: tools for name, tools in SETS.items()})
    return alphabet, compile_formula(formula, alphabet.letters)


TOOLS_ONLY = [
    rule(text)
    for text in ("G !tool:drop", "tool:get -> F tool:send", "tool:get -> F[<=2] tool:send", "tool:get U tool:send")
]
RULES = [
    *TOOLS_ONLY,
    *map(
        rule, ("G(@readers -> O action:login)", "F decision:yes", "urgent -> F tool:send", "G(!pii || Y action:login)")
    ),
    *map(rule, ("true", "false")),
]

events = st.builds(
    Event,
    st.sampled_from(["get", "list", "send", "drop", "other"]),
    status=st.sampled_from(["ok", "ok", "ok", "failed", "unknown", None]),
    action=st.sampled_from([None, "login", "write"]),
    decision=st.sampled_from([None, "yes", "no"]),
    tags=st.frozensets(st.sampled_from(["urgent", "pii", "x"]), max_size=2),
)
chosen_rules = st.lists(st.sampled_from(RULES), max_size=5)


def stepped(compiled: Compiled, trace: Sequence[Event]) -> tuple[Standing, int]:
    """Returns a rule's status after a trace and the index of the violating event or -1, from its automaton alone."""
    alphabet, automaton = compiled
    state, violated_by = 0, -1
    for at, event in enumerate(trace):
        state = automaton.table[state][alphabet.index(event, ok=event.status == "ok")]
        if automaton.violated[state] and violated_by < 0:
            violated_by = at
    return automaton.standing(state), violated_by
