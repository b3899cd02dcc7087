"""What is not installed, or too old, is said with what to install."""

from importlib.metadata import version

import pytest

from guardagent._support.requirements import require, version_problem
from guardagent.errors import InputError


def test_what_is_missing_names_the_extra() -> None:
    """And the version that is needed."""
    said = r"no-such-host is not installed; expected no-such-host 1\.4 or newer: pip install -U 'guardagent\[hosts\]'"
    with pytest.raises(InputError, match=said):
        require({"pytest": "8.2", "no-such-host": "1.4"}, "hosts")


def test_what_is_too_old_names_both_versions() -> None:
    """The one that is there, and the one that is needed."""
    with pytest.raises(InputError, match=rf"pytest {version('pytest')} is too old; expected pytest 999\.1 or newer"):
        require({"pytest": "999.1"}, "hosts")


@pytest.mark.parametrize("found", ["0.3.27", "1.2.18", "1"])
def test_an_older_version_is_a_problem(found: str) -> None:
    """Its first two numbers tell."""
    assert "too old" in version_problem("host", "1.4", found)


@pytest.mark.parametrize("found", ["1.4.0", "1.10.2", "2.0.0rc1"])
def test_a_version_that_will_do_is_none(found: str) -> None:
    """Newer ones are taken as they come."""
    assert not version_problem("host", "1.4", found)
