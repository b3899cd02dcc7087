"""Sessions under labels, and the sources of a value in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guardagent import Session, load_policies
from guardagent.policy.language.values import Unknown

LABELS: Mapping[str, Any] = {
    "untrusted": ["get_webpage", "read_inbox[*].body"],
    "private": ["get_balance", "read_file"],
    "user": "request",
    "contacts": "list_contacts[*].email",
    "vip": "fact.vips",
}
RULE = {"id": "reads", "temporal": 'forall(show(x=x), "model" in sources(x) || true)'}


def session_of(
    *rules: str, labels: Mapping[str, Any] = LABELS, keys: Mapping[str, Any] | None = None, **options: Any
) -> Session:
    """A session under rules with the ids `rule 1`, `rule 2`, ..."""
    policies = [{"id": f"rule {at}", "temporal": rule} for at, rule in enumerate(rules, 1)] or [RULE]
    data = {"version": 1, "labels": labels, **(keys or {}), "policies": policies}
    return load_policies(data=data).session(**{"facts": {"vips": []}, **options})


def recorded(session: Session, tool: str, output: Any, *, failed: bool | None = False, **args: Any) -> Session:
    verdict = session.check(tool, args)
    assert verdict.label == 0, verdict.reasons
    session.record(output, failed=failed, permit=verdict.permit)
    return session


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def sources(session: Session, value: Any) -> set[str] | Unknown:
    """The sources of a value for a call that is checked now."""
    session.check("show", {"x": value}, reserve=False)
    context = session._conversation.context  # a rule asks for one label at a time
    assert context.provenance is not None
    sources = context.provenance.sources(value, context)
    return sources if isinstance(sources, Unknown) else set(sources)
