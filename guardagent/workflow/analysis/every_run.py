"""Checks a rule on every run of a graph, however a host drives the graph; a session relies only on such proofs.

In one session a host can invoke a graph repeatedly, resume it at any node, retry a node, run it again after an
interrupt and send several inputs at once. A model can propose several calls in one message, and a call can be denied or
fail. The sequence of calls can therefore be any word over the tools of the graph, including the empty word. A rule
holds for every run if its automaton is in an accepting state after every such word.

A proof needs a complete graph, in which nothing is a guess, widened, hidden or suppressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.language import ast
from guardagent.policy.language.formula import Formula, atoms
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.policies import Policies
from guardagent.workflow.analysis.report import EveryRunResult, GraphFinding, RunCall
from guardagent.workflow.analysis.tool_order import order_of
from guardagent.workflow.model.graph import Graph, Node
from guardagent.workflow.model.unknown import unknown_tools

Sets = Mapping[str, frozenset[str]]
_SHOWN = 3  # nodes in a message


@dataclass(frozen=True, slots=True)
class PossibleCalls:
    """The tools that a graph can call in a session.

    Attributes:
        tools: every tool of the nodes.
        obstacle: the reason why the list may be wrong or incomplete; empty if there is none.
    """

    tools: tuple[str, ...]
    obstacle: str = ""

    @classmethod
    def of(cls, graph: Graph, policies: Policies, findings: Iterable[GraphFinding]) -> PossibleCalls:
        """Returns the calls of a graph; `findings` are its structural findings, with suppressions."""
        several = {node.tools for node in graph.nodes}
        tools = tuple(sorted({tool for tools in several for tool in tools}))
        return cls(tools, _obstacle(graph, policies, findings))


def every_run(possible: PossibleCalls, rule: Rule, sets: Sets) -> EveryRunResult:
    """Returns the result of a rule for every run."""
    order = order_of(ast.AllOf(rule.rules))
    if broken := _violated(possible.tools, automaton_of(rule, order.necessary, sets)):
        return broken
    if possible.obstacle:
        return EveryRunResult("undecidable", message=possible.obstacle)
    if order.sufficient != order.necessary and _violated(possible.tools, automaton_of(rule, order.sufficient, sets)):
        return EveryRunResult("undecidable", message="it depends on more than the order of the tools")
    return EveryRunResult("proved", message="no run can violate it, however often and wherever the graph is entered")


def automaton_of(rule: Rule, formula: Formula, sets: Sets) -> PropositionalMonitor:
    """Returns the automaton of a formula, from the rule itself if the rule is only this formula."""
    if rule.rules == (ast.Temporal(formula),) and isinstance(rule.monitors[0], PropositionalMonitor):
        return rule.monitors[0]
    return PropositionalMonitor(formula, {atom[1:]: sets[atom[1:]] for atom in atoms(formula) if atom.startswith("@")})


def _violated(tools: Iterable[str], rule: PropositionalMonitor) -> EveryRunResult | None:
    """Returns a shortest word that violates a rule, with successful calls if possible."""
    automaton, letters = rule.automaton, dict[int, RunCall]()
    for failed in (False, True):
        for tool in tools:
            letters.setdefault(rule.alphabet.index(SessionCall(tool, {}), ok=not failed), RunCall(tool, failed))
    words: dict[int, tuple[RunCall, ...]] = {0: ()}
    for state in (waiting := [0]):  # grows during the loop
        if not automaton.accepting[state]:
            why = "violates it" if automaton.violated[state] else "leaves an obligation pending, and may be the end"
            shown = ", then ".join(map(str, words[state])) or "a run without calls"
            return EveryRunResult("violated", words[state], f"{shown}: {why}; it must be checked at run time")
        for letter, call in letters.items():
            if (target := automaton.table[state][letter]) not in words:
                words[target] = (*words[state], call)
                waiting.append(target)
    return None


def _obstacle(graph: Graph, policies: Policies, findings: Iterable[GraphFinding]) -> str:
    if unsure := [node.id for node in graph.nodes if _is_uncertain(node)]:
        more = f" and {len(unsure) - _SHOWN} more" if len(unsure) > _SHOWN else ""
        return f"parts of the graph are unknown: {', '.join(map(repr, unsure[:_SHOWN]))}{more}"
    if graph.notes:
        return f"parts of the graph are unknown: {'; '.join(graph.notes[:_SHOWN])}"
    if policies.ignored or any(one.suppressed or one.check == "suppressions" for one in findings):
        return "findings of the graph are suppressed"
    return ""


def _is_uncertain(node: Node) -> bool:
    metadata = node.metadata
    if metadata and (metadata.get("widened") or metadata.get("guess") or unknown_tools(node)):
        return True
    return node.kind == "tool" and not node.tools
