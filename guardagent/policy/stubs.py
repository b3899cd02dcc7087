"""Functions that stand for those of a toolbox: their signatures are read from the source, and none of it is run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, NoReturn

from guardagent._support import syntax
from guardagent.sandbox.toolbox import Tool, Toolbox


def stub_functions(paths: Sequence[Path]) -> Mapping[str, Callable[..., Any]]:
    """For each function of some files, one of the same signature that cannot be called.

    Raises:
        ContentError: a file is no toolbox file.
    """
    return {name: _stub(tool) for name, tool in Toolbox(list(paths)).items()}


def _stub(tool: Tool) -> Callable[..., Any]:
    def refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise AssertionError(f"{tool.name} is only looked at, and cannot be called")

    refuse.__name__ = tool.name
    refuse.__signature__ = _signature(tool.signature)  # type: ignore[attr-defined]  # what inspect.signature gives
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
    """What a default is does not matter, and to know it would be to run it."""
    return Parameter(argument.arg, kind, default=... if default else Parameter.empty)
