"""The toolsets of a guarded run: one around all, which judges, and one at each toolset with tools of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pydantic_ai.toolsets import AbstractToolset, DynamicToolset, WrapperToolset

from guardagent.frameworks.pydantic_ai.adapter.arguments import PydanticArguments
from guardagent.frameworks.pydantic_ai.adapter.runs import PydanticRun


class ToolsetParts(Protocol):
    """The parts of an attachment that guarded toolsets use."""

    def list_tools(self, tools: Mapping[str, Any], arguments: dict[str, PydanticArguments]) -> None:
        """Compares the tools of a step with the rules.

        Raises:
            InputError: one cannot be guarded, or a rule names a misspelling of one.
        """

    def own_tools(
        self, toolset: Any, names: Mapping[str, str], tools: dict[str, Any], arguments: dict[str, PydanticArguments]
    ) -> dict[str, Any]:
        """Reads the tools of one toolset. Returns them, without the descriptions that a server changed.

        Raises:
            InputError: one cannot be guarded.
        """

    async def invoke(
        self, run: PydanticRun | None, arguments: PydanticArguments, args: Any, ctx: Any, tool: Any, work: Any
    ) -> Any:
        """Judges a call, and runs it with the judged arguments."""

    def may_pass(self, name: str, args: Any) -> bool:
        """Uses the permission of the call around, if it is for this tool and for these arguments."""


@dataclass
class GuardedToolset(WrapperToolset[Any]):
    """All tools of a run: judges each call as the model knows it.

    Attributes:
        attachment: judges.
        run: the run; None if there is none, so that each call is denied.
        arguments: the arguments of each tool, by the name that the model knows.
    """

    attachment: ToolsetParts
    run: PydanticRun | None
    arguments: dict[str, PydanticArguments] = field(default_factory=dict)

    async def get_tools(self, ctx: Any) -> dict[str, Any]:
        tools: dict[str, Any] = await super().get_tools(ctx)
        self.attachment.list_tools(tools, self.arguments)
        return tools

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        arguments = self.arguments.get(name) or PydanticArguments.of(name, tool)

        async def work(args: dict[str, Any]) -> Any:
            return await self.wrapped.call_tool(name, args, ctx, tool)

        return await self.attachment.invoke(self.run, arguments, tool_args, ctx, tool, work)


@dataclass
class OwnToolset(WrapperToolset[Any]):
    """A toolset with tools of its own: a call passes only as it was judged. Any other call is judged here.

    So a toolset in between cannot change a judged call, and what it calls by itself is judged.

    Attributes:
        attachment: judges.
        run: the run.
        arguments: as of the GuardedToolset around.
        names: the name of a tool here -> its name for the model.
    """

    attachment: ToolsetParts
    run: PydanticRun | None
    arguments: dict[str, PydanticArguments]
    names: dict[str, str] = field(default_factory=dict)

    async def get_tools(self, ctx: Any) -> dict[str, Any]:
        tools = await super().get_tools(ctx)
        self.names.update({name: _public_name(ctx, name) for name in tools})
        return self.attachment.own_tools(self.wrapped, self.names, tools, self.arguments)

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        public = self.names.get(name, name)
        if self.attachment.may_pass(public, tool_args):
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        arguments = self.arguments.get(public) or PydanticArguments.of(public, tool)

        async def work(args: dict[str, Any]) -> Any:
            return await self.wrapped.call_tool(name, args, ctx, tool)

        return await self.attachment.invoke(self.run, arguments, tool_args, ctx, tool, work)


def guarded_dynamic(toolset: Any, guard: Callable[[Any], Any]) -> Any:
    """Returns a dynamic toolset whose function returns guarded toolsets.

    Args:
        toolset: its own.
        guard: guards a toolset with tools of its own.
    """
    last: list[Any] = [None, None]

    async def made(ctx: Any) -> Any:
        own = toolset.toolset_func(ctx)
        own = await own if inspect.isawaitable(own) else own
        if own is not last[0]:  # the host enters a toolset again if it is another one
            last[:] = [own, None if own is None else own.visit_and_replace(guard)]
        return last[1]

    return DynamicToolset(made, per_run_step=toolset.per_run_step, id=toolset.id)


def without_description(tool: Any, text: str) -> Any:
    """Returns a tool without its server's unreviewed description and schema."""
    schema = {"type": "object", "properties": {}}
    return replace(tool, tool_def=replace(tool.tool_def, description=text, parameters_json_schema=schema))


def own_toolsets(toolset: AbstractToolset[Any]) -> list[AbstractToolset[Any]]:
    """Returns the toolsets with tools of their own."""
    found: list[AbstractToolset[Any]] = []
    toolset.apply(found.append)
    return found


def _public_name(ctx: Any, name: str) -> str:
    """Returns the model's name of a tool, after the prefixes and names of the toolsets around."""
    for layer in reversed(getattr(ctx, "_tool_name_path", ())):
        name = f"{layer}_{name}" if isinstance(layer, str) else layer.get(name, name)
    return name
