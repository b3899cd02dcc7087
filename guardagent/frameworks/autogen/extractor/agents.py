"""The facts of one AutoGen agent: its kind, tools, approvals, hand-offs, and the agents that it runs.

Before them stand the speakers that the functions of a selector group chat can choose, given the last speaker. Such a
function takes the messages so far. Most read `messages[-1].source`, which is known here, so that their branches can be
followed; anything else that they read is unknown.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import FunctionType, MethodType, ModuleType
from typing import Any, Literal

from guardagent.workflow.extraction import (
    Alternatives,
    UnknownValue,
    defined_outside,
    flattened,
    is_a,
    private_attribute,
    source_location,
    without_guard,
)
from guardagent.workflow.model.graph import NodeKind, Unseen, mark
from guardagent.workflow.python_source.bodies import (
    FunctionSummary,
    ReadableFunction,
    definition,
    opaque_calls_in,
    summarize,
)
from guardagent.workflow.python_source.builtins import call_method
from guardagent.workflow.python_source.outcomes import Outcomes
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Arguments,
    NameScope,
    Sequence,
    Stub,
    Values,
    exactly,
    plain_string,
)

AUTOGEN = "autogen_agentchat"


@dataclass(frozen=True)
class SpeakerChoice:
    """The speakers that a function can choose.

    Attributes:
        names: the names that it returns.
        may_be_none: it can choose nobody.
        unknown: it can choose others, or its code is missing.
    """

    names: frozenset[str] = frozenset()
    may_be_none: bool = False
    unknown: bool = False


@dataclass(frozen=True, eq=False)
class _LastMessage:
    """The last message; its source is unknown if there are no names."""

    sources: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Thread:
    """The messages so far; not empty once someone has spoken."""

    last: _LastMessage
    has_spoken: bool


class _SpeakerEvaluator(Outcomes):
    """Evaluates such a function with a known source of the last message."""

    def attribute(self, owner: object, name: str) -> Values:
        if isinstance(owner, _LastMessage):
            return self._source(owner) if name == "source" else UNKNOWN
        known = super().attribute(owner, name)
        return known if not _can_change(owner, name) else Values(known.known, complete=False)

    def _source(self, message: _LastMessage) -> Values:
        self.known_reads += 1
        return Values(message.sources) if message.sources else UNKNOWN

    def item(self, owner: object, key: Values) -> Values:
        if isinstance(owner, _Thread):
            return exactly(owner.last) if key.known == (-1,) and key.complete else UNKNOWN
        return super().item(owner, key)

    def _subscript(self, node: ast.Subscript, scope: NameScope) -> Values:
        if isinstance(node.slice, ast.Slice) and self._is_thread(node.value, scope):
            return self.value(node.value, scope) if node.slice.upper is None else UNKNOWN
        return super()._subscript(node, scope)

    def _is_thread(self, node: ast.AST, scope: NameScope) -> bool:
        return any(isinstance(value, _Thread) for value in self.value(node, scope).known)

    def is_true(self, value: object) -> bool | None:
        if isinstance(value, _Thread):
            self.known_reads += 1
            return True if value.has_spoken else None
        return super().is_true(value)


def _can_change(owner: object, name: str) -> bool:
    """Whether the program may change an attribute at run time; attributes of agents are constant."""
    if isinstance(owner, type | ModuleType) or is_a(owner, AUTOGEN, "ChatAgent", "Team"):
        return False
    return name in getattr(owner, "__dict__", ())


def speaker_choice(function: object, last_speakers: Iterable[str], *, has_spoken: bool) -> SpeakerChoice:
    """The speakers that a function can choose.

    Args:
        function: a `selector_func`, which returns a name or None, or a `candidate_func`, which returns a list of names.
        last_speakers: the possible sources of the last message; empty if unknown.
        has_spoken: whether someone in the team has spoken.
    """
    evaluator = _SpeakerEvaluator()
    thread = _Thread(_LastMessage(tuple(last_speakers)), has_spoken)
    choice = _result(evaluator, function, Arguments((exactly(thread),)))
    return _choice(evaluator, choice)


def _result(evaluator: _SpeakerEvaluator, function: object, arguments: Arguments) -> Values:
    if isinstance(function, ReadableFunction):
        readable, bound = function.source()[1], function.bound_arguments
        joined = Arguments((*bound.positional, *arguments.positional), bound.keywords, bound.open)
        return evaluator.call(readable, joined) if readable is not None else UNKNOWN
    if isinstance(function, FunctionType | MethodType | functools.partial):
        return evaluator.call(function, arguments)
    method = call_method(function)
    return evaluator.call(method, arguments) if method is not None else UNKNOWN


def _choice(evaluator: _SpeakerEvaluator, values: Values) -> SpeakerChoice:
    lists = [value for value in values.known if isinstance(value, Sequence | list | tuple | set)]
    elements = values
    for collection in lists:
        elements |= evaluator.elements(exactly(collection))
    names = frozenset(plain_string(element) for element in elements.known if isinstance(element, str))
    others = [element for element in elements.known if not isinstance(element, str | None) and element not in lists]
    return SpeakerChoice(names, None in elements.known, not elements.complete or bool(others))


# --- agents

CORE = "autogen_core"
_UNKNOWN_SOURCE = "code that does not determine them"
CODE = "code_executor"
"""The tool of an agent that executes code: AutoGen's name for that kind of component."""

