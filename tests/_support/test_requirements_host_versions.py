"""A host outside the versions that its adapter was tried with warns; one that lacks a part is refused."""

from __future__ import annotations

import logging
from importlib.metadata import version

import pytest

from guardagent._support.requirements import require_parts, warn_untried
from guardagent.errors import InputError


@pytest.mark.parametrize(
    ("tried", "warning"),
    [
        (("0.1", "9999"), ""),
        ((version("pytest"), version("pytest")), ""),
        (("9998", "9999"), "older than"),
        (("0.1", "0.2"), "newer than"),
    ],
)
def test_a_version_that_was_not_tried_warns(
    tried: tuple[str, str], warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A tried version, and a distribution that is not installed, do not."""
    with caplog.at_level(logging.WARNING, "guardagent"):
        warn_untried({"pytest": tried, "no-such-distribution": tried})
    assert [warning in message for message in caplog.messages] == ([True] if warning else [])


def test_a_missing_part_is_refused() -> None:
    """The message names it."""
    require_parts(dict, "items", "keys")
    with pytest.raises(InputError, match="dict has no 'gone' in this version"):
        require_parts(dict, "items", "gone")
