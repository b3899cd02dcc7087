"""A missing or outdated dependency is reported with the command that installs it."""

from importlib.metadata import version

import pytest

from guardagent._support.requirements import require, version_problem
from guardagent.errors import InputError


def test_a_missing_dependency_names_the_extra() -> None:
    """The message also has the required version."""
    message = (
        r"no-such-host is not installed; expected no-such-host 1\.4 or newer: pip install -U 'guardagent\[hosts\]'"
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
