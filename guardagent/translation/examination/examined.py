"""A draft under examination, loaded as far as it loads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from guardagent.batch.expectations import judge_expected
from guardagent.batch.survivors import Survivors, surviving
from guardagent.policy.equivalence.places import Places
from guardagent.policy.logic.known_calls import KnownCalls
from guardagent.policy.policies import Policies
from guardagent.policy.words import policy_in_words
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafting.draft import Draft, Problem, RuleDraft
from guardagent.translation.examination.loading import LoadedDraft, load_draft
from guardagent.translation.examination.records import JudgedCase, disagreement, is_first, judged_cases
from guardagent.translation.examination.schemas import ToolShapes

_SECONDS = (
    10.0  # of the mutants of one rule; their number limits the work before, so that a busy machine finds the same
)
_MUTANTS = 60
_BAN = re.compile(r"^(?:There must never be a |A call of [^.]* is never allowed)[^.]*\.")


@dataclass
class ExaminedRule:
    """A rule that loads.

    Attributes:
        draft: the rule as drafted.
        policies: the rule alone.
    """

    draft: RuleDraft
    policies: Policies

    @cached_property
    def places(self) -> Places:
        """The places that it reads."""
        return Places([self.policies])

    @cached_property
    def cases(self) -> Sequence[JudgedCase]:
        """Its cases, judged by it alone."""
        return judged_cases(self.policies, self.draft.id, self.draft.cases)

    @cached_property
    def survivors(self) -> Survivors | None:
        """The mutants that its cases do not notice; None unless all of them hold."""
        cases = [one.case for one in self.cases if one.case is not None and not disagreement(self.draft.id, one)]
        if not cases or len(cases) < len(self.cases):
            return None
        return surviving(self.policies, self.draft.id, cases, limit=_MUTANTS, seconds=_SECONDS)

    @property
    def is_ban(self) -> bool:
        """Whether it never allows a call of its tools, as its words say."""
        return bool(_BAN.search(policy_in_words(self.policies, self.draft.id).text))

    def problem(self, kind: str, message: str, *, example: str = "", fatal: bool = False) -> Problem:
        """A problem of this rule."""
        return problem_of(self.draft, kind, message, example=example, fatal=fatal)


class ExaminedDraft:
    """A draft, with what the checks share.

    Attributes:
        only_fatal: whether only fatal problems are wanted.
    """

    def __init__(self, draft: Draft, context: TranslationContext, *, only_fatal: bool = False) -> None:
        self.draft, self.context, self.only_fatal = draft, context, only_fatal

    @cached_property
    def loaded(self) -> LoadedDraft:
        """The draft and each of its rules, with the reasons why some do not load."""
        return load_draft(self.draft, self.context)

    @property
    def policies(self) -> Policies | None:
        """The policies of the whole draft; None if it does not load."""
        return self.loaded.whole

    @cached_property
    def rules(self) -> Sequence[ExaminedRule]:
        """The rules that load, each alone."""
        pairs = zip(self.draft.rules, self.loaded.rules, strict=False)
        return [self._rule(one, alone) for one, (alone, _) in pairs if alone is not None]

    @cached_property
    def known_calls(self) -> KnownCalls:
        """The violations that the cases show of each rule alone, and the first calls that the whole draft allows."""
        judged = [(one, case) for one in self.rules for case in one.cases]
        violated = {one.draft.id for one, case in judged if case.verdict and one.draft.id in case.verdict.rules}
        allowed: set[str] = set()
        for case in (one.case for _, one in judged if one.outcome == "allowed"):
            if self.policies is not None and is_first(case) and case.proposed.tool not in allowed:
                allowed |= {case.proposed.tool} if judge_expected(self.policies, case).label == 0 else set()
        return KnownCalls.of(allowed, violated)

    def _rule(self, rule: RuleDraft, alone: Policies) -> ExaminedRule:
        """The rule; that of an earlier draft if nothing changed, such as the loaded policies."""
        key = "examined rule", repr(rule), id(alone)  # the result keeps the policies, so that the number is theirs
        return self.context.memory.once(key, lambda: ExaminedRule(rule, alone))

    @cached_property
    def shapes(self) -> ToolShapes:
        """The arguments and outputs of the tools, as schemas and samples show them."""
        return ToolShapes(self.context.tools, self.context.samples)


def problem_of(rule: RuleDraft, kind: str, message: str, *, example: str = "", fatal: bool = False) -> Problem:
    """A problem of a rule, which may not load."""
    return Problem(kind, message, rule.id, rule.sentences, example, fatal)