_DISTRIBUTION = "autogen-agentchat"
_MOST_ORDERS = 64
_ORCHESTRATOR = "MagenticOneOrchestrator"


@dataclass(frozen=True)
class RunnerTool:
    """A tool that runs another agent, or a team."""

    tool: str
    runner: Any


@dataclass(frozen=True)
class ParticipantTools:
    """The tools of an agent.

    Attributes:
        names: the known tools.
        gated: the tools that need approval, or whose code asks a person on every path.
        runs: the tools that run another agent.
        unknown: descriptions of the sources of other tools, known only at run time.
    """

    names: tuple[str, ...] = ()
    gated: tuple[str, ...] = ()
    runs: tuple[RunnerTool, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass
class Agent:
    """The facts of an agent; reading them adds to `notes`."""

    agent: Any
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.agent.name)

    @cached_property
    def inner(self) -> Any:
        """The agent itself, without the filters around it."""
        inner = self.agent
        while is_a(inner, AUTOGEN, "MessageFilterAgent"):
            inner = private_attribute(inner, "_wrapped_agent", _DISTRIBUTION)
        return inner

    @cached_property
    def tools(self) -> ParticipantTools:
        if is_a(self.inner, AUTOGEN, "AssistantAgent"):
            return _assistant_tools(self.inner, self.notes)
        if is_a(self.inner, AUTOGEN, "CodeExecutorAgent"):
            return ParticipantTools((CODE,), () if self._approver == "nobody" else (CODE,))
        return ParticipantTools(tuple(dict.fromkeys(_other_tools(self.inner))))

    @property
    def kind(self) -> NodeKind:
        if is_a(self.inner, AUTOGEN, "UserProxyAgent"):
            return "human"
        if self.tools.names or self.tools.unknown:
            return "tool"
        if isinstance(self.inner, UnknownValue):
            return "llm"
        if is_a(self.inner, AUTOGEN, "AssistantAgent", "SocietyOfMindAgent"):
            return "llm"
        if self._body.asks:
            return "human"
        return "llm" if _has_model(self.inner) else "passthrough"

    @cached_property
    def _unseen(self) -> tuple[Unseen, ...]:
        """Returns what the code of a custom agent runs that cannot be seen."""
        if isinstance(self.inner, UnknownValue) or type(self.inner).__module__.partition(".")[0] in {
            AUTOGEN,
            "autogen_ext",
        }:
            return ()
        return self._body.opaque_calls_for()

    @property
    def metadata(self) -> dict[str, Any]:
        file, line = self._location
        unknown = [f"its tools come from {where}" for where in self.tools.unknown]
        unknown += ["the agent is unknown"] if isinstance(self.inner, UnknownValue) else []
        return {
            "file": file,
            "line": line,
            "agent": type(self.inner).__name__,
            "model_chooses": self.kind == "tool",  # for a code executor: a model decided whether there is code
            "reflects": getattr(self.inner, "_reflect_on_tool_use", False) if self.kind == "tool" else False,
            "widened": mark(*unknown),
            "tools_unknown": mark(*unknown, *self._unseen),
            "guess": CODE in self.tools.gated and self._approver == "guess",
        }

    @property
    def handoffs(self) -> Mapping[str, str] | None:
        """The targets of its hand-offs by tool name; None if unknown."""
        if is_a(self.inner, AUTOGEN, "AssistantAgent"):
            handoffs = private_attribute(self.inner, "_handoffs", _DISTRIBUTION)
            if not isinstance(handoffs, Mapping):  # the source does not determine them
                return None
            return {name: str(handoff.target) for name, handoff in handoffs.items()}
        produced = {
            getattr(produced_type, "__name__", None) or getattr(produced_type, "name", "")
            for produced_type in self._produced_types
        }
        return None if "HandoffMessage" in produced else {}

    @property
    def _produced_types(self) -> Iterable[Any]:
        """The message types that it declares; none if the agent is unknown."""
        if isinstance(self.inner, UnknownValue):
            return ()
        produced_message_types = getattr(self.inner, "produced_message_types", ())
        return produced_message_types if isinstance(produced_message_types, list | tuple) else [produced_message_types]

    @property
    def is_person(self) -> bool:
        """Whether it is a user proxy, which hands back to the sender."""
        return is_a(self.inner, AUTOGEN, "UserProxyAgent")

    @property
    def team(self) -> Any:
        """The team that it runs before it answers; None if it runs none."""
        if is_a(self.inner, AUTOGEN, "SocietyOfMindAgent"):
            return private_attribute(self.inner, "_team", _DISTRIBUTION)
        return None

    @cached_property
    def _body(self) -> FunctionSummary:
        """The body of the message handler of a custom class."""
        method = defined_outside(self.inner, "autogen_agentchat", "on_messages", "on_messages_stream")
        return summarize(method) if isinstance(method, FunctionType | ReadableFunction) else FunctionSummary()

    @property
    def _location(self) -> tuple[str | None, int | None]:
        kind = type(self.inner)
        if isinstance(self.inner, UnknownValue):
            return None, None
        if isinstance(self.inner, Stub) or is_a(self.inner, AUTOGEN, "AssistantAgent"):
            location = source_location(self.inner, self.name, *(base.__name__ for base in kind.__mro__))
            return location.get("file"), location.get("line")
        if kind.__module__.partition(".")[0] not in {AUTOGEN, "autogen_ext"}:
            return definition(kind)
        asks = getattr(self.inner, "input_func", None)
        return definition(asks) if self.is_person and _is_own(asks) else (None, None)

    @cached_property
    def _approval_function(self) -> Any:
        return private_attribute(self.inner, "_approval_func", _DISTRIBUTION)

    @cached_property
    def _approver(self) -> Literal["person", "guess", "nobody"]:
        """The approver of the code: a person, a guessed person, or nobody on some path of the function."""
        if self._approval_function is None:
            return "nobody"
        if isinstance(self._approval_function, UnknownValue) and not self._approval_function.is_function:
            self.notes.append(f"the approver of the code of {self.name!r} is unknown; the code counts as not approved")
            return "nobody"
        body = summarize(self._approval_function)
        if body.always_asks:
            return "person"
        if who := _other_approver(body):
            self.notes.append(f"the approval function of {self.name!r} asks {who}; the code counts as not approved")
            return "nobody"
        self.notes.append(
            f"the approval function of {self.name!r} is assumed to ask a person; its code does not determine it"
        )
        return "guess"


