"""Any tool: a rule about "any change" that names some of the tools that change something, but not all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from guardagent.policy.language import ast
from guardagent.translation.drafting.draft import Problem
from guardagent.translation.examination.examined import ExaminedDraft, ExaminedRule
from guardagent.translation.tools.effects import writing_tools

NEVER_FATAL = True
_SEVERAL = 2  # tools; a rule about one tool is about that kind of call
_ANY = re.compile(
    r"\b(?:any|all|each|every|no)\b(?:\s+\w+){0,3}?\s+"
    r"(?:actions?|calls?|changes?|edits?|modifications?|operations?|steps?|tools?|updates?|writes?)\b",
    re.IGNORECASE,
)


def check(examined: ExaminedDraft) -> Iterator[Problem]:
    """Each is for the author first: the words may mean fewer tools, and then it stays for the reviewer."""
    writing = [one.name for one in writing_tools(examined.context.tools)]
    for rule in examined.rules:
        words = next((found for text in rule.draft.quotes.values() if (found := _ANY.search(text))), None)
        judged = _judged(rule) if words else None
        missing = [one for one in writing if judged is not None and one not in judged]
        if words and judged and missing and len({*writing} & judged) >= _SEVERAL:
            text = (
                f"the quote says {words[0]!r}, and the rule judges {', '.join(sorted(judged))}, but not "
                f"{', '.join(missing)}, which may change something too; add what the words mean, in a tag if it helps"
            )
            yield rule.problem("any_tool", text)


def _judged(rule: ExaminedRule) -> frozenset[str] | None:
    """The tools whose calls the rule judges; None if it judges any."""
    patterns = [one for read in rule.policies.rules for each in read.rules for one in ast.walk(each)]
    if any(isinstance(one, ast.Pattern) and "*" in one.tools for one in patterns):
        return None
    return frozenset(tool for one in rule.policies.rules for tool in one.tools)
