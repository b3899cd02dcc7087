"""The arguments of a tool: those that the host injects, and those that a model may supply."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from guardagent._support.arguments import bind_to_signature
from guardagent.enforcement import ToolSpec
from guardagent.enforcement.calls import opaque_type
from guardagent.enforcement.schema import validate_arguments
from guardagent.errors import InputError

_STEPS = ("invoke", "ainvoke", "run", "arun", "_to_args_and_kwargs", "_parse_input")


@dataclass(frozen=True, slots=True)
class ToolSignature:
    """The arguments of a tool, and their validation.

    Attributes:
        tool: the tool itself.
        injected: the arguments that the host fills in; they are not judged.
        host_arguments: further parameters that the host passes to the tool's `_run`.
        declared: the names that a model may use; None if the tool accepts any.
        schema: the JSON schema of a tool that has no other validation.
        signatures, inspected: cached signatures, since inspecting is slow.
    """

    tool: Any
    injected: frozenset[str]
    host_arguments: frozenset[str]
    declared: frozenset[str] | None
    schema: Mapping[str, Any] | None
    signatures: dict[Any, inspect.Signature | None] = field(default_factory=dict)
    inspected: dict[str, tuple[inspect.Signature, dict[str, Any]]] = field(default_factory=dict)

    def check(self, arguments: Any) -> Any:
        """Checks the names of arguments before the tool's own validation.

        Raises:
            InputError: a name is not declared; or the arguments do not fit the JSON schema.
        """
        if not isinstance(arguments, dict):
            return arguments
        if self.schema is not None:
            own = {name: value for name, value in arguments.items() if name not in self.injected}
            return {
                **validate_arguments(self.tool.name, own, self.schema),
                **{k: arguments[k] for k in arguments.keys() & self.injected},
            }
        if self.declared is not None and (unknown := arguments.keys() - self.injected - self.declared):
            known = ", ".join(sorted(self.declared - self.injected)) or "none"
            raise InputError(f"the arguments of {self.tool.name!r}: {min(unknown)!r} is not declared; expected {known}")
        return arguments

    def with_signature(self, instead: Callable[..., Any], own: Callable[..., Any]) -> Callable[..., Any]:
        """Gives a function the signature of the tool's own one, which the host inspects before each call."""
        name = own.__name__
        if name not in self.inspected:
            self.inspected[name] = inspect.signature(own), _hints(own)
        function: Any = instead
        function.__signature__, function.__annotations__ = self.inspected[name]
        return instead

    def bind(self, args: tuple[Any, ...], arguments: Mapping[str, Any], *, awaited: bool) -> dict[str, Any]:
        """Returns the arguments by name as the tool's function gets them, with its defaults.

        Raises:
            InputError: they do not fit the function.
        """
        named = dict(zip(self.tool.args, args, strict=False)) if args else dict(arguments)
        absent = self.injected.difference(named)
        if (awaited, absent) not in self.signatures:
            self.signatures[awaited, absent] = _without(_function(self.tool, awaited=awaited), absent)
        signature = self.signatures[awaited, absent]
        return named if args or signature is None else dict(bind_to_signature(signature, self.tool.name, named))


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
        if name not in injected and (found := opaque_type(annotation)) is not None:
            raise InputError(
                f"{name!r} of the tool {tool.name!r} is a {found}, which has no lossless form for rules and reviewers; "
                "expected a plain type, or one that the host fills in (InjectedToolArg)"
            )
    host_arguments = frozenset({"config", "run_manager"} if _is_function_tool(tool) else ())
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
    functions = filter(None, (_function(tool, awaited=awaited) for awaited in (False, True)))
    parameters = frozenset(name for function in functions for name in _parameters(function))
    return parameters | (_declared(tool.args_schema) or frozenset())


def _owner(kind: type, name: str) -> str:
    return next((one.__module__ for one in kind.__mro__ if name in vars(one)), "")


def _is_function_tool(tool: Any) -> bool:
    """Whether the tool runs a function, which gets only its own parameters."""
    return hasattr(tool, "func") and hasattr(tool, "coroutine")


def _injected(tool: Any) -> frozenset[str]:
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools.base import _is_injected_arg_type

    functions = [one for one in (getattr(tool, "func", None), getattr(tool, "coroutine", None)) if one is not None]
    own = functions or [tool._run, tool._arun]  # noqa: SLF001 - what a tool's author writes
    hints = {name: kind for one in own for name, kind in _hints(one).items()}
    always = {"callbacks"} if functions else {"run_manager"}
    created = {name for one in own for name in _parameters(one)}
    named = (always & created) | {name for name, kind in hints.items() if kind is RunnableConfig}
    named |= {"runtime"} & created  # the host goes by this name, whatever its type
    hints |= _annotations(tool)
    return frozenset(named | {name for name, kind in hints.items() if _is_injected_arg_type(kind)})


def _annotations(tool: Any) -> dict[str, Any]:
    from langchain_core.tools.base import get_all_basemodel_annotations

    return dict(get_all_basemodel_annotations(tool.get_input_schema()))


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    from typing import get_type_hints

    try:
        return get_type_hints(inspect.unwrap(getattr(function, "__func__", function)), include_extras=True)
    except Exception:  # noqa: BLE001 - a name that does not resolve; the host goes by the schema then
        return {}


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
        names |= {one if isinstance(one, str) else one.path[0] for one in getattr(alias, "choices", [alias]) if one}
    return frozenset(map(str, names))


def _function(tool: Any, *, awaited: bool) -> Callable[..., Any] | None:
    """Returns the function that finally runs, whose defaults count."""
    from langchain_core.tools import BaseTool

    if _is_function_tool(tool):
        return tool.coroutine if awaited and tool.coroutine else tool.func  # type: ignore[no-any-return]
    own = type(tool)._arun is not BaseTool._arun  # noqa: SLF001 - as above
    return tool._arun if awaited and own else tool._run  # type: ignore[no-any-return]  # noqa: SLF001


def _without(function: Callable[..., Any] | None, names: frozenset[str]) -> inspect.Signature | None:
    """Returns a function's signature without the parameters that the host fills in later; None if it has none."""
    try:
        signature = inspect.signature(function)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return signature.replace(parameters=[one for name, one in signature.parameters.items() if name not in names])
