"""Policies in Cedar, as they are: Cedar's own engine judges each call (`cedar:`).

The request is made of the call and of facts. The action is the tool, `context.input` its arguments. The facts
`principal` and `resource` are entities in Cedar's JSON format (`uid`, `attrs`, `parents`, `tags`), `context` is the
rest of the context, and `entities` a list of further entities. A call without a fact that it needs is denied.

`guardagent import cedar` translates the same policies instead, so that `lint` and `verify` see through them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from guardagent._support.files import read_text
from guardagent._support.requirements import require
from guardagent.errors import InputError
from guardagent.types import Check, Context, Decision, Event, Verdict, thaw

SEPARATOR = "___"  # between target and tool in an action of a gateway


@dataclass(frozen=True, slots=True)
class CedarSource:
    """Policies in Cedar, as a policy file names them.

    Attributes:
        policies: the file with the policies.
        schema: the file with their schema, against which policies, entities and requests are validated.
        namespace: the namespace of the actions.
        target: the target of a gateway, before the tool in the id of an action.
        on_error: whether a policy that errs denies, or is skipped as Cedar does.
    """

    policies: Path
    schema: Path | None = None
    namespace: str | None = None
    target: str | None = None
    on_error: Literal["deny", "skip"] = "deny"

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.policies,) if self.schema is None else (self.policies, self.schema)

    def action(self, tool: str) -> dict[str, str]:
        """The action of a tool, as an entity's uid."""
        is_complete = self.target is None or tool.startswith(self.target + SEPARATOR)
        kind = "Action" if self.namespace is None else f"{self.namespace}::Action"
        return {"type": kind, "id": tool if is_complete else f"{self.target}{SEPARATOR}{tool}"}


def cedar_check(source: CedarSource) -> Check:
    """The check of a `cedar:` policy.

    Raises:
        InputError: Cedar rejects the policies or the schema, or its engine is not installed.
    """
    require({"cedarpy": "4.12"}, "cedar")
    import cedarpy

    text = read_text(source.policies)
    policies = _parsed(cedarpy.PolicySet, text, source.policies)
    if policies.templates():
        raise InputError(f"{source.policies}: has a template, which permits nothing; expected policies without slots")
    schema = None
    if source.schema is not None:
        schema = _parsed(cedarpy.Schema, read_text(source.schema), source.schema)
        validation = cedarpy.validate_policies(text, schema)
        if not validation.validation_passed:
            raise InputError(f"{source.policies}: Cedar rejects it by the schema: {validation.errors[0].error}")

    def check(event: Event, context: Context) -> Verdict:
        facts = thaw(context.facts)
        principal, resource = _entity(facts, "principal"), _entity(facts, "resource")
        entities = [principal]
        entities += [entity for entity in (resource, *facts.get("entities", ())) if entity not in entities]
        request = {
            "principal": principal["uid"],
            "action": source.action(event.tool),
            "resource": resource["uid"],
            "context": {**facts.get("context", {}), "input": thaw(event.args)},
        }
        answer = cedarpy.is_authorized(request, policies, entities, schema)
        errors = tuple(map(_problem, answer.diagnostics.errors))
        if answer.decision is cedarpy.Decision.NoDecision or (errors and source.on_error == "deny"):
            return Verdict(Decision.DENY, errors=errors or ("Cedar decided nothing",))
        if answer.allowed:
            return Verdict(Decision.ALLOW)
        return Verdict(Decision.DENY, reasons=_reasons(answer.diagnostics, source))

    return check


def _parsed(kind: Any, text: str, path: Path) -> Any:
    try:
        return kind.from_json_str(text) if path.suffix == ".json" else kind.from_str(text)
    except ValueError as error:
        raise InputError(f"{path}: Cedar rejects it: {error}") from None


def _entity(facts: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns a fact that is an entity.

    Raises:
        InputError: the fact is missing, or not an entity.
    """
    entity = facts.get(name)
    if not isinstance(entity, dict) or not isinstance(entity.get("uid"), dict):
        expected = '{"uid": {"type": …, "id": …}, "attrs": {}, "parents": []}'
        raise InputError(
            f"the fact {name!r} is {'missing' if name not in facts else 'not an entity'}; expected {expected}"
        )
    return {"attrs": {}, "parents": [], **entity}


def _problem(error: str) -> str:
    """An error of Cedar without the entities in it, which are facts about people."""
    if error.startswith("failed to parse entities"):
        return "Cedar cannot read the facts 'principal', 'resource' and 'entities'; expected entities in Cedar's JSON"
    return f"Cedar: {error}"


def _reasons(diagnostics: Any, source: CedarSource) -> tuple[str, ...]:
    names = diagnostics.id_annotations_by_reason
    forbidding = sorted(str(names.get(reason) or reason) for reason in diagnostics.reasons)
    if not forbidding:
        return (f"no policy of {source.policies.name} permits it",)
    return tuple(f"{name} of {source.policies.name} forbids it" for name in forbidding)
