"""Unwraps partial functions and methods to the underlying function and its bound arguments."""

from __future__ import annotations

import functools
from types import MethodType

from guardagent.workflow.python_source.values import Arguments, PartialFunction, exactly


def is_applied(target: object) -> bool:
    """Whether a value is a partial function or a bound method."""
    return isinstance(target, PartialFunction | functools.partial | MethodType)


def underlying(target: object, arguments: Arguments | None = None) -> tuple[object, Arguments]:
    """Returns the underlying function and its arguments."""
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
