"""A mutant: a policy with one small change."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from guardagent.policy.file.rule_keys import RuleSource
from guardagent.policy.load import compile_policies, inspection_only
from guardagent.policy.policies import Policies


@dataclass(frozen=True, slots=True)
class Mutant:
    """A policy with one small change.

    Attributes:
        kind: the kind of the change, such as `limit moved`.
        description: the change in words.
        text: the changed formula, SMT-LIB text or scope.
        source: the changed policy, with the same id and response.
        policies: the changed policy without the others of its file; it allows unlisted calls.
    """

    kind: str
    description: str
    text: str
    source: RuleSource
    policies: Policies = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Mutants:
    """The mutants of a policy.

    Attributes:
        found: the mutants.
        left_out: what was left out, and why.
    """

    found: tuple[Mutant, ...]
    left_out: tuple[str, ...] = ()


def single(policies: Policies, source: RuleSource) -> Policies:
    """One policy of a file, compiled without the others. It allows unlisted calls.

    Raises:
        InputError: the policy is invalid.
    """
    return compiled(policies, (source,))


def compiled(policies: Policies, rules: tuple[RuleSource, ...]) -> Policies:
    """Some policies of a file, compiled with its names. They allow unlisted calls.

    Raises:
        InputError: a policy is invalid, or the policies come from no file.
    """
    file = policies.source
    assert file is not None, "the caller has read the rules from the file"
    some = replace(file, rules=rules, unlisted="allow", ignored=())
    return compile_policies(some, policies.functions, lambda _: inspection_only)
