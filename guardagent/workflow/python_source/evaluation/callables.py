"""Takes partial functions and methods apart: the function that is called in the end, and what it is given already."""

from __future__ import annotations

import functools
from types import MethodType

from guardagent.workflow.python_source.evaluation.values import Arguments, PartialFunction, exactly


def is_applied(target: object) -> bool:
    """Whether something is a function with some of its arguments."""
    return isinstance(target, PartialFunction | functools.partial | MethodType)


def underlying(target: object, arguments: Arguments | None = None) -> tuple[object, Arguments]:
    """The function that is called in the end, and its arguments."""
    arguments = arguments or Arguments()
    while True:
        match target:
            case PartialFunction(function=inner, arguments=first):
                pass
            case functools.partial(func=inner, args=args, keywords=keywords):
                first = Arguments(tuple(map(exactly, args)), {name: exactly(one) for name, one in keywords.items()})
            case MethodType(__func__=inner, __self__=owner):
                first = Arguments((exactly(owner),))
            case _:
                return target, arguments
        target, arguments = inner, first.then(arguments)
