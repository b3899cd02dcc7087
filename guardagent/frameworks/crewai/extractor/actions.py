"""The actions of flows that are declared in YAML or JSON rather than as code."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from typing import Any

from guardagent.frameworks.crewai.extractor.body import BEGIN, BodyStep, BodySteps, Key
from guardagent.frameworks.crewai.extractor.objects import OPEN
from guardagent.workflow.python_source.values import Arguments, CallResult, Sequence, exactly


def action_steps(action: Any) -> BodySteps:
    """The steps of a declared action."""
    steps = BodySteps()
    before: Key = BEGIN
    for number, one in enumerate(_flat(action)):
        if (step := _action_step(one)) is not None:
            key: Key = ("declared", number)
            steps.found[key] = step
            steps.links.add((before, key))
            before = key
    steps.ends = {before}
    if getattr(action, "call", "") == "each" and before != BEGIN:  # for no item, one, or many
        steps.links.add((before, ("declared", 0) if ("declared", 0) in steps.found else before))
        steps.ends.add(BEGIN)
    return steps


def _flat(action: Any) -> Iterable[Any]:
    return [step.action for step in action.do] if action.call == "each" else [action]


def _action_step(action: Any) -> BodyStep | None:
    if action.call == "tool":
        return BodyStep("tool", _tool_of(action.ref), 0)
    if action.call == "agent":
        return BodyStep("agent", _created(_agent_fields(action.with_)), 0)
    if action.call == "crew":
        return BodyStep("crew", OPEN if action.with_ is None else _crew_of(action.with_), 0)
    return None


def _tool_of(ref: Any) -> Any:
    """The tool of a reference, named by its class if that is loaded."""
    if not isinstance(ref, str):
        return OPEN
    loaded = resolve_reference(ref) if ":" in ref else None
    if isinstance(loaded, type):
        return CallResult(loaded, Arguments())
    return _created({"name": ref.rpartition(":")[2].rpartition("/")[2].partition("@")[0]})


def _agent_fields(definition: Any) -> dict[str, Any]:
    tools = [_tool_of(one) for one in definition.tools or ()]
    return {
        "role": definition.role or "", "tools": tools, "allow_delegation": bool(definition.allow_delegation),
        "mcps": definition.mcps, "apps": definition.apps,
    }  # fmt: skip


def _crew_of(definition: Any) -> CallResult:
    agents = {name: _created(_agent_fields(one)) for name, one in definition.agents.items()}
    tasks: list[CallResult] = []
    for task in definition.tasks:
        more = dict(task.model_extra or {})
        more["tools"] = [_tool_of(one) for one in more.get("tools") or ()]
        tasks.append(
            _created({**more, "name": task.name, "description": task.description, "agent": agents.get(task.agent)})
        )
    rest = dict(definition.model_extra or {})
    manager = agents.get(definition.manager_agent) if isinstance(definition.manager_agent, str) else None
    return _created({**rest, "agents": list(agents.values()), "tasks": tasks, "manager_agent": manager})


def _created(fields: dict[str, Any]) -> CallResult:
    """An object with some fields, as code would create it."""
    arguments = {
        name: exactly(Sequence(tuple(map(exactly, value))) if isinstance(value, list) else value)
        for name, value in fields.items()
        if value is not None
    }
    return CallResult(None, Arguments(keywords=arguments))


def resolve_reference(ref: str) -> Any:
    """The object of a reference `module:name`; None if the module is not loaded."""
    module, _, path = ref.partition(":")
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = inspect.getattr_static(found, name, None) if found is not None else None
    while hasattr(type(found), "unwrap"):
        found = found.unwrap()
    return found
