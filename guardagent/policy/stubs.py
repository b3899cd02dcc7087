"""Stubs of toolbox functions. Their signatures are read from source, and no code runs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, NoReturn

from guardagent._support import syntax
from guardagent.sandbox.toolbox import Tool, Toolbox


def stub_functions(paths: Sequence[Path]) -> Mapping[str, Callable[..., Any]]:
    """Returns a stub with the same signature for each function in some files.

    Raises:
        ContentError: a file is not a valid toolbox file.
    """
    return {name: _stub(tool) for name, tool in Toolbox(list(paths)).items()}


def _stub(tool: Tool) -> Callable[..., Any]:
    def refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise AssertionError(f"{tool.name!r} was loaded for inspection only, and cannot be called")

    refuse.__name__ = tool.name
    refuse.__signature__ = _signature(tool.signature)  # type: ignore[attr-defined]  # read by inspect.signature
    return refuse


def _signature(text: str) -> Signature:
    (node,) = syntax.parse(f"def {text}: ...", "signature").body
    assert isinstance(node, ast.FunctionDef)
    found = node.args
    plain: list[tuple[ast.arg, Any]] = [(one, Parameter.POSITIONAL_ONLY) for one in found.posonlyargs]
    plain += [(one, Parameter.POSITIONAL_OR_KEYWORD) for one in found.args]
    required = len(plain) - len(found.defaults)
    parameters = [_parameter(one, kind, default=at >= required) for at, (one, kind) in enumerate(plain)]
    if found.vararg:
        parameters.append(_parameter(found.vararg, Parameter.VAR_POSITIONAL))
    for one, value in zip(found.kwonlyargs, found.kw_defaults, strict=True):
        parameters.append(_parameter(one, Parameter.KEYWORD_ONLY, default=value is not None))
    if found.kwarg:
        parameters.append(_parameter(found.kwarg, Parameter.VAR_KEYWORD))
    return Signature(parameters)


def _parameter(argument: ast.arg, kind: Any, *, default: bool = False) -> Parameter:
    """A parameter; its default is replaced, since evaluating it would run code."""
    return Parameter(argument.arg, kind, default=... if default else Parameter.empty)
