"""Drafts about the tools of a shop, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from guardagent.policy.documents import PolicyDocument
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import Draft, RuleDraft
from guardagent.translation.tools import ToolSchema

TOOLS = ("refund", "pay", "get_order", "open", "close")


def context(document: PolicyDocument | None = None, folder: Path | None = None) -> TranslationContext:
    tools = tuple(ToolSchema(name, "", {"type": "object"}) for name in TOOLS)
    return TranslationContext(document or PolicyDocument(()), tools, failed_output="^Error", folder=folder or Path())


def proposed(name: str, tool: str, args: Mapping[str, Any], *rules: str) -> dict[str, Any]:
    """A case; with rules, it violates them."""
    record = {"id": name, "proposed": {"tool": tool, "args": dict(args)}, "label": int(bool(rules))}
    return {**record, "rules": list(rules)} if rules else record


def limit(tool: str, most: int | str, name: str = "limit", sentence: int = 1, **declarations: Any) -> Draft:
    """A rule that limits the amount of a call, with the cases on either side of 500 or another number."""
    at = most if isinstance(most, int) else next(iter(declarations["constants"].values()))
    cases = (proposed("at", tool, {"amount": at}), proposed("over", tool, {"amount": at + 1}, name))
    rule = {"temporal": f"forall({tool}(amount=a), a <= {most})", "message": f"At most {at}."}
    return Draft((sentence,), (RuleDraft(name, rule, {sentence: f"at most {at}"}, cases),), declarations)


def plain(rule: str, name: str = "rule", sentence: int | None = 1, **more: Any) -> Draft:
    """A rule without cases."""
    quotes = {} if sentence is None else {sentence: "words"}
    return Draft(tuple(quotes), (RuleDraft(name, {"temporal": rule, **more}, quotes),))
