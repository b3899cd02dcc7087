"""Arguments: those that a tool does not have, and values that contradict its schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from guardagent.batch.expectations import calls_of
from guardagent.errors import name_hint
from guardagent.policy.equivalence.places import Place, PlaceComparison
from guardagent.policy.language.named_arguments import unknown_arguments
from guardagent.policy.logic.expression_solver import as_json
from guardagent.policy.logic.open_arguments import choices, schema_allows
from guardagent.policy.solver.monitor import SolverMonitor
from guardagent.policy.solver.sources import ExpressionSource
from guardagent.translation.drafting.draft import Problem
from guardagent.translation.examination.examined import ExaminedDraft, ExaminedRule
from guardagent.translation.examination.schemas import Schema, ToolShapes

_OF_SORTS = {"Int": 0, "Real": 0, "Bool": True}  # a value of each sort; all others have strings


def check(examined: ExaminedDraft) -> Iterator[Problem]:
    """Unknown names are fatal."""
    shapes = examined.shapes
    signatures = {one.name: shapes.arguments(one.name) for one in examined.context.tools}
    for rule in examined.rules:
        reads = [read for one in rule.policies.rules for read in one.rules]
        found = [one.problem for read in reads for one in unknown_arguments(read, rule.policies.tags, signatures)]
        for text in dict.fromkeys([*found, *_of_cases(rule, shapes)]):
            yield rule.problem("argument", text, fatal=True)
        for text in dict.fromkeys([*_contradictions(rule, shapes), *_sorts(rule, shapes)]):
            yield rule.problem("type", text)


def _of_cases(rule: ExaminedRule, shapes: ToolShapes) -> Iterator[str]:
    for one in rule.cases:
        for call in calls_of(one.case) if one.case is not None else ():
            known = shapes.arguments(call.tool) if call.tool else None
            for name in call.args if known is not None else ():
                if known is not None and name not in known:
                    yield f"a case has an unknown argument {name!r} of {call.tool!r}{name_hint(name, known)}"


def _contradictions(rule: ExaminedRule, shapes: ToolShapes) -> Iterator[str]:
    for one in rule.places.comparisons:
        if one.place[0] in ("args", "output"):
            schemas = shapes.schemas(one.place)
            if schemas and not any(_may_hold(one, schema) for schema in schemas):
                yield f"{_shown(one)}, but {_name(one.place)} {_described(schemas)}; compare it with one of its values"


def _may_hold(one: PlaceComparison, schema: Schema) -> bool:
    """Whether a comparison does not contradict a schema; an ordered one only has to be of its type."""
    if one.operator in ("==", "!="):
        return schema_allows(schema, as_json(one.constant)) is not False
    return _has_type(schema, "" if one.operator == "matches" else as_json(one.constant))


def _has_type(schema: Schema, value: Any) -> bool:
    of_choices = choices(schema)
    if of_choices is not None:
        return any(isinstance(one, str) is isinstance(value, str) for one in of_choices)
    return schema_allows({"type": schema["type"]} if "type" in schema else {}, value) is not False


def _sorts(rule: ExaminedRule, shapes: ToolShapes) -> Iterator[str]:
    """Variables of a solver rule whose sort contradicts the schema of their argument."""
    monitors = [one for one in rule.policies.monitors if isinstance(one, SolverMonitor)]
    for tool, permit in (pair for one in monitors for pair in one.checks.items()):
        for one in permit.variables:
            if isinstance(one.source, ExpressionSource) and one.source.argument is not None:
                place = ("args", tool, one.source.argument)
                schemas, value = shapes.schemas(place), _OF_SORTS.get(one.sort.name, "")
                if schemas and not any(_has_type(schema, value) for schema in schemas):
                    yield (
                        f"the variable {one.name!r} has the sort {one.sort.name}, but {_name(place)} "
                        f"{_described(schemas)}; expected a sort of such values"
                    )


def _name(place: Place) -> str:
    return f"{'the argument' if place[0] == 'args' else 'the output'} {'.'.join(place[2:])!r} of {place[1]!r}"


def _shown(one: PlaceComparison) -> str:
    constant = one.constant if one.operator == "matches" else as_json(one.constant)
    return f"{'.'.join(one.place[2:])} {one.operator} {constant!r:.100}"


def _described(schemas: Sequence[Schema]) -> str:
    """The allowed values or types of a place."""
    values = [value for schema in schemas for value in choices(schema) or ()]
    if values:
        return f"is one of {', '.join(map(repr, values[:20]))}"
    types = {str(kind) for schema in schemas for kind in _listed(schema.get("type"))}
    return f"is of the type {' or '.join(sorted(types))}" if types else "has a schema without such values"


def _listed(kind: Any) -> Sequence[Any]:
    return kind if isinstance(kind, list | tuple) else [kind] if kind else []
