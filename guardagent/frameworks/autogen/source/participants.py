"""The facts of an agent that chats: its kind, its tools, and how it ends a chat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType
from typing import Any

from guardagent.frameworks.autogen.extractor.agents import CODE
from guardagent.frameworks.autogen.source.chats.conversations import ChatSequence, RegisteredTool
from guardagent.frameworks.autogen.source.chats.tools import EXECUTES, PACKAGE, PROPOSES
from guardagent.workflow.extraction.objects import AgentTools, defined_outside, is_a
from guardagent.workflow.model.graph import NodeKind, mark
from guardagent.workflow.python_source.bodies import ReadableFunction, opaque_calls_in, summarize
from guardagent.workflow.python_source.stubs import ObjectStub, converter_of
from guardagent.workflow.python_source.values import Sequence, Values

_OWN_REPLIES = ("generate_reply", "a_generate_reply", "generate_oai_reply", "receive", "a_receive")


@dataclass(frozen=True, eq=False)
class ChatParticipant:
    """The facts of an agent; of an unknown agent, only its name."""

    agent: Any

    @property
    def name(self) -> str:
        return str(self.agent.name)

    @property
    def is_known(self) -> bool:
        return isinstance(self.agent, ObjectStub)

    @cached_property
    def mode(self) -> str:
        """The time at which it asks a person: ALWAYS, TERMINATE or NEVER."""
        declared = self.agent.human_input_mode if self.is_known else "NEVER"
        return declared if isinstance(declared, str) else "TERMINATE"

    @cached_property
    def has_model(self) -> bool:
        declared = getattr(self.agent, "llm_config", None)
        return declared is not False and not (declared is None and is_a(self.agent, PACKAGE, "UserProxyAgent"))

    @property
    def executes_code(self) -> bool:
        return self.is_known and self.agent.code_execution_config is not False

    @property
    def asks(self) -> bool:
        """Whether a person ends its chats."""
        return self.mode == "ALWAYS" or (self.mode == "TERMINATE" and not self.has_model)

    @property
    def never_replies(self) -> bool:
        """Whether it only sends the first message."""
        return self.is_known and self.mode == "NEVER" and self.agent.max_consecutive_auto_reply == 0

    @property
    def ends_chats(self) -> bool:
        """Whether its arguments say when it ends a chat; every agent also ends one after the message 'TERMINATE'."""
        if not self.is_known:
            return False
        declared = (self.agent.is_termination_msg, self.agent.max_consecutive_auto_reply)
        return self.mode == "ALWAYS" or any(one is not None for one in declared)

    @property
    def kind(self) -> NodeKind:
        if self.tools.names:
            return "tool"
        if self.asks:
            return "human"
        if self.has_model:
            return "llm"
        return "tool" if self.tools.unknown else "passthrough"

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of its node."""
        if not self.is_known:
            return {"agent": "unknown", "tools_unknown": mark("the agent is unknown")}
        unknown = [*self.tools.unknown, *self.passed_to, *self._own_replies]
        return {
            "file": self.agent.file,
            "line": self.agent.line,
            "agent": type(self.agent).__name__,
            "model_chooses": bool(self.tools.names),
            "tools_unknown": mark(*unknown, *self.tools.opaque_calls),
        }

    @property
    def functions(self) -> list[Any]:
        """The functions of its tools, as far as they are known."""
        return [one.function for one in self._executed if one is not None] if self.is_known else []

    @cached_property
    def tools(self) -> AgentTools:
        """The tools that it executes."""
        found = AgentTools()
        if not self.is_known:
            return found
        for tool in self._executed:
            if tool is None:
                found.unknown.append("not all of its tools are known from the source")
                continue
            body = None if tool.function is None else summarize(tool.function)
            gated = self.mode == "ALWAYS" or (body is not None and body.always_asks)
            found.add(tool.name, "" if gated else None)
            found.opaque_calls += [one.inside(f"the tool {tool.name!r}") for one in opaque_calls_in(tool.function)]
        if self.executes_code:
            found.add(CODE, "" if self.mode == "ALWAYS" else None)
        return found

    @property
    def _executed(self) -> Iterator[RegisteredTool | None]:
        yield from self._registered(EXECUTES)
        for table in (self.agent.attributes["function_map"], *self._items("_function_maps")):
            yield from self._mapped(table)
        for several in self._items("_listed_tools"):
            elements = self.agent.interpreter.elements(several)
            yield from (self._tool(one) for one in (elements if several.known else several).known)
            if not elements.complete:
                yield None

    @property
    def proposed(self) -> frozenset[str] | None:
        """The tools that its model can call in a group, executed by another agent; None if unknown."""
        if not self.is_known:
            return None
        found = list(self._registered(PROPOSES))
        config = getattr(self.agent, "llm_config", None)
        lists_functions = isinstance(config, Mapping) and ("functions" in config or "tools" in config)
        if None in found or lists_functions or self.passed_to:
            return None
        return frozenset(one.name for one in found if one is not None)

    @property
    def nested(self) -> list[ChatSequence]:
        """The chats that it holds before it answers."""
        return [one for values in self._items("_nested") for one in values.known if isinstance(one, ChatSequence)]

    def _items(self, attribute: str) -> tuple[Values, ...]:
        held = self.agent.attributes.get(attribute)
        known = held.known[0] if held is not None and held.known else None
        return known.items if isinstance(known, Sequence) else ()

    def _registered(self, attribute: str) -> Iterator[RegisteredTool | None]:
        for values in self._items(attribute):
            yield from (one for one in values.known if isinstance(one, RegisteredTool))
            if not values.complete:
                yield None

    def _mapped(self, tables: Values) -> Iterator[RegisteredTool | None]:
        for table in tables.known:
            pairs = self.agent.interpreter.pairs(table)
            if pairs is None and table is not None:
                yield None
            for key, values in pairs or ():
                function = self._shown(values.known[0]) if values.known else None
                yield from (RegisteredTool(str(name), function) for name in key.strings or ())
                if key.strings is None:
                    yield None
        if not tables.complete:
            yield None

    def _tool(self, value: object) -> RegisteredTool:
        shown = self._shown(value)
        return RegisteredTool(str(getattr(shown, "__name__", None) or getattr(shown, "name", "function")), shown)

    def _shown(self, value: object) -> Any:
        return converter_of(self.agent.interpreter).convert(value)

    @property
    def passed_to(self) -> list[str]:
        return [str(one) for values in self._items("_passed_to") for one in values.known]

    @property
    def _own_replies(self) -> list[Any]:
        """The calls of a reply method of its class that cannot be seen."""
        method = defined_outside(self.agent, PACKAGE, *_OWN_REPLIES)
        known = isinstance(method, FunctionType | ReadableFunction)
        return list(summarize(method).opaque_calls_for()) if known else []


def is_manager(agent: Any) -> bool:
    return is_a(agent, PACKAGE, "GroupChatManager")
