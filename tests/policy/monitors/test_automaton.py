"""The automaton of a formula agrees with its definition, is minimal, and detects final states."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st

from guardagent import InputError
from guardagent.policy.language import formula as temporal
from guardagent.policy.monitors.automaton import Alphabet, Automaton, Letter, Standing, compile_formula
from guardagent.types import Event
from tests.policy.naive import holds
from tests.tiers import examples

THREE = Alphabet(["a", "b", "c"]).letters
WENT_WELL = THREE[1::2]
TRACES = [trace for length in range(1, 4) for trace in itertools.product(range(len(WENT_WELL)), repeat=length)]

letter_atoms = st.sampled_from(["a", "b", "c"]).map(temporal.Literal)


def deeper(inner: st.SearchStrategy[temporal.Formula]) -> st.SearchStrategy[temporal.Formula]:
    two = st.tuples(inner, inner)
    return st.one_of(
        inner.map(temporal.negation),
        *(inner.map(make) for make in (temporal.globally, temporal.finally_, temporal.once, temporal.historically)),
        *(st.builds(make, inner, st.booleans()) for make in (temporal.Next, temporal.Previous)),
        *(
            st.builds(make, inner, inner)
            for make in (
                temporal.Until,
                temporal.Release,
                temporal.Since,
                temporal.TriggerFormula,
                temporal.implies,
                temporal.weak_until,
            )
        ),
        *(two.map(make) for make in (temporal.all_of, temporal.any_of)),
        st.builds(temporal.Within, st.integers(0, 3), inner),
    )


formulas = st.recursive(letter_atoms, deeper, max_leaves=6)


def compiled(formula: temporal.Formula, letters: Sequence[Letter]) -> Automaton:
    """The automaton of a generated formula; a formula that is refused for its size is no example."""
    try:
        return compile_formula(formula, letters)
    except InputError as error:
        if "split the rule" not in str(error):
            raise
        reject()


def ends(automaton: Automaton, trace: tuple[int, ...]) -> int:
    state = 0
    for letter in trace:
        state = automaton.table[state][letter]
    return state


@settings(max_examples=examples(150))
@given(formulas, st.lists(st.integers(0, len(THREE) - 1), min_size=4, max_size=7).map(tuple))
def test_an_automaton_agrees_with_the_definition(formula: temporal.Formula, longer: tuple[int, ...]) -> None:
    """They agree on all traces of up to three successful steps, and on a longer trace of any steps."""
    automaton = compiled(formula, THREE)
    for trace in TRACES:
        letters = [WENT_WELL[at] for at in trace]
        assert automaton.accepting[ends(automaton, tuple(2 * at + 1 for at in trace))] == holds(formula, letters)
    assert automaton.accepting[ends(automaton, longer)] == holds(formula, [THREE[at] for at in longer])


@given(formulas)
def test_a_negation_accepts_the_rest(formula: temporal.Formula) -> None:
    """On successful steps a literal and its negation are complementary."""
    automata = [compiled(side, WENT_WELL) for side in (formula, temporal.negation(formula))]
    assert len(automata[0].table) == len(automata[1].table)
    for trace in TRACES:
        assert {automaton.accepting[ends(automaton, trace)] for automaton in automata} == {True, False}


@given(formulas, formulas)
def test_equivalent_formulas_have_the_same_automaton(first: temporal.Formula, second: temporal.Formula) -> None:
    """It is minimal, and its states are numbered in one order."""
    distributed = temporal.any_of(
        [temporal.all_of([first, second]), temporal.all_of([first, temporal.negation(second)])]
    )
    assert compiled(distributed, WENT_WELL) == compiled(first, WENT_WELL)


@given(formulas)
def test_what_is_settled_stays_so(formula: temporal.Formula) -> None:
    """Violated and satisfied states have no way out, and every other state can still become either."""
    automaton = compiled(formula, THREE)
    for state, row in enumerate(automaton.table):
        for verdict, accepting in ((automaton.violated, False), (automaton.satisfied, True)):
            if verdict[state]:
                assert automaton.accepting[state] is accepting
                assert all(verdict[target] for target in row)


@pytest.mark.parametrize(
    ("text", "states"),
    [
        *(("G !a", 2), ("a -> F b", 3), ("a U b", 3), ("a -> F[<=7] b", 9), ("a -> F b -> F c", 4)),
        *(("F a", 2), ("G(a -> F[<=40] b)", 42), ("G(a -> O b)", 3), ("true", 1), ("false", 1)),
    ],
)
def test_automata_have_the_size_that_the_paper_says(text: str, states: int) -> None:
    """Its Table 2 (n + 1 for a chain of n atoms)."""
    assert len(compile_formula(temporal.read_temporal(text), THREE).table) == states


def test_the_trace_without_steps_can_be_judged() -> None:
    """The empty trace satisfies G and violates F."""
    accepts_nothing = [
        temporal.globally(temporal.negation(temporal.Literal("a"))),
        temporal.negation(temporal.Literal("a")),
        temporal.Release(temporal.Literal("a"), temporal.Literal("b")),
    ]
    for formula in accepts_nothing:
        assert compile_formula(formula, THREE).accepting[0]
        assert not compile_formula(temporal.negation(formula), THREE).accepting[0]


@given(formulas)
@example(temporal.Within(2, temporal.TRUE))
@example(temporal.Within(2, temporal.globally(temporal.Literal("a"))))
def test_an_obligation_over_no_events_is_violated(formula: temporal.Formula) -> None:
    """No step is within a bound: `F[<=2] p` over the empty trace is like `F p`, and its negation the contrary."""
    assert not compile_formula(temporal.Within(2, formula), THREE).accepting[0]
    assert not compile_formula(temporal.finally_(formula), THREE).accepting[0]
    negated = temporal.negation(temporal.Within(2, formula))
    assert compile_formula(negated, THREE).accepting[0]
    assert temporal.holds_on_empty_trace(formula) is not temporal.holds_on_empty_trace(temporal.negation(formula))


def test_a_step_that_failed_satisfies_nothing_and_violates_all_the_same() -> None:
    """The two polarities of an atom."""
    failed, went_well = Alphabet(["a"]).letters[2:]
    for formula, letter, fine in (
        (temporal.finally_(temporal.Literal("a")), went_well, True),
        (temporal.finally_(temporal.Literal("a")), failed, False),
        (temporal.globally(temporal.negation(temporal.Literal("a"))), failed, False),
    ):
        assert compile_formula(formula, [letter]).accepting[compile_formula(formula, [letter]).table[0][0]] is fine


def test_the_alphabet_tells_apart_what_a_rule_does() -> None:
    """There are few letters, since an event has one tool, one action and one decision."""
    atoms = [*(f"tool:t{number}" for number in range(40)), "@group", "action:write", "decision:yes", "urgent"]
    alphabet = Alphabet(atoms, {"group": frozenset({"t0", "t1", "other"})})
    assert len(alphabet.letters) == 2 * 42 * 2 * 2 * 2
    event = Event("t1", action="write", decision="no", tags=frozenset({"urgent", "x"}))
    letter = alphabet.letters[alphabet.index(event, ok=True)]
    assert letter.ok == {"tool:t1", "@group", "action:write", "urgent"}
    assert alphabet.letters[alphabet.index(event, ok=False)].ok == frozenset()
    assert alphabet.letters[alphabet.index(Event("other"), ok=False)].ran == {"@group"}
    assert alphabet.letters[alphabet.index(Event("unknown"), ok=True)].ok == frozenset()


@pytest.mark.slow
def test_rules_that_are_too_large_are_refused() -> None:
    """The error says what to do."""
    with pytest.raises(InputError, match="split the rule"):
        Alphabet([f"tag{number}" for number in range(12)])
    with pytest.raises(InputError, match="split the rule"):
        compile_formula(
            temporal.globally(temporal.implies(temporal.Literal("a"), temporal.Within(10_000, temporal.Literal("b")))),
            THREE,
        )


def test_a_letter_is_the_sum_of_what_the_fields_add() -> None:
    """Columns of events can be read one by one."""
    alphabet = Alphabet(["tool:a", "@group", "action:write", "urgent", "urn:x"], {"group": frozenset({"a", "b"})})
    for tool, action, tags in itertools.product("abc", ("write", None), ({"urgent"}, {"urn:x", "urgent"}, set())):
        event = Event(tool, action=action, tags=frozenset(tags))
        alone = Event(tool), Event("", action=action), Event("", tags=frozenset(tags))
        offsets = sum(alphabet.index(part, ok=False) for part in alone)
        assert alphabet.index(event, ok=False) == offsets
        assert alphabet.index(event, ok=True) == offsets + 1
        held = {f"action:{action}"} & {"action:write"} | tags | ({"@group"} if tool in "ab" else set())
        assert alphabet.letters[offsets + 1].ok == held | ({"tool:a"} if tool == "a" else set())


def test_where_a_rule_stands() -> None:
    """A rule is satisfied or violated for good, or open and satisfied or not at the end."""
    automaton = compile_formula(temporal.Until(temporal.Literal("a"), temporal.Literal("b")), THREE)
    letters = {letter.ok: number for number, letter in enumerate(THREE)}
    for steps, standing in (("", "UNMET"), ("a", "UNMET"), ("ab", "SATISFIED"), ("ac", "VIOLATED")):
        assert automaton.standing(ends(automaton, tuple(letters[frozenset(step)] for step in steps))).name == standing
    never = compile_formula(temporal.globally(temporal.negation(temporal.Literal("a"))), THREE)
    assert never.standing(0) is Standing.MET
