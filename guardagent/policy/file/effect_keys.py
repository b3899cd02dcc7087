"""Reads `effects:`, what calls of a tool do, and `require:`, what calls with an effect need.

Both become what a file could also write: a tag for each effect, and a rule for each requirement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Any

from guardagent.errors import name_hint
from guardagent.policy.file.policy_keys import Key, by_tool, choice, keys, mapping
from guardagent.policy.file.rule_keys import RuleSource
from guardagent.policy.file.source_tree import SourceNode, SourceText, shortened
from guardagent.types import Decision

LEVELS = ("read", "reversible", "irreversible")
"""The effects, the worst one last."""

_NEEDS = {"approval": (Decision.ESCALATE, "needs approval"), "deny": (Decision.DENY, "is not allowed")}

EFFECTS = Key(
    "effects",
    by_tool,
    "a mapping of tools to read, reversible or irreversible",
    "What calls of a tool do. Rules write the tools with an effect as @read, @reversible and @irreversible.",
    item=Key("effect", choice, "read, reversible or irreversible", choices=LEVELS),
)
REQUIRE = Key(
    "require",
    mapping,
    "a mapping of effects to approval or deny",
    "What calls with an effect need. It holds for a worse one without a requirement, too. Every tool needs an effect.",
    keys=keys(*(Key(level, choice, "approval or deny", f"For {level} calls.", choices=(*_NEEDS,)) for level in LEVELS)),
)


def worst_effect(effects: Mapping[str, str], tools: Iterable[str]) -> str | None:
    """Returns the worst effect of some tools; None without tools, or without effects of any tool.

    A tool without an effect counts as irreversible.
    """
    if not effects:
        return None
    return max((effects.get(tool, LEVELS[-1]) for tool in tools), key=LEVELS.index, default=None)


def worst_of(both: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Returns the effects of several files: of each tool the worst one."""
    worst: dict[str, str] = {}
    for effects in both:
        for tool, effect in effects.items():
            worst[tool] = max(effect, worst.get(tool, effect), key=LEVELS.index)
    return worst


def expanded(node: SourceNode, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a file with the tags and rules that `effects` and `require` stand for.

    Raises:
        ContentError: a tag has the name of an effect, or `require` is there and a declared tool has no effect.
    """
    effects, required = values.get("effects", {}), values.get("require", {})
    if not effects and not required:
        return dict(values)
    if not effects:
        raise node.fields["require"].error("'require' without 'effects'; expected the effect of each tool")
    tags = dict(values.get("tags", {}))
    for level in LEVELS:
        if level in tags:
            raise (
                node.fields["tags"].fields[level].error(f"the tag {level!r} comes from 'effects'; give it another name")
            )
        if names := tuple(_name(node, tool) for tool, effect in effects.items() if effect == level):
            tags[level] = names
    tools = values.get("tools")
    if required and tools is None:
        tools = dict.fromkeys(effects)
    for tool in tools or () if required else ():
        if tool not in effects:
            problem = f"the tool {shortened(tool)!r} has no effect; expected one in 'effects'{name_hint(tool, effects)}"
            raise node.fields["require"].error(problem)
    rules = (*values.get("policies", ()), *_rules(node, required, tags))
    return {**values, "tags": tags, "policies": rules, **({} if tools is None else {"tools": tools})}


def _name(node: SourceNode, tool: str) -> SourceText:
    place = node.fields["effects"].fields[tool]
    return SourceText(tool, place.path, place.line)


def _rules(node: SourceNode, required: Mapping[str, str], tags: Mapping[str, Any]) -> Iterable[RuleSource]:
    for level, need in required.items():
        place, (decision, what) = node.fields["require"].fields[level], _NEEDS[need]
        others = takewhile(lambda worse: worse not in required, LEVELS[LEVELS.index(level) + 1 :])
        covered = [f"@{covers}" for covers in (level, *others) if covers in tags]
        if not covered:
            continue
        yield RuleSource(
            id=f"require_{level}",
            kind="temporal",
            statements=tuple(SourceText(f"G(NOT {tag})", place.path, place.line) for tag in covered),
            solver=None,
            program=None,
            message=f"a call that is {level} or worse {what}" if len(covered) > 1 else f"a call that is {level} {what}",
            on_violation=decision,
            remedy=None,
            line=place.line,
            location=place.location,
            applies_to=None,
            path=node.path,
        )
