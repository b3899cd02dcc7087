"""The steps of a LlamaIndex workflow: the events that each accepts, returns, sends and waits for, and its questions."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import FunctionType, MethodType
from typing import Any

from guardagent.workflow.extraction import is_a, private_attribute
from guardagent.workflow.python_source.bodies import FrameworkNames, ReadableFunction, summarize
from guardagent.workflow.python_source.evaluator import Evaluator
from guardagent.workflow.python_source.steps import CalledFunction, FunctionCode, is_method
from guardagent.workflow.python_source.values import CallResult, Instance, NameScope, Sequence, Stub, Values

LIBRARIES = ("workflows", "llama_index")
DISTRIBUTION = "llama-index-workflows"
_WAIT = "wait_for_event"
_SENDS = ("send_event", "write_event_to_stream")
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def is_event(kind: object, *names: str) -> bool:
    """Whether a class is an event class, or derived from one of the named event classes of the library."""
    wanted = names or ("Event",)
    return isinstance(kind, type) and any(
        base.__name__ in wanted and base.__module__.partition(".")[0] in LIBRARIES for base in kind.__mro__
    )


def of_library(target: object, *names: str) -> bool:
    """Whether an object is an instance of one of these classes of LlamaIndex."""
    return any(is_a(target, library, *names) for library in LIBRARIES)


def is_workflow(target: object) -> bool:
    """Whether a target is a workflow, or a class of workflows."""
    kinds = target.__mro__ if isinstance(target, type) else type(target).__mro__
    return any(kind.__name__ == "Workflow" and kind.__module__.partition(".")[0] in LIBRARIES for kind in kinds)


class EventWords(FrameworkNames):
    """The questions of LlamaIndex: a function can wait for an answer as an event."""

    def asks_by(self, call: ast.Call, evaluator: Evaluator, scope: NameScope) -> bool:
        """Whether a call waits for a person's answer."""
        if not is_method(call, _WAIT):
            return False
        awaited = _classes(evaluator.value(_argument(call, "event_type", 0), scope), evaluator)
        shown = events_of(evaluator.value(_argument(call, "waiter_event", 1), scope), evaluator)
        asks = any(is_event(event, "InputRequiredEvent") for event in shown)
        return asks or (bool(awaited) and all(is_event(event, "HumanResponseEvent") for event in awaited))


WORDS = EventWords(LIBRARIES, reads_agents=True)


class EventCode(FunctionCode):
    """The code of a function that may wait for events."""

    def __init__(self, target: object) -> None:
        super().__init__(target, WORDS)

    def waits(self) -> Iterator[tuple[ast.Call, CalledFunction]]:
        """The calls that wait for an event."""
        for body in self.bodies:
            yield from ((call, body) for call in body.calls if is_method(call, _WAIT))

    def awaited(self, call: ast.Call, scope: NameScope) -> list[Any]:
        """The classes that a call waits for."""
        return _classes(self.evaluator.value(_argument(call, "event_type", 0), scope), self.evaluator)

    def events_of(self, values: Values, *, listed: bool = False) -> list[Any]:
        """The classes of the events among some values of its code."""
        return events_of(values, self.evaluator, listed=listed)


def _argument(call: ast.Call, name: str, position: int) -> ast.expr | None:
    named = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    return named or (call.args[position] if position < len(call.args) else None)


def _classes(values: Values, evaluator: Evaluator) -> list[Any]:
    return [evaluator.class_shown(value) for value in values.known]


def events_of(values: Values, evaluator: Evaluator, *, listed: bool = False) -> list[Any]:
    """The classes of the events among some values; with `listed`, of those in lists."""
    events: dict[Any, None] = {}
    for value in values.known:
        inside = (
            [item for part in value.items for item in part.known] if isinstance(value, Sequence) else _in_list(value)
        )
        for item in inside if listed else ([] if inside else [value]):
            kind = evaluator.class_shown(
                item.callee if isinstance(item, CallResult) else item.of if isinstance(item, Instance) else type(item)
            )
            if is_event(kind):
                events[kind] = None
    return list(events)


