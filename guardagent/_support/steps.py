"""A generator that yields what is to be done, so that its sync and its async twin are one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """Something to be done: without await, or with it. What it raises is raised where it was yielded."""

    plain: Callable[[], Any]
    awaited: Callable[[], Awaitable[Any]]


Steps = Generator[Step, Any, T]


def drive(steps: Steps[T]) -> T:
    """Does one step after the other; what the generator returns."""
    go_on: Callable[[], Step] = partial(next, steps)
    thrown: BaseException | None = None
    while True:
        try:
            step = go_on()
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        except RuntimeError as error:
            if isinstance(thrown, StopIteration) and error.__cause__ is thrown:
                raise thrown from None  # a generator cannot pass one through
            raise
        try:
            go_on = partial(steps.send, step.plain())
        except BaseException as error:  # noqa: BLE001 - it is the generator's to deal with
            go_on, thrown = partial(steps.throw, error), error


async def adrive(steps: Steps[T]) -> T:
    """As `drive`, with await."""
    go_on: Callable[[], Step] = partial(next, steps)
    while True:
        try:
            step = go_on()
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        try:
            go_on = partial(steps.send, await step.awaited())
        except BaseException as error:  # noqa: BLE001 - as above
            go_on = partial(steps.throw, error)
