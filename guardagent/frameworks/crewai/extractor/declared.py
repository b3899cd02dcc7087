"""Flows of CrewAI that are declared in YAML or JSON: what an action that is no code runs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from typing import Any

from guardagent.frameworks.crewai.extractor.body import BEGIN, Key, Step, Steps
from guardagent.frameworks.crewai.extractor.objects import OPEN
from guardagent.workflow.python_source.evaluation.values import Arguments, CallResult, Sequence, exactly


def declared_steps(action: Any) -> Steps:
    """The steps of an action that is no code."""
    steps = Steps()
    before: Key = BEGIN
    for number, one in enumerate(_flat(action)):
        if (step := _declared_step(one)) is not None:
            key: Key = ("declared", number)
            steps.found[key] = step
            steps.links.add((before, key))
            before = key
    steps.ends = {before}
    if getattr(action, "call", "") == "each" and before != BEGIN:  # for no item, for one, for many
        steps.links.add((before, ("declared", 0) if ("declared", 0) in steps.found else before))
        steps.ends.add(BEGIN)
    return steps


def _flat(action: Any) -> Iterable[Any]:
    return [step.action for step in action.do] if action.call == "each" else [action]


def _declared_step(action: Any) -> Step | None:
    if action.call == "tool":
        return Step("tool", _declared_tool(action.ref), 0)
    if action.call == "agent":
        return Step("agent", _stand_in(_declared_agent(action.with_)), 0)
    if action.call == "crew":
        return Step("crew", OPEN if action.with_ is None else _declared_crew(action.with_), 0)
    return None


def _declared_tool(ref: Any) -> Any:
    """A tool by its reference: the class, where it is loaded, gives the name."""
    if not isinstance(ref, str):
        return OPEN
    loaded = referred(ref) if ":" in ref else None
    if isinstance(loaded, type):
        return CallResult(loaded, Arguments())
    return _stand_in({"name": ref.rpartition(":")[2].rpartition("/")[2].partition("@")[0]})


def _declared_agent(told: Any) -> dict[str, Any]:
    tools = [_declared_tool(one) for one in told.tools or ()]
    return {
        "role": told.role or "", "tools": tools, "allow_delegation": bool(told.allow_delegation), "mcps": told.mcps,
        "apps": told.apps,
    }  # fmt: skip


def _declared_crew(told: Any) -> CallResult:
    agents = {name: _stand_in(_declared_agent(one)) for name, one in told.agents.items()}
    tasks: list[CallResult] = []
    for task in told.tasks:
        more = dict(task.model_extra or {})
        more["tools"] = [_declared_tool(one) for one in more.get("tools") or ()]
        tasks.append(
            _stand_in({**more, "name": task.name, "description": task.description, "agent": agents.get(task.agent)})
        )
    rest = dict(told.model_extra or {})
    manager = agents.get(told.manager_agent) if isinstance(told.manager_agent, str) else None
    return _stand_in({**rest, "agents": list(agents.values()), "tasks": tasks, "manager_agent": manager})


def _stand_in(fields: dict[str, Any]) -> CallResult:
    """An object with some fields, as code would make it."""
    given = {
        name: exactly(Sequence(tuple(map(exactly, value))) if isinstance(value, list) else value)
        for name, value in fields.items()
        if value is not None
    }
    return CallResult(None, Arguments(keywords=given))


def referred(ref: str) -> Any:
    """What a `module:name` refers to, if the module is loaded."""
    module, _, path = ref.partition(":")
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = inspect.getattr_static(found, name, None) if found is not None else None
    while hasattr(type(found), "unwrap"):
        found = found.unwrap()
    return found
