"""The output types of a run: its output functions, and whether it may end with requests to reviewers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic_ai import DeferredToolRequests, NativeOutput, PromptedOutput, TextOutput, ToolOutput

from guardagent.frameworks.pydantic_ai.adapter.arguments import parameters_of

_WRAPPERS = {ToolOutput: "output", TextOutput: "output_function", NativeOutput: "outputs", PromptedOutput: "outputs"}


def may_wait(output_type: Any) -> bool:
    """Whether a run with this output type may end with requests to reviewers."""
    return any(one is DeferredToolRequests for one in _members(output_type))


def output_functions(output_type: Any) -> Mapping[str, Any]:
    """Returns the output functions by name."""
    found = [one for one in _members(output_type) if inspect.isroutine(one)]
    return {one.__name__: one for one in found}


def named_arguments(function: Any, output: Any) -> dict[str, Any]:
    """Returns the arguments of an output function by name, from what the host passes on."""
    names = [one.name for one in parameters_of(function)] if function is not None else ["output"]
    if isinstance(output, Mapping) and set(output) <= set(names):
        return dict(output)
    return {names[0] if names else "output": output}


def passed_on(output: Any, named: Mapping[str, Any], args: Mapping[str, Any]) -> Any:
    """Returns judged arguments in the form in which the host passes them on.

    Args:
        output: the host's form.
        named: its arguments by name.
        args: the judged ones.
    """
    if isinstance(output, Mapping) and set(named) == set(output):
        return dict(args)
    (name,) = named
    return args[name]


def _members(output_type: Any) -> Iterator[Any]:
    for kind, name in _WRAPPERS.items():
        if isinstance(output_type, kind):
            output_type = getattr(output_type, name)
    if isinstance(output_type, Sequence) and not isinstance(output_type, str):
        members: Sequence[Any] = output_type
    else:
        members = () if isinstance(output_type, type) else get_args(output_type)
    if not members:
        yield output_type
    for one in members:
        yield from _members(one)
