"""Unread arguments: ids, lists and amounts of writing tools that no rule of the whole policy reads.

The document may mean them to be free. But nobody sees a limit that is missing: a list of items can have one twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from guardagent.policy.language import ast
from guardagent.policy.monitors.rule import Rule
from guardagent.translation.drafting.draft import Problem
from guardagent.translation.examination.examined_policy import ExaminedPolicy
from guardagent.translation.tools.effects import writing_tools
from guardagent.translation.tools.schema import ToolSchema

WHOLE_POLICY = True
_TARGET = re.compile(
    r"(?:^|_)(?:ids?|uuid|accounts?|addresse?s?|customers?|destinations?|emails?|iban|members?|orders?|owners?|patients?|"
    r"payees?|phone|recipients?|targets?|to|users?)(?:_ids?|_numbers?)?$"
)
_FREE = re.compile(
    r"(?:^|_)(?:body|comments?|content|descriptions?|details|messages?|notes?|prompt|query|reasons?|subject|summary|text|"
    r"thought|title)$"
)


def check(examined: ExaminedPolicy) -> Iterator[Problem]:
    """Nothing is fatal. A tool that no rule names is a finding of lint, and one that may never run needs no limit."""
    target = examined.target
    limited = set(target.named_tools) - target.forbidden_tools
    for tool in writing_tools(examined.context.tools):
        if tool.name in limited:
            for name in _unread(tool, examined):
                if meaning := _meaning(name, examined.shapes.schemas(("args", tool.name, name))):
                    yield Problem("unread_argument", f"no rule reads `{name}` of `{tool.name}`; {meaning}")


def _unread(tool: ToolSchema, examined: ExaminedPolicy) -> list[str]:
    """The arguments that no rule and no counter reads."""
    if any(tool.name in rule.tools and _reads_all(rule) for rule in examined.target.rules):
        return []
    read = {one[2] for one in examined.places.reads if one[:2] == ("args", tool.name) and len(one) > 2}
    for source in examined.target.file.counters.values():
        read |= {*re.findall(r"(\w+)\s*=", source.on.text)}
    return [name for name in tool.parameters.get("properties", {}) if name not in read]


def _reads_all(rule: Rule) -> bool:
    """Whether a rule reads the arguments of a call as a whole, as `mentions(args(f), "x")` does."""
    nodes = [node for read in rule.rules for node in ast.walk(read)]
    return any(
        isinstance(child, ast.OfCall) and child.what == "args"
        for node in nodes
        if not isinstance(node, ast.Field | ast.Item)
        for child in ast.children(node)
    )


def _meaning(name: str, schemas: Sequence[Any]) -> str:
    """The limit that is missing; empty for an argument that rules cannot matter for, such as free text."""
    types = {kind for one in schemas for kind in _types(one)}
    word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).casefold()
    if _FREE.search(word):
        return ""
    if "array" in types:
        return "nothing limits how many it has, and how often an item may be in it"
    if types & {"number", "integer"} and not _TARGET.search(word):
        return "nothing limits its amount"
    return "nothing limits which ones it may name" if _TARGET.search(word) and types & {"string", "integer"} else ""


def _types(schema: Any) -> Sequence[str]:
    if not isinstance(schema, dict) or "enum" in schema or "const" in schema:
        return ()
    kind = schema.get("type", ())
    return [kind] if isinstance(kind, str) else [str(one) for one in kind]
