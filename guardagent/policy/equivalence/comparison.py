"""Decides whether two drafts of a rule say the same."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from guardagent._support.requirements import install_hint
from guardagent.policy.equivalence.draft import ComparedDraft, Comparison, Same, Undecided, Witness
from guardagent.policy.equivalence.phrases import OTHER, ToolDescription, read_tools
from guardagent.policy.equivalence.proofs import StepComparison, SymbolicComparison
from guardagent.policy.equivalence.search import Minimization, Search, rank_of
from guardagent.policy.equivalence.variations import NO_VALUES, Facts, Variations
from guardagent.policy.lint.steps import SearchLimitError

FIRST = 200  # conversations that are judged before the models of Z3
LAST = 6_000  # conversations that are judged after no proof was found
UNCLEAR = 3_000  # conversations that are judged to find a clearer difference


def compare_rules(
    first: Any, second: Any, *, tools: Any = (), facts: Facts = NO_VALUES, seconds: float = 5.0
) -> Comparison:
    """Decides whether two drafts give the same outcome in every conversation.

    An outcome is that a call is allowed, warned about, denied until a person approves, denied, denied with the end of
    the conversation, or denied unchecked because a value is unknown. Only conversations count whose earlier calls could
    run under both drafts. A call without an argument that its tool requires, or with one of another type, does not
    count: the tool refuses it.

    Args:
        first: the first draft: policies, a formula, a rule as in a policy file, or a list of such rules.
        second: the second draft, in one of these forms.
        tools: the tools that exist, as names or as descriptions with JSON schemas.
        facts: strings that facts of the host can be, by their names, for a witness.
        seconds: the time limit.

    Returns:
        `Same` if that is proved, `Different` with a witness that real sessions judged, or `Undecided`.

    Raises:
        InputError: a draft or a tool is invalid.
    """
    drafts = ComparedDraft(first), ComparedDraft(second)
    return _RuleComparison(*drafts, read_tools(tools), facts, seconds).run()


class _RuleComparison:
    def __init__(
        self,
        first: ComparedDraft,
        second: ComparedDraft,
        tools: Mapping[str, ToolDescription],
        facts: Facts,
        seconds: float,
    ) -> None:
        self._first, self._second, self._tools, self._facts = first, second, tools, facts
        self._until = time.monotonic() + seconds
        self._undecided: list[str] = []

    def run(self) -> Comparison:
        others = other_differences(self._first, self._second)
        if problem := self._first.problem or self._second.problem:
            return Same("identical", others) if self._is_identical else Undecided(problem, others)
        by = self._proof_before_search()
        if by:
            return Same(by, others)
        difference = self._search.best
        disagreeing = self._symbolic.disagreeing() if difference is None and self._symbolic is not None else None
        if disagreeing == ([], []):
            return Same("solver", others)
        difference = difference or self._search.run(FIRST, self._until)
        labels_only = disagreeing is not None and not disagreeing[0]
        is_open = difference is None or rank_of(difference) > 0
        if is_open and not labels_only:  # otherwise it is proved that there is no clearer difference
            difference = self._search.take(self._models(disagreeing))
            difference = self._search.run(LAST if difference is None else UNCLEAR, self._until)
        if difference is None:
            return Same("solver", others, labels_only=True) if labels_only else Undecided(self._why, others)
        smallest = Minimization(self._first, self._second, self._variations).run(difference)
        return replace(smallest, other_differences=others, labels_only=labels_only)

    @property
    def _why(self) -> str:
        searched = f"{self._search.judged} conversations showed no difference"
        return "; ".join([*self._undecided, searched, "equality is not proved"])

    @cached_property
    def _variations(self) -> Variations:
        return Variations((self._first, self._second), self._tools, self._facts)

    @cached_property
    def _search(self) -> Search:
        return Search(self._first, self._second, self._variations)

    # --- proofs

    @cached_property
    def _may_be_proved(self) -> bool:
        """Whether the rules decide alone."""
        has_sets = self._first.has_solver_rules or self._second.has_solver_rules
        same_sets = not has_sets or self._first.policies.tags == self._second.policies.tags
        return same_sets and self._first.frame == self._second.frame

    def _proof_before_search(self) -> str:
        """The proof of equality without Z3; empty if there is none. Differences go to the search."""
        if not self._may_be_proved:
            self._undecided.append("the drafts differ in what they declare beside the rules")
            return ""
        return "identical" if self._is_identical else "automata" if self._steps_are_equal() else ""

    @property
    def _is_identical(self) -> bool:
        if not self._may_be_proved or self._first.policies.requests or self._second.policies.requests:
            return False
        texts = [sorted((part.text, repr(part.group)) for part in draft.parts) for draft in (self._first, self._second)]
        return texts[0] == texts[1]

    def _steps_are_equal(self) -> bool:
        """Whether both drafts are about the order of steps only, and proved equal."""
        first, second = (draft.automata(draft.parts) for draft in (self._first, self._second))
        if first is None or second is None or self._is_scoped:
            return False
        try:
            witnesses = list(StepComparison(first, second, self._known_tools).witnesses())
        except SearchLimitError:
            self._undecided.append("the rules have too many states")
            return False
        self._search.take(witnesses)
        return not witnesses

    @property
    def _is_scoped(self) -> bool:
        return self._first.policies.is_scoped or self._second.policies.is_scoped

    @property
    def _known_tools(self) -> list[str]:
        return sorted({*self._first.tools, *self._second.tools, *self._tools, OTHER})

    @cached_property
    def _symbolic(self) -> SymbolicComparison | None:
        """The comparison by Z3; None if the drafts have no such form."""
        parts = self._first.data_parts, self._second.data_parts
        if parts[0] is None or parts[1] is None or not self._may_be_proved:
            self._undecided.append("a formula about steps is compared with other rules")
            return None
        try:
            import z3  # noqa: F401
        except ImportError:
            self._undecided.append(f"Z3 is not installed; {install_hint('solver')}")
            return None
        return SymbolicComparison((self._first, self._second), (parts[0], parts[1]), self._tools, self._until)

    def _models(self, disagreeing: tuple[list[str], list[str]] | None) -> Iterator[Witness]:
        if disagreeing is not None and self._symbolic is not None:
            for tool in disagreeing[0]:
                yield from self._symbolic.witnesses(tool)


def other_differences(first: ComparedDraft, second: ComparedDraft) -> tuple[str, ...]:
    """The differences of the messages, in natural language."""
    sides = [[rule.source for rule in draft.policies.rules] for draft in (first, second)]
    messages = [" ".join(sorted({source.message_line for source in side})).strip() for side in sides]
    same = messages[0] == messages[1]
    return () if same else (f"the messages differ: {messages[0] or 'none'!r} and {messages[1] or 'none'!r}",)
