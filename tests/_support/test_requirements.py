"""A missing or outdated dependency is reported with the command that installs it."""

from __future__ import annotations

import logging
from importlib.metadata import version

import pytest

from guardagent._support.requirements import require, require_parts, version_problem, warn_untried
from guardagent.errors import InputError


def test_a_missing_dependency_names_the_extra() -> None:
    """The message also has the required version."""
    message = (
        r"not installed; expected no-such-host 1\.4 or newer: install the extra 'hosts': pip install '\.\[hosts\]'"
    )
    with pytest.raises(InputError, match=message):
        require({"pytest": "8.2", "no-such-host": "1.4"}, "hosts")


def test_an_outdated_dependency_names_both_versions() -> None:
    """The message has the installed and the required version."""
    with pytest.raises(InputError, match=rf"pytest {version('pytest')} is too old; expected pytest 999\.1 or newer"):
        require({"pytest": "999.1"}, "hosts")


@pytest.mark.parametrize("version", ["0.3.27", "1.2.18", "1"])
def test_an_older_version_is_a_problem(version: str) -> None:
    """Its first two numbers decide."""
    assert "too old" in version_problem("host", "1.4", version)


@pytest.mark.parametrize("version", ["1.4.0", "1.10.2", "2.0.0rc1"])
def test_a_recent_version_is_accepted(version: str) -> None:
    """Newer versions are accepted too."""
    assert not version_problem("host", "1.4", version)


# --- a host outside the versions that its adapter was tried with warns; one that lacks a part is refused


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
