"""Unlisted: the file does not say what happens to calls that no rule covers, so they are allowed."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.target import LintTarget

_MESSAGE = (
    "'unlisted' is missing, so every call that no rule covers is allowed; write 'unlisted: deny', or "
    "'unlisted: allow' if that is meant"
)


def check(target: LintTarget) -> Iterator[LintFinding]:
    """Reports a file without `unlisted:`."""
    if target.file.unlisted is None:
        yield LintFinding("unlisted", None, None, _MESSAGE, "any_other_tool() is allowed, whatever its arguments")
