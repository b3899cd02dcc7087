"""On two thousand random graphs and rules, proved rules hold on every path, and every witness violates its rule.

Traces are judged by the definitions of formulas and by sessions, both of which are independent of graphs; paths
are followed call by call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

import pytest

from guardagent import Policies
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.evaluation.operands import CompileError
from guardagent.policy.language import ast
from guardagent.policy.language.formula import Formula
from guardagent.policy.language.grammar import TemporalError
from guardagent.policy.load import compile_rules
from guardagent.policy.monitors.automaton import Letter
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.types import Event
from guardagent.workflow.analysis.proofs import rule_results
from guardagent.workflow.analysis.report import RuleResult
from guardagent.workflow.model.graph import Graph
from tests.policy.naive import holds
from tests.properties.test_all_traces import Naive
from tests.tiers import slow_after
from tests.workflow.graphs import is_path
from tests.workflow.naive_product import Paths, Trace, naive_result
from tests.workflow.random_cases import SETS, TOOLS, Maker

LONGEST = 5
TIMES = 3  # around a cycle
BATCH = 50
WAYS = 4  # random choices of arguments, outputs, facts and labels for a trace


def letter_of(tool: str) -> Letter:
    held = frozenset([f"tool:{tool}", *(f"@{name}" for name, tools in SETS.items() if tool in tools)])
    return Letter(held, held)


LETTERS = {tool: letter_of(tool) for tool in TOOLS}
ANY_LETTER = [*LETTERS.values(), Letter(frozenset(), frozenset())]


class ProofCase:
    """A graph, a rule, and its result."""

    def __init__(self, seed: int, rule: Callable[[Maker], str]) -> None:
        self.maker = Maker(seed)
        self.graph: Graph = self.maker.graph()
        self.policies = self._compiled(rule)
        (self.result,) = rule_results(self.graph, self.policies)
        self.text = self.policies.rules[0].source.text
        self.paths = Paths(self.graph)

    def _compiled(self, rule: Callable[[Maker], str]) -> Policies:
        """Compiles a random rule; retries rules that are refused."""
        while True:
            try:
                return compile_rules([rule(self.maker)], tags=SETS)
            except (CompileError, TemporalError):
                continue

    @property
    def formula(self) -> Formula:
        (rule,) = self.policies.rules[0].rules
        assert isinstance(rule, ast.Temporal)
        return rule.formula

    def breaks(self, trace: Trace, *, ends: bool) -> bool:
        """Whether a session reports a violation of the rule in a trace."""
        session = self.policies.session(facts={"sure": self.maker.truth()})
        reports = [session.observe(self.event(tool)).violations for tool in trace]
        return any(reports) or (ends and bool(session.finish().violations))

    def may_run(self, trace: Trace, *, ends: bool) -> bool:
        """Whether a session allows a trace, without violations and unknown results."""
        session = self.policies.session(facts={"sure": self.maker.truth()})
        reports = [session.observe(self.event(tool)).label for tool in trace]
        return not any(reports) and not (ends and session.finish().label)

    def event(self, tool: str) -> Event:
        action, decision = self.maker.one_of((None, None), ("write", None), (None, "yes"))
        tags = self.maker.one_of(frozenset(), frozenset({"pii"}))
        output = self.maker.one_of(None, 1, 2)
        return Event(tool, self.maker.arguments(), output, "ok", action=action, decision=decision, tags=tags)


def calls(result: RuleResult) -> Trace:
    return tuple(tool for tools in result.emitted for tool in tools)


def unrolled(result: RuleResult) -> tuple[Trace, Trace]:
    """(the calls on the way into the cycle, those of going around it several times)."""
    into = len(result.witness) - len(result.cycle)
    around = tuple(tool for tools in result.emitted[into:] for tool in tools)
    return tuple(tool for tools in result.emitted[:into] for tool in tools), around * TIMES


def can_be_called(paths: Paths, node: str, tools: Sequence[str]) -> bool:
    """Whether a run can call these tools in a node, and no others."""
    return all(tool in paths.calls(node, called=at > 0) for at, tool in enumerate(tools)) and (
        bool(tools) or paths.may_leave(node, called=False)
    )


def check_witness(case: ProofCase) -> None:
    """Checks that the witness is a possible path that violates the rule, whatever its arguments."""
    result, graph = case.result, case.graph
    assert result.witness[0] == graph.entry_id
    assert len(result.witness) == 1 or is_path(graph, result.witness)
    last = result.witness[-1]
    whole = result.emitted[:-1] if result.mechanism == "bad_prefix" else result.emitted
    assert all(can_be_called(case.paths, *pair) for pair in zip(result.witness, whole, strict=False))
    if result.mechanism == "postponed_by_cycle":
        assert is_path(graph, result.cycle)
        assert result.cycle[-1] == result.witness[-len(result.cycle) - 1] == last
        into, around = unrolled(result)
        ends = [(*into, *around[:length]) for length in range(len(around) + 1)]
        assert all(case.breaks(trace, ends=True) and not case.breaks(trace, ends=False) for trace in ends)
    elif result.mechanism == "unmet_at_end":
        assert case.paths.may_end(last, called=bool(result.emitted[-1]))
        assert all(case.breaks(calls(result), ends=True) for _ in range(WAYS))
    else:
        assert all(case.breaks((*calls(result), *case.maker.some(TOOLS)), ends=True) for _ in range(WAYS))


# --- propositional rules: the result is exact


def keeps(formula: Formula, trace: Trace) -> bool:
    """Whether a whole trace satisfies a rule, by the definitions."""
    return holds(formula, [LETTERS[tool] for tool in trace]) if trace else bool(Naive(0).holds(formula)[0])


def can_be_kept(formula: Formula, trace: Trace) -> bool:
    """Whether at most three more steps satisfy it."""
    letters = [LETTERS[tool] for tool in trace]
    ways = [way for length in (1, 2, 3) for way in product(ANY_LETTER, repeat=length)]
    return keeps(formula, trace) or any(holds(formula, [*letters, *way]) for way in ways)


@pytest.mark.parametrize("batch", slow_after(1, range(20)))
def test_propositional_rules(batch: int) -> None:
    """A proved rule holds for each trace of up to five calls; a violation has a shortest path and the right kind."""
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        case = ProofCase(seed, Maker.rule)
        if case.result.status == "proved":
            traces = case.paths.traces(LONGEST)
            assert all(keeps(case.formula, trace) for trace, ended in traces if ended), (seed, case.text)
        else:
            check_witness(case)
            check_by_definition(case)
        check_against_all_paths(case)


def check_by_definition(case: ProofCase) -> None:
    trace = calls(case.result)
    assert not keeps(case.formula, trace)
    if case.result.mechanism == "bad_prefix":
        assert not can_be_kept(case.formula, trace)
        assert not trace or case.breaks(trace, ends=False)


def check_against_all_paths(case: ProofCase) -> None:
    """Compares the result with a search over all paths, call by call."""
    rule = PropositionalMonitor(case.formula, SETS)
    letters = {tool: rule.alphabet.index(SessionCall(tool, {}), ok=True) for tool in TOOLS}
    truth, result = naive_result(case.graph, rule.automaton, letters), case.result
    assert result.status == ("violated" if truth.steps or truth.postponed else "proved"), case.text
    assert (result.mechanism == "postponed_by_cycle") is (result.status == "violated" and truth.steps is None)
    assert truth.steps is None or len(result.witness) == truth.steps


# --- other rules: the result is sound


def check_that_it_is_so(case: ProofCase) -> None:
    if case.result.status == "violated":
        check_witness(case)
    if case.result.status == "proved":
        traces = sorted(case.paths.traces(LONGEST))
        for trace, ended in traces[:: 1 + len(traces) // 40]:
            assert all(case.may_run(trace, ends=ended) for _ in range(WAYS)), (case.text, trace)


@pytest.mark.parametrize("batch", slow_after(1, range(12)))
def test_rules_over_data(batch: int) -> None:
    """The results hold for all arguments, outputs and facts."""
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        check_that_it_is_so(ProofCase(seed, partial(Maker.rule_over_data, plain=False)))


@pytest.mark.parametrize("batch", slow_after(1, range(4)))
def test_other_rules(batch: int) -> None:
    """The results hold for all labels that a host sets; data rules that do not depend on data are always decided."""
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        check_that_it_is_so(ProofCase(seed, Maker.rule_with_labels))
        case = ProofCase(seed, partial(Maker.rule_over_data, plain=True))
        assert case.result.status != "undecidable", case.text
        check_that_it_is_so(case)