def _other_approver(body: FunctionSummary) -> str:
    """The approver in a function that does not always ask a person; empty if unknown."""
    if body.asks:
        return "a person only sometimes"
    if any(is_a(use.owner, CORE, "ChatCompletionClient") for use in body.method_calls):
        return "a model"
    only_answers = all(call.rpartition(".")[2] == "ApprovalResponse" for call in body.calls)
    return "nobody" if body.source_known and only_answers else ""


def speakers(runner: Any) -> tuple[str, ...]:
    """The possible sources of the last message of an agent or a team; empty if unknown."""
    if is_a(runner, AUTOGEN, "BaseGroupChat"):
        speaker_sets = [speakers(participant) for participant in participants(runner)]
        orchestrator = (_ORCHESTRATOR,) if is_a(runner, AUTOGEN, "MagenticOneGroupChat") else ()
        return () if () in speaker_sets else (*orchestrator, *(name for names in speaker_sets for name in names))
    inner = Agent(runner).inner if is_a(runner, AUTOGEN, "ChatAgent") else runner
    ours = type(inner).__module__.partition(".")[0] in {AUTOGEN, "autogen_ext"}
    return (str(inner.name),) if ours else ()


def participants(team: Any) -> list[Any]:
    """The possible participants of a team, including unknown ones."""
    members = private_attribute(team, "_participants", _DISTRIBUTION)
    return flattened(members if isinstance(members, list | tuple) else [members])


def are_certain(team: Any) -> bool:
    """Whether the number of participants of a team, and their order, are known; an agent itself can be unknown."""
    members = private_attribute(team, "_participants", _DISTRIBUTION)
    return isinstance(members, list | tuple) and not any(isinstance(member, Alternatives) for member in members)


