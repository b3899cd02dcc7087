"""Runs that Hypothesis makes of the examples' shape: always the same ones, a bounded number, failing ones shrunk."""

from __future__ import annotations

import importlib.util
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guardagent.compile.examples import Example
from guardagent.compile.properties.shapes import Change
from guardagent.errors import SandboxError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

INSTALL = "pip install 'guardagent[compile]'"

_SEED = 20260131
_SECONDS = 120.0  # for one search: a program that always runs into its limits must not take hours
_MOST_CHANGES = 4

Accepts = Callable[[Example, str], bool]
"""(a run, how it was made of an example) -> whether it is what is looked for."""


def installed() -> bool:
    return importlib.util.find_spec("hypothesis") is not None


def search(
    examples: Sequence[Example], places: Sequence[Sequence[Change]], accepts: Accepts, runs: int
) -> tuple[Example, str] | None:
    """The simplest run that is looked for, with how it was made: an example with as few changes as possible.

    Raises:
        SandboxError: the sandbox does not work here.
    """
    from hypothesis import HealthCheck, Phase, Verbosity, find, settings
    from hypothesis.errors import NoSuchExample

    looking = _Looking(accepts)
    options = settings(
        max_examples=runs,
        database=None,
        deadline=None,
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    found = None
    with _storage_aside(), suppress(NoSuchExample):
        made = find(_runs(examples, places), looking, settings=options, random=random.Random(_SEED))  # noqa: S311
        found = _changed(*made)
    if looking.error is not None:
        raise looking.error
    return found


class _Looking:
    """Asks about a run; once the sandbox fails, or the time is over, nothing is asked any more."""

    def __init__(self, accepts: Accepts) -> None:
        self._accepts = accepts
        self._ends = time.monotonic() + _SECONDS
        self.error: SandboxError | None = None

    def __call__(self, made: tuple[Example, Sequence[Change]]) -> bool:
        if self.error is not None or time.monotonic() > self._ends:
            return False
        try:
            return self._accepts(*_changed(*made))
        except SandboxError as error:
            self.error = error
            return False


def _runs(examples: Sequence[Example], places: Sequence[Sequence[Change]]) -> SearchStrategy[Any]:
    from hypothesis import strategies

    def one_change(place: Sequence[Change]) -> SearchStrategy[Change]:
        return strategies.sampled_from(place)

    changes: SearchStrategy[list[Change]] = strategies.just([])
    if places:
        one = strategies.sampled_from(places).flatmap(one_change)
        changes = strategies.lists(one, max_size=_MOST_CHANGES, unique_by=lambda change: (change.part, change.name))
    return strategies.tuples(strategies.sampled_from(list(examples)), changes)


def _changed(example: Example, changes: Sequence[Change]) -> tuple[Example, str]:
    """The run, with the changes that make a difference in words. A whole text is put in before its fields."""
    notes = []
    for change in sorted(changes, key=lambda change: bool(change.name)):
        before, example = example, change.apply(example)
        if example != before:
            notes.append(str(change))
    return example, "; ".join(notes)


@contextmanager
def _storage_aside() -> Iterator[None]:
    """Hypothesis keeps what it learns of the code around it in the working directory; for this it shall not."""
    from hypothesis import configuration

    before = configuration.storage_directory(intent_to_write=False).home_directory
    with tempfile.TemporaryDirectory(prefix="guardagent-") as folder:
        configuration.set_hypothesis_home_dir(Path(folder))
        try:
            yield
        finally:
            configuration.set_hypothesis_home_dir(before)
