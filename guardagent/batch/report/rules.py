"""The rules of an audit for its manifest: a report is written without the policies."""

from __future__ import annotations

from typing import Any

from guardagent.policy.logic.prerequisites import needs_earlier_step
from guardagent.policy.monitors.rule import RuleMetadata
from guardagent.policy.policies import Policies


def rules_for_report(policies: Policies) -> list[dict[str, Any]]:
    """Returns a JSON object for each rule: `id`, `message`, `on_violation`, and `order`.

    `order` is true if the rule asks for an earlier step: see `needs_earlier_step`.
    """
    temporal = [_row(rule.source, order=needs_earlier_step(rule)) for rule in policies.rules]
    return [*temporal, *(_row(source, order=False) for source, _ in policies.requests)]


def _row(source: RuleMetadata, *, order: bool) -> dict[str, Any]:
    message = source.message_line or source.default_message
    return {"id": source.id, "message": message, "on_violation": source.on_violation.value, "order": order}
