"""Reports on a policy for people: rules in words with their hits, lint, and versions with differences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from guardagent.policy.lint import lint_report
from guardagent.policy.policies import Policies
from guardagent.policy.words import policies_in_words
from guardagent.server.service.log_queries import LogQueries
from guardagent.server.service.policies import CandidatePolicies
from guardagent.server.service.policy_catalogue import PolicyCatalogue
from guardagent.server.service.policy_history import PolicyHistory, changes
from guardagent.server.service.rule_hits import rule_hits

JSON = dict[str, Any]
_VERDICTS = 2000  # the newest ones, for the hits of rules
_LINT_SECONDS = 10.0


class PolicyReports:
    """Reports on the policies of a server; each is for a tenant that may use the policy.

    Args:
        policies: the policies.
        history: their versions.
        candidates: those that judge too, without effect.
        log: the logs of tenants.
    """

    def __init__(
        self, policies: PolicyCatalogue, history: PolicyHistory, candidates: CandidatePolicies, log: LogQueries
    ) -> None:
        self._policies, self._history, self._candidates, self._log = policies, history, candidates, log
        self._lint: dict[str, JSON] = {}

    def explain(self, tenant: str, name: str) -> JSON:
        """Returns the rules of the current version in words, with their hits among the newest verdicts.

        Raises:
            UnknownItemError: the tenant has no such policy.
        """
        self._policies.settings(name, tenant)
        current = self._policies.current(name)
        words, digests = policies_in_words(current), {one.digest for one in self._history.versions(name)}
        verdicts = self._log.entries(tenant, None, _VERDICTS, kind="verdict")
        hits = rule_hits(current, digests | {current.digest}, verdicts)
        shadow = self._log.entries(tenant, None, _VERDICTS, kind="shadow")
        rules = [{"id": one, "words": words[one].text if one in words else "", "hits": hits[one]} for one in hits]
        return {
            "name": name,
            "digest": current.digest,
            "rules": rules,
            "verdicts": len(verdicts),
            "candidate": self._candidates.chosen(tenant, name),
            "differences": shadow[-20:][::-1],
        }

    def lint(self, tenant: str, name: str) -> JSON:
        """Returns the findings of lint on the current version.

        Raises:
            UnknownItemError: the tenant has no such policy.
        """
        self._policies.settings(name, tenant)
        current = self._policies.current(name)
        if current.digest not in self._lint:
            report = lint_report(current, seconds=_LINT_SECONDS)
            findings = [asdict(one) for one in report.findings]
            self._lint = {current.digest: {"findings": findings, "undecided": report.undecided}}
        return {"name": name, "digest": current.digest, **self._lint[current.digest]}

    def versions(self, tenant: str, name: str) -> JSON:
        """Returns the versions, the newest first, each with what changed since the one before.

        Raises:
            UnknownItemError: the tenant has no such policy.
        """
        self._policies.settings(name, tenant)
        found = self._history.versions(name)
        pairs = zip(found, [*found[1:], None], strict=True)
        return {
            "name": name,
            "versions": [(one, None if earlier is None else changes(earlier, one)) for one, earlier in pairs],
        }

    def words(self, name: str, digest: str, rules: Iterable[str]) -> dict[str, str]:
        """Returns rules of a version in words, by their ids; without those that this server does not know."""
        version: Policies | None = self._policies.version(name, digest)
        if version is not None:
            known = {rule: words.text for rule, words in policies_in_words(version).items()}
        else:
            known = next((dict(one.rules) for one in self._history.versions(name) if one.digest == digest), {})
        return {rule: known[rule] for rule in rules if rule in known}
