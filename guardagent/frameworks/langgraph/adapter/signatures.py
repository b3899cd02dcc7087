"""Reads the declarations of tools: their arguments, and those that the host injects."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from guardagent.enforcement import ToolSpec
from guardagent.enforcement.calls import opaque_type
from guardagent.errors import InputError
from guardagent.frameworks.langgraph.adapter.tools import ToolSignature, function_of, hints_of, is_function_tool

_STEPS = ("invoke", "ainvoke", "run", "arun", "_to_args_and_kwargs", "_parse_input")


def signature_of(tool: Any) -> ToolSignature:
    """The arguments of a tool, and their validation.

    Raises:
        InputError: it runs in a way of its own, or takes arguments of a type, with which nothing can be judged.
    """
    from langchain_core.tools import BaseTool

    if not isinstance(tool, BaseTool):
        raise InputError(f"the tool {tool!r} is not a BaseTool of LangChain and cannot be judged")
    for step in _STEPS:
        if not _owner(type(tool), step).startswith("langchain_core."):
            raise InputError(
                f"the tool {tool.name!r} overrides '{step}()', so its calls cannot be judged; "
                "expected the work in _run() and _arun()"
            )
    schema = tool.args_schema
    injected = _injected(tool)
    for name, annotation in _annotations(tool).items():
        if name not in injected and (kind := opaque_type(annotation)) is not None:
            raise InputError(
                f"{name!r} of the tool {tool.name!r} is a {kind}, which has no lossless form for rules and reviewers; "
                "expected a plain type, or one that the host fills in (InjectedToolArg)"
            )
    host_arguments = frozenset({"config", "run_manager"} if is_function_tool(tool) else ())
    return ToolSignature(
        tool, injected, host_arguments, _declared(schema), schema if isinstance(schema, dict) else None
    )


def spec_of(tool: Any) -> ToolSpec:
    """Returns the declaration that is compared with the rules."""
    schema = tool.tool_call_schema
    return ToolSpec(
        tool.name,
        schema if isinstance(schema, dict) else schema.model_json_schema(),
        tool.description or "",
        unlisted_arguments=_unlisted_arguments(tool),
    )


def _unlisted_arguments(tool: Any) -> frozenset[str]:
    """Returns the names by which the tool's functions get arguments: its schema may use aliases."""
    functions = filter(None, (function_of(tool, awaited=awaited) for awaited in (False, True)))
    parameters = frozenset(name for function in functions for name in _parameters(function))
    return parameters | (_declared(tool.args_schema) or frozenset())


def _owner(kind: type, name: str) -> str:
    return next((base.__module__ for base in kind.__mro__ if name in vars(base)), "")


def _injected(tool: Any) -> frozenset[str]:
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools.base import _is_injected_arg_type

    functions = [*filter(None, (getattr(tool, "func", None), getattr(tool, "coroutine", None)))]
    always = {"callbacks"} if functions else {"run_manager"}
    functions = functions or [tool._run, tool._arun]  # noqa: SLF001 - what a tool's author writes
    hints = {name: kind for function in functions for name, kind in hints_of(function).items()}
    parameters = {name for function in functions for name in _parameters(function)}
    named = (always & parameters) | {name for name, kind in hints.items() if kind is RunnableConfig}
    named |= {"runtime"} & parameters  # the host goes by this name, whatever its type
    hints |= _annotations(tool)
    return frozenset(named | {name for name, kind in hints.items() if _is_injected_arg_type(kind)})


def _annotations(tool: Any) -> dict[str, Any]:
    from langchain_core.tools.base import get_all_basemodel_annotations

    return dict(get_all_basemodel_annotations(tool.get_input_schema()))


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _declared(schema: Any) -> frozenset[str] | None:
    from pydantic import BaseModel

    if not (isinstance(schema, type) and issubclass(schema, BaseModel)) or schema.model_config.get("extra") == "allow":
        return None
    names = set(schema.model_fields)
    for known in schema.model_fields.values():
        alias = known.validation_alias or known.alias
        names |= {
            choice if isinstance(choice, str) else choice.path[0]
            for choice in getattr(alias, "choices", [alias])
            if choice
        }
    return frozenset(map(str, names))
