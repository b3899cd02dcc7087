"""The assembled policy under examination."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from guardagent.policy.equivalence.places import Places
from guardagent.policy.lint.target import LintTarget, subject_of
from guardagent.policy.policies import Policies
from guardagent.translation.context import TranslationContext
from guardagent.translation.examination.schemas import ToolShapes


@dataclass
class ExaminedPolicy:
    """The policy of all sentences.

    Attributes:
        policies: the policy as loaded.
        context: the inputs of the translation.
    """

    policies: Policies
    context: TranslationContext

    @cached_property
    def places(self) -> Places:
        """The places that its rules read."""
        return Places([self.policies])

    @cached_property
    def target(self) -> LintTarget:
        """The policy as lint sees it: the tools that rules name, and those that they forbid."""
        return subject_of(self.policies)

    @cached_property
    def shapes(self) -> ToolShapes:
        """The arguments and outputs of the tools."""
        return ToolShapes(self.context.tools, self.context.samples)
