"""Hand-offs and group patterns of AG2: the targets that agents name, and the groups in which they hold."""

from __future__ import annotations

from typing import Any

from guardagent.frameworks.autogen.source.chats.conversations import add_to
from guardagent.workflow.extraction.objects import UnknownValue, is_a
from guardagent.workflow.python_source.stubs import REQUIRED, ClassStub, ObjectStub, ProgramEvaluator, make
from guardagent.workflow.python_source.values import UNKNOWN, Arguments, Sequence, Values, exactly

_PACKAGE = "autogen"
_GROUP = f"{_PACKAGE}.agentchat.group"
CONDITIONS, AFTER = "_conditions", "_after_works"
TERMINATE, STAY, USER, ANYONE = "TerminateTarget", "StayTarget", "RevertToUserTarget", "GroupManagerTarget"
_OPTIONS = {
    "TERMINATE": TERMINATE,
    "REVERT_TO_USER": USER,
    "STAY": STAY,
    "SWARM_MANAGER": ANYONE,
    "AskUserTarget": ANYONE,
}


def _add(handoffs: ObjectStub, attribute: str, values: Values | None) -> Values:
    """Adds conditions or targets, declared one by one or as lists."""
    for one in (values or UNKNOWN).known:
        is_list = isinstance(one, Sequence | list | tuple)
        add_to(handoffs, attribute, *([handoffs.interpreter.elements(exactly(one))] if is_list else [exactly(one)]))
    if values is None or not values.complete:
        add_to(handoffs, attribute, UNKNOWN)
    return exactly(handoffs)


def _condition(handoffs: ObjectStub, arguments: Arguments, _line: int) -> Values:
    return _add(handoffs, CONDITIONS, arguments.get("condition", 0) or arguments.get("conditions"))


def _after(handoffs: ObjectStub, arguments: Arguments, _line: int) -> Values:
    declared = arguments.get("target", 0) or arguments.get("condition") or arguments.get("conditions")
    return _add(handoffs, AFTER, declared)


def register_hand_off(agent: ObjectStub, arguments: Arguments) -> Values:
    """`agent.register_hand_off([...])` of the swarms before the patterns."""
    for handoffs in agent.attributes["handoffs"].known:
        if isinstance(handoffs, ObjectStub):
            _add(handoffs, CONDITIONS, arguments.get("hand_to", 0))
    return exactly(None)


def _target(name: str, **fields: object) -> ClassStub:
    return ClassStub(name, f"{_GROUP}.targets", fields=fields, list_fields=frozenset({"agents"} & fields.keys()))


PATTERN = ClassStub(
    "Pattern", f"{_GROUP}.patterns", fields={
        "initial_agent": REQUIRED, "agents": REQUIRED, "user_agent": None, "group_manager_args": None,
        "context_variables": None, "group_after_work": None,
    },
    list_fields=frozenset({"agents"}), ordered_fields=frozenset({"agents"}),
)  # fmt: skip
_DEFAULT = ClassStub("DefaultPattern", f"{_GROUP}.patterns", PATTERN)
HANDOFF_KINDS = (
    PATTERN, _DEFAULT,
    *(ClassStub(name, f"{_GROUP}.patterns", PATTERN)
      for name in ("AutoPattern", "RoundRobinPattern", "RandomPattern", "ManualPattern")),
    ClassStub("Handoffs", f"{_GROUP}.handoffs", list_fields=frozenset({CONDITIONS, AFTER}), methods={
        **dict.fromkeys(("add", "add_many", "add_llm_condition", "add_llm_conditions", "add_context_condition",
                         "add_context_conditions"), _condition),
        **dict.fromkeys(("set_after_work", "add_after_work", "add_after_works"), _after),
    }),
    ClassStub("OnCondition", f"{_GROUP}.on_condition", fields={"target": REQUIRED, "condition": None},
         aliases=("OnContextCondition", "ON_CONDITION")),
    ClassStub("AfterWork", f"{_PACKAGE}.agentchat.contrib.swarm_agent", fields={"agent": REQUIRED},
         aliases=("AFTER_WORK",)),
    ClassStub("ReplyResult", f"{_GROUP}.reply_result",
         fields={"message": None, "target": None, "context_variables": None}),
    ClassStub("SwarmResult", f"{_PACKAGE}.agentchat.contrib.swarm_agent",
         fields={"values": None, "agent": None, "context_variables": None}),
    _target("AgentTarget", agent=REQUIRED), _target("AgentNameTarget", agent_name=REQUIRED),
    _target("RandomAgentTarget", agents=REQUIRED), _target("NestedChatTarget", nested_chat_config=REQUIRED),
    *(_target(name) for name in (TERMINATE, STAY, USER, ANYONE, "AskUserTarget")),
)  # fmt: skip


def swarm(interpreter: ProgramEvaluator, arguments: Arguments, line: int) -> ObjectStub:
    """The pattern of `initiate_swarm_chat(...)`."""
    declared = {"initial_agent": arguments.get("initial_agent", 0), "agents": arguments.get("agents", 2)}
    declared |= {"user_agent": arguments.get("user_agent"), "group_after_work": arguments.get("after_work")}
    return make(
        interpreter, _DEFAULT, Arguments((), {key: one for key, one in declared.items() if one is not None}), line
    )


def targets_of(value: Any) -> list[Any]:
    """The targets of a condition or a target: agents, names of agents, names of target classes, or unknown values."""
    if is_a(value, _PACKAGE, "OnCondition", "ReplyResult"):
        return targets_of(value.target)
    if is_a(value, _PACKAGE, "AfterWork", "AgentTarget", "SwarmResult"):
        return targets_of(value.agent)
    if is_a(value, _PACKAGE, "AgentNameTarget"):
        return [value.agent_name]
    if is_a(value, _PACKAGE, "RandomAgentTarget"):
        return list(value.agents)
    if is_a(value, _PACKAGE, *(name for name in (TERMINATE, STAY, USER, ANYONE, "AskUserTarget"))):
        return [_OPTIONS.get(type(value).__name__, type(value).__name__)]
    if isinstance(value, UnknownValue) and value.name in _OPTIONS:
        return [_OPTIONS[value.name]]
    return [] if value is None else [value]
