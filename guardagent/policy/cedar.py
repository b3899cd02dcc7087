"""Policies in Cedar, as they are: Cedar's own engine judges each call (`cedar:`).

The request is made of the call and of facts. The action is the tool, `context.input` its arguments. The facts
`principal` and `resource` are entities in Cedar's JSON format (`uid`, `attrs`, `parents`, `tags`), `context` is the
rest of the context, and `entities` a list of further entities. A call without a fact that it needs is denied.

`guardagent import cedar` translates the same policies instead, so that `lint` and `verify` see through them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from guardagent._support.files import read_text
from guardagent._support.requirements import require
from guardagent.errors import InputError
from guardagent.types import Check, Context, Decision, Event, Verdict, thaw

SEPARATOR = "___"  # between target and tool in an action of a gateway
_UID = ("type", "id")
_ESCAPES = frozenset(["__entity", "__extn", "__expr"])  # in Cedar's JSON they make a reference or an extension's value


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

    def tools_of(self, policies: Any) -> Iterator[str]:
        """The tools whose actions stand in policies in Cedar's JSON, by all their names."""
        if isinstance(policies, list):
            for part in policies:
                yield from self.tools_of(part)
        if isinstance(policies, dict):
            kind, name = policies.get("type"), policies.get("id")
            if isinstance(kind, str) and isinstance(name, str) and kind.split("::")[-1] == "Action":
                yield name
                if self.target is not None:
                    yield name.removeprefix(self.target + SEPARATOR)
            yield from self.tools_of(list(policies.values()))


def cedar_check(source: CedarSource) -> Check:
    """The check of a `cedar:` policy. Its attribute `tools` has the tools whose actions the policies name.

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
    written = json.loads(cedarpy.policies_to_json_str(text))["staticPolicies"]
    names = {name: policy.get("annotations", {}).get("id") or name for name, policy in written.items()}

    def check(event: Event, context: Context) -> Verdict:
        arguments = thaw(event.args)
        if escape := next((key for key in _keys_in(arguments) if key in _ESCAPES), None):
            return Verdict(Decision.DENY, errors=(f"an argument has the key {escape!r}, an escape of Cedar's JSON",))
        try:
            request, entities = _question(source.action(event.tool), arguments, thaw(context.facts))
            answer = cedarpy.is_authorized(request, policies, entities, schema)
        except TypeError as error:  # not JSON
            return Verdict(Decision.DENY, errors=(f"Cedar cannot read the facts and arguments: {error}",))
        errors = tuple(_problem(error, names) for error in answer.diagnostics.errors)
        if answer.decision is cedarpy.Decision.NoDecision or (errors and source.on_error == "deny"):
            return Verdict(Decision.DENY, errors=errors or ("Cedar decided nothing",))
        if answer.allowed:
            return Verdict(Decision.ALLOW)
        return Verdict(Decision.DENY, reasons=_reasons(answer.diagnostics.reasons, names, source.policies.name))

    check.tools = frozenset(source.tools_of(written))  # type: ignore[attr-defined]
    return check


def _parsed(kind: Any, text: str, path: Path) -> Any:
    try:
        return kind.from_json_str(text) if path.suffix == ".json" else kind.from_str(text)
    except ValueError as error:
        raise InputError(f"{path}: Cedar rejects it: {error}") from None


def _keys_in(value: Any) -> Iterator[str]:
    """The keys of mappings at any depth."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield from map(str, value)
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value


def _question(
    action: Mapping[str, str], arguments: Mapping[str, Any], facts: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Any]]:
    """Returns the request and the entities.

    Raises:
        InputError: a fact is missing, or has another form.
    """
    principal, resource = _entity(facts, "principal"), _entity(facts, "resource")
    further, context = facts.get("entities", []), facts.get("context", {})
    if not isinstance(further, list | tuple) or not isinstance(context, dict):
        raise InputError("the fact 'entities' is not a list, or 'context' is not a mapping; expected them, or neither")
    entities = [principal]
    entities += [entity for entity in (resource, *further) if entity not in entities]
    request = {
        "principal": principal["uid"],
        "action": action,
        "resource": resource["uid"],
        "context": {**context, "input": arguments},
    }
    return request, entities


def _entity(facts: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns a fact that is an entity.

    Raises:
        InputError: the fact is missing, or not an entity.
    """
    entity = facts.get(name)
    uid = entity.get("uid") if isinstance(entity, dict) else None
    uid = uid.get("__entity", uid) if isinstance(uid, dict) else uid
    if (
        not isinstance(entity, dict)
        or not isinstance(uid, dict)
        or not all(isinstance(uid.get(key), str) for key in _UID)
    ):
        problem = "missing" if name not in facts else "not an entity"
        expected = '{"uid": {"type": …, "id": …}, "attrs": {}, "parents": []}'
        raise InputError(f"the fact {name!r} is {problem}; expected {expected}")
    return {"attrs": {}, "parents": [], **entity, "uid": {key: uid[key] for key in _UID}}


def _problem(error: str, names: Mapping[str, str]) -> str:
    """An error of Cedar with the names of policies, and without the entities in it, which are facts about people."""
    if error.startswith("failed to parse entities"):
        return (
            "Cedar cannot read the facts 'principal', 'resource' and 'entities'; expected entities in Cedar's JSON, "
            "which fit the schema if there is one"
        )
    return "Cedar: " + re.sub(r"`(policy\d+)`", lambda match: repr(names.get(match[1], match[1])), error)


def _reasons(forbidding: Iterable[str], names: Mapping[str, str], file: str) -> tuple[str, ...]:
    rules = sorted(names.get(name, name) for name in forbidding)
    return tuple(f"{name} of {file} forbids it" for name in rules) or (f"no policy of {file} permits it",)
