"""Runs the tests of a proposed function that a reviewer has read: in a separate process, without the sandbox."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

SECONDS = 60.0
_SHOWN = 2000  # characters of the tests' output

_RUNNER = """\
import importlib, sys
sys.path.insert(0, sys.argv[1])
module = importlib.import_module(sys.argv[2])
tests = [value for name, value in vars(module).items() if name.startswith("test_") and callable(value)]
for test in tests:
    test()
if not tests:
    sys.exit("there is no test_ function")
sys.stdout.write(f"\\n{sys.argv[3]} {len(tests)}")
"""


def failure_report(files: Mapping[str, str], tests: str) -> str:
    """Returns why the tests of a function fail; empty if all pass.

    They receive only PATH from this process's environment.

    Args:
        files: name -> content of the function's file and of the tests' file.
        tests: the name of the latter; its functions `test_…` are called without arguments.
    """
    done = f"passed-{os.urandom(8).hex()}"  # the files cannot print it
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        command = [sys.executable, "-I", "-B", "-c", _RUNNER, folder, Path(tests).stem, done]
        environment = {name: value for name, value in os.environ.items() if name in ("PATH", "SYSTEMROOT")}
        try:
            ran = subprocess.run(  # noqa: S603 - a reviewer has approved it
                command,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                stdin=subprocess.DEVNULL,
                cwd=folder,
                env=environment,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"the tests did not end within {SECONDS:g} seconds"
    if ran.returncode == 0 and ran.stdout.rpartition("\n")[2].startswith(done):
        return ""
    return (ran.stderr or ran.stdout).strip()[-_SHOWN:] or f"the tests stopped early, with exit status {ran.returncode}"
