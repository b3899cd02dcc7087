"""A shop: its document, tools and samples, and a draft without problems."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from guardagent.policy.documents import read_document
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import Draft, Problem, RuleDraft
from guardagent.translation.examination import examine
from guardagent.translation.samples import FactDescription, TraceSamples, read_samples
from guardagent.translation.tools import tools_of

DOCUMENT = """\
# Refunds

An agent must not refund more than 500 dollars at once. It looks up an order “before” it refunds the order.
Only the owner of an order may cancel it, for one of the listed reasons.
Be friendly to everybody.
"""
TOOLS = {
    "refund": {"type": "object", "properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}}},
    "get_order": {"type": "object", "properties": {"order_id": {"type": "string"}}},
    "cancel": {
        "type": "object",
        "properties": {"order_id": {"type": "string"}, "reason": {"enum": ["no longer needed", "by mistake"]}},
    },
}
ORDER = {"status": "paid", "owner": "ann", "items": [{"price": 5}]}
TRACES = [
    {
        "id": "t1",
        "facts": {"user": "ann", "order": {"total": 5}},
        "state": {"open": True},
        "events": [
            {"tool": "get_order", "args": {"order_id": "W1"}, "output": ORDER, "failed": False},
            {"tool": "refund", "args": {"order_id": "W1", "amount": 700}, "output": "done", "failed": False},
            {"tool": "refund", "args": {"order_id": "W1", "amount": 20}, "output": "done", "failed": False},
            {"tool": "refund", "args": {"order_id": "W1", "amount": 900}, "output": "Error: no", "failed": True},
        ],
    }
]


@cache
def samples() -> TraceSamples:
    """The samples of the traces."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "traces.jsonl"
        path.write_text("\n".join(map(json.dumps, TRACES)))
        return read_samples(path)


@cache
def context() -> TranslationContext:
    """The inputs of a translation."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "policy.md"
        path.write_text(DOCUMENT)
        document = read_document(path)
    return TranslationContext(
        document, tools_of(TOOLS, "tools"), samples(), (FactDescription("user_confirmed"),), failed_output="^Error"
    )


def case(name: str, label: int, rules: list[str] | None = None, tool: str = "refund", **more: Any) -> dict[str, Any]:
    """A boundary case; `args` of the proposed call, and other keys of the record."""
    proposed = {"tool": tool, "args": more.pop("args", {})}
    return {"id": name, "proposed": proposed, "label": label, **({} if rules is None else {"rules": rules}), **more}


def rule(temporal: Any = "forall(refund(amount=a), a <= 500)", **changes: Any) -> RuleDraft:
    """The rule of the second sentence, with changes."""
    rule_draft = RuleDraft(
        "refund_limit",
        {"temporal": temporal, "message": "A refund is at most 500 dollars."},
        {2: "must not refund more than 500 dollars"},
        (
            case("at the limit", 0, [], args={"amount": 500}),
            case("below", 0, [], args={"amount": 499}),
            case("above", 1, ["refund_limit"], args={"amount": 501}),
            case("unknown", 1, []),
        ),
    )
    return replace(rule_draft, **changes)


def draft(*rules: RuleDraft, **changes: Any) -> Draft:
    """A draft of the second sentence; without rules, the one above."""
    return replace(Draft((2,), rules or (rule(),)), **changes)


def problems(of: Draft, kind: str = "", **changes: Any) -> list[Problem]:
    """The problems of a draft, all or of one kind."""
    return [problem for problem in examine(of, replace(context(), **changes)) if kind in ("", problem.kind)]
