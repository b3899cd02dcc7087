"""Generators that yield operations, so that one generator has a sync and an async driver."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Operation:
    """A call in its sync and its async form. Its exception is raised at the `yield`."""

    sync_call: Callable[[], Any]
    async_call: Callable[[], Awaitable[Any]]


Procedure = Generator[Operation, Any, T]


def drive(steps: Procedure[T]) -> T:
    """Runs each operation in turn and returns the generator's result."""
    advance: Callable[[], Operation] = partial(next, steps)
    thrown: BaseException | None = None
    while True:
        try:
            step = advance()
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        except RuntimeError as error:
            if isinstance(thrown, StopIteration) and error.__cause__ is thrown:
                raise thrown from None  # a generator cannot raise StopIteration itself
            raise
        try:
            advance = partial(steps.send, step.sync_call())
        except BaseException as error:  # noqa: BLE001 - the generator handles it
            advance, thrown = partial(steps.throw, error), error


async def adrive(steps: Procedure[T]) -> T:
    """Runs each operation in turn with await."""
    advance: Callable[[], Operation] = partial(next, steps)
    while True:
        try:
            step = advance()
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        try:
            advance = partial(steps.send, await step.async_call())
        except BaseException as error:  # noqa: BLE001 - as above
            advance = partial(steps.throw, error)
