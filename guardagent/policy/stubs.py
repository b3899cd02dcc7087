"""Stubs of toolbox functions. Their signatures are read from source, and no code runs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, NoReturn

from guardagent._support import syntax
from guardagent.sandbox.toolbox import Tool, Toolbox
from guardagent.types import Functions


def stub_functions(paths: Sequence[Path]) -> Functions:
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
    args = node.args
    plain: list[tuple[ast.arg, Any]] = [(posonlyarg, Parameter.POSITIONAL_ONLY) for posonlyarg in args.posonlyargs]
    plain += [(argument, Parameter.POSITIONAL_OR_KEYWORD) for argument in args.args]
    required = len(plain) - len(args.defaults)
    parameters = [_parameter(argument, kind, default=at >= required) for at, (argument, kind) in enumerate(plain)]
    if args.vararg:
        parameters.append(_parameter(args.vararg, Parameter.VAR_POSITIONAL))
    for kwonlyarg, value in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        parameters.append(_parameter(kwonlyarg, Parameter.KEYWORD_ONLY, default=value is not None))
    if args.kwarg:
        parameters.append(_parameter(args.kwarg, Parameter.VAR_KEYWORD))
    return Signature(parameters)


def _parameter(argument: ast.arg, kind: Any, *, default: bool = False) -> Parameter:
    """A parameter; its default is replaced, since evaluating it would run code."""
    return Parameter(argument.arg, kind, default=... if default else Parameter.empty)