def possible_orders(team: Any) -> list[list[Any]]:
    """The possible lists of participants of a team, if some are there only under a condition; empty if unknown."""
    members = private_attribute(team, "_participants", _DISTRIBUTION)
    orders: list[list[Any]] = [[]]
    for member in members if isinstance(members, list | tuple) else [Alternatives([], repeated=True)]:
        options = member.options if isinstance(member, Alternatives) else [member]
        several = [option if isinstance(option, list) else [option] for option in options]
        unclear = getattr(member, "repeated", False) or any(
            isinstance(each, Alternatives) for some in several for each in some
        )
        if unclear or len(orders) * len(several) > _MOST_ORDERS:
            return []
        orders = [[*begun, *more] for begun in orders for more in several]
    return [order for order in orders if order]


def _assistant_tools(agent: Any, notes: list[str]) -> ParticipantTools:
    names, gated, runs, unknown = list[str](), list[str](), list[RunnerTool](), list[str]()
    for workbench in _workbenches(agent):
        if not is_a(workbench, CORE, "StaticWorkbench"):
            known = not isinstance(workbench, UnknownValue | Alternatives)
            unknown.append(f"a {type(workbench).__name__}" if known else _UNKNOWN_SOURCE)
            continue
        for name, tool in _static_tools(workbench):
            if not name or (isinstance(tool, UnknownValue) and not tool.is_function):
                unknown.append(_UNKNOWN_SOURCE)
                continue
            names.append(name)
            if not is_a(tool, AUTOGEN, "TaskRunnerTool"):
                function = getattr(tool, "_func", None) or getattr(type(tool), "run", None)
                unknown.extend(f"the tool {name!r} ({what})" for what in opaque_calls_in(function))
            if is_a(tool, AUTOGEN, "TaskRunnerTool"):
                runs.append(RunnerTool(name, private_attribute(tool, "_task_runner", _DISTRIBUTION)))
            elif (body := summarize(getattr(tool, "_func", None) or getattr(type(tool), "run", None))).always_asks:
                gated.append(name)
            elif body.asks:
                notes.append(
                    f"the tool {name!r} of {agent.name!r} asks a person only under a condition; it is not gated"
                )
    return ParticipantTools(tuple(names), tuple(gated), tuple(runs), tuple(unknown))


def _workbenches(agent: Any) -> list[Any]:
    workbenches = private_attribute(agent, "_workbench", _DISTRIBUTION)
    return list(workbenches) if isinstance(workbenches, list | tuple) else [workbenches]


def _static_tools(workbench: Any) -> Iterator[tuple[str, Any]]:
    """The tools of a static workbench, by the names that the model sees."""
    overrides = getattr(workbench, "_tool_overrides", None) or {}  # missing in early versions
    for tool in private_attribute(workbench, "_tools", "autogen-core"):
        override = overrides.get(tool.name) if isinstance(overrides, Mapping) else None
        yield str((override and override.name) or tool.name or ""), without_guard(tool)


def _other_tools(agent: Any) -> Iterator[str]:
    """The tools of an agent of another class: those it declares, and the schemas that its code names."""
    for attribute in ("tools", "default_tools", "_api_tools"):  # of the agents of autogen-ext
        own_tools = getattr(agent, attribute, None)
        if isinstance(own_tools, list | tuple):
            yield from filter(None, map(_tool_name, own_tools))
    for kind in type(agent).__mro__:
        if kind.__module__.startswith("autogen_ext.") or not kind.__module__.startswith("autogen"):
            yield from _schemas(kind)


def _tool_name(tool: Any) -> str | None:
    if isinstance(tool, Mapping):
        function = tool.get("function")
        named = function.get("name") if isinstance(function, Mapping) else None
        return named or tool.get("name") or tool.get("type")
    return getattr(tool, "name", None) or getattr(tool, "__name__", None)


def _schemas(kind: type) -> Iterator[str]:
    """The tool schemas among the globals that the methods of a class name."""
    for method in vars(kind).values():
        if not isinstance(method, FunctionType):
            continue
        for name in method.__code__.co_names:
            value = method.__globals__.get(name)
            if isinstance(value, dict) and {"name", "description"} <= value.keys():
                yield str(value["name"])


def _has_model(agent: Any) -> bool:
    if type(agent).__module__.startswith("autogen_ext."):
        return True
    held: Iterable[object] = vars(agent).values() if hasattr(agent, "__dict__") else ()
    return any(is_a(member, CORE, "ChatCompletionClient") for member in held)


def _is_own(function: object) -> bool:
    return isinstance(function, ReadableFunction) or (
        inspect.isfunction(function) and not function.__module__.startswith("autogen")
    )
