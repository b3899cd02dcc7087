"""The files of a policy that a lock file pins."""

from __future__ import annotations

from collections.abc import Container, Iterator
from pathlib import Path

from guardagent.policy.file.policy_file import PolicyFile, read_policy_file
from guardagent.policy.review.review_file import review_path
from guardagent.programs.lock import Content, programs, toolboxes
from guardagent.sandbox.toolbox import Toolbox


def policy_contents(*files: Path) -> Iterator[Content]:
    """Yields policy files, their reviews, and every file that they refer to."""
    for path in files:
        read = read_policy_file(path)
        yield from contents_of(read)
        yield from reviews_of(read)


def contents_of(read: PolicyFile) -> Iterator[Content]:
    """Yields the files of policies that have been read."""
    for one in read.files:
        yield Content("policy", one.name, one)
    for paths in read.toolboxes.values():
        yield from toolboxes(Toolbox(list(paths)))
    for rule in read.rules:
        yield from programs(*filter(None, [rule.program]))
        if rule.solver and rule.solver.smt_file:
            yield Content("policy", rule.solver.smt_file.name, rule.solver.smt_file)
    if read.shadow is not None:
        yield from contents_of(read.shadow)


def reviews_of(read: PolicyFile, other: Path | None = None, *, pinned: Container[str] = ()) -> Iterator[Content]:
    """Yields the review files beside policy files that have been read, and `other`.

    A review with a pinned name is expected even if it is missing: otherwise nothing would notice that it was deleted.
    """
    for path in [*map(review_path, read.files), *filter(None, [other])]:
        if path == other or path.exists() or path.name in pinned:
            yield Content("review", path.name, path)
