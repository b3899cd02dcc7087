"""A missing extra is an error that says what to install."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("missing", ["torch", "transformers", "llguidance"])
def test_a_missing_extra_is_named(missing: str) -> None:
    """The import fails with what to install, and `guardagent` alone needs none of it."""
    text = f"import sys; sys.modules[{missing!r}] = None; import guardagent; import guardagent.generation.local"
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "InputError" in ran.stderr
    assert missing in ran.stderr.splitlines()[-1]
    assert "pip install '.[generation]'" in ran.stderr