def _in_list(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


@dataclass(frozen=True)
class Emission:
    """An event that a step emits.

    Attributes:
        event: the class of the event.
        sent: it is sent, written to the stream, or in a list.
        parallel: others may be emitted with it.
        to: the only step that receives it, if it is addressed.
    """

    event: Any
    sent: bool = False
    parallel: bool = False
    to: str | None = None


@dataclass
class EventStep:
    """One step of a workflow."""

    name: str
    function: FunctionType | ReadableFunction
    owner: Any
    config: Any
    open_outputs: list[str] = field(default_factory=list)

    @cached_property
    def bound(self) -> Any:
        """Its function, bound to the workflow and its resources."""
        resources = dict(self._resources())
        if isinstance(self.function, ReadableFunction):
            code: Any = self.function
            return functools.partial(code, **resources) if resources else code
        owner = self.owner if not isinstance(self.owner, type) else Instance(self.owner)
        is_method_ = _first_parameter(self.function) == "self"
        start: Any = self.function
        if is_method_ and isinstance(owner, Instance):
            start = functools.partial(self.function, owner)
        elif is_method_:
            start = MethodType(self.function, owner)
        return functools.partial(start, **resources) if resources else start

    def _resources(self) -> Iterator[tuple[str, object]]:
        """The resources of the step, as far as the code of their factories determines them."""
        for resource in self.config.resources:
            factory = getattr(resource.resource, "_factory", None)
            known = summarize(factory).return_values if factory is not None else Values(complete=False)
            if len(known.known) == 1 and known.complete:
                yield resource.name, known.known[0]

    @cached_property
    def code(self) -> EventCode:
        return EventCode(self.bound)

    @cached_property
    def body(self) -> Any:
        return summarize(self.bound)

    @property
    def collects(self) -> bool:
        """Whether it waits for several events."""
        config = self.config
        if getattr(config, "collect_params", None) or getattr(config, "collection_param", None):
            return True
        return any(is_method(call, "collect_events") for body in self.code.bodies for call in body.calls)

    @property
    def may_give_nothing(self) -> bool:
        """Whether it can end without an event."""
        is_read = self.body.source_known and self.code.body is not None
        return not is_read or None in self.body.return_values.known or self.code.falls_through

    def accepts(self, event: Any) -> bool:
        """Whether it accepts an event of a class."""
        accepted = tuple(
            accepted_event for accepted_event in self.config.accepted_events if isinstance(accepted_event, type)
        )
        if getattr(self.config, "accept_event_subclasses", False):
            return isinstance(event, type) and issubclass(event, accepted)
        return event in accepted or event in self.awaited

    @cached_property
    def awaited(self) -> list[Any]:
        """The classes of events that it waits for in its body."""
        awaited = (self.code.awaited(call, body.scope) for call, body in self.code.waits())
        return [class_ for classes in awaited for class_ in classes if is_event(class_)]

    @cached_property
    def emissions(self) -> list[Emission]:
        """All events that it emits."""
        sent = [*self._sent_events(), *self._streamed_events()]
        listed = [Emission(listed_event, sent=True, parallel=True) for listed_event in self._listed_events()]
        only_sent = {emission.event for emission in (*sent, *listed)} - set(
            self.code.events_of(self.body.return_values)
        )
        returned = [Emission(event) for event in self._returned_events() if event not in only_sent]
        if returned or listed or not self._sends_once:
            sent = [replace(emission, parallel=True) for emission in sent]
        return list(dict.fromkeys([*returned, *sent, *listed]))

    @cached_property
    def _sends_once(self) -> bool:
        """Whether it sends exactly one event, outside loops."""
        sends = [call for body in self.code.bodies for call in body.calls if is_method(call, *_SENDS)]
        own = self.code.body
        if len(sends) != 1 or own is None or sends[0] not in own.calls:
            return False
        loops = [node for node in ast.walk(own.function.tree) if isinstance(node, _LOOPS)]
        return not any(node is sends[0] for loop in loops for node in ast.walk(loop))

    def _returned_events(self) -> list[Any]:
        """The classes of events in its return annotation, or in its code."""
        declared = [
            return_type
            for return_type in self.config.return_types
            if is_event(return_type) and not _is_base(return_type)
        ]
        known = self.code.events_of(self.body.return_values)
        if len(declared) < len(
            [return_type for return_type in self.config.return_types if return_type is not type(None)]
        ):
            unclear = not self.body.source_known or not self.body.return_values.complete
            if unclear or any(map(_is_base, known)):
                self.open_outputs.append("the events that it returns are neither declared nor known")
        bare = getattr(self.config, "bare_return_types", ()) if getattr(self.config, "is_fan_out", False) else declared
        return list(dict.fromkeys([*(event for event in declared if event in bare), *known]))

    def _listed_events(self) -> list[Any]:
        """The classes of events that it returns in lists."""
        if not getattr(self.config, "is_fan_out", False):
            return []
        bare = getattr(self.config, "bare_return_types", ())
        declared = [
            return_type
            for return_type in self.config.return_types
            if is_event(return_type) and not _is_base(return_type) and return_type not in bare
        ]
        return list(dict.fromkeys([*declared, *self.code.events_of(self.body.return_values, listed=True)]))

    def _sent_events(self) -> Iterator[Emission]:
        for values, body, call in self.code.arguments_of("send_event", names=("message",)):
            events = self.code.events_of(values)
            if not values.complete or len(events) < len(values.known) or any(map(_is_base, events)):
                self.open_outputs.append(f"the event sent by {ast.unparse(call)!r} is unknown")
            to = self.code.evaluator.value(_argument(call, "step", 1), body.scope).strings or {None}
            has_target = _argument(call, "step", 1) is not None
            for event in events:
                yield from (Emission(event, sent=True, to=receiver if has_target else None) for receiver in to)

    def _streamed_events(self) -> Iterator[Emission]:
        """The questions that it writes to the stream without waiting for the answer."""
        if self.awaited:
            return
        for values, _, _ in self.code.arguments_of("write_event_to_stream", names=("ev",)):
            for event in self.code.events_of(values):
                if is_event(event, "InputRequiredEvent"):
                    yield Emission(event, sent=True)


def _is_base(event: Any) -> bool:
    """Whether a class is the base class of all events."""
    return is_event(event) and event.__name__ == "Event" and event.__module__.partition(".")[0] in LIBRARIES


def _first_parameter(function: FunctionType) -> str:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return names[0] if names else ""


def steps_of(workflow: Any) -> dict[str, EventStep]:
    """The steps of a workflow, or of a class of workflows, in source order."""
    if isinstance(workflow, Stub):
        declared: dict[str, EventStep] = workflow.declared_steps()  # type: ignore[attr-defined]
        return declared
    kind = workflow if isinstance(workflow, type) else type(workflow)
    steps: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        for name, variable in vars(base).items():
            steps.pop(name, None)
            if isinstance(variable, FunctionType) and _config(variable) is not None:
                steps[name] = variable
    steps |= private_attribute(kind, "_step_functions", DISTRIBUTION)
    return {name: EventStep(name, step, workflow, _config(step)) for name, step in steps.items()}


def _config(function: Any) -> Any:
    return getattr(function, "_step_config", None)


def names_of(events: Iterable[Any]) -> list[str]:
    return [event.__name__ for event in events]
