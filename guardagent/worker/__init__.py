"""What runs in a worker process, behind the hardening layers; the host imports nothing of it but this page.

A worker loads this package and `guardagent.hardening`, and not the library: it starts fast and holds little.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

_ROOT = str(Path(__file__).parents[1])

# An empty package in the library's place, so that its own first page is not read.
_START = """\
import sys, types
package = types.ModuleType("guardagent")
package.__path__ = [{root!r}]
sys.modules["guardagent"] = package
sys.path += {paths!r}
from guardagent.worker.{module} import main
main({arguments!r})
"""

PROGRAM = "<program>"
"""The file name in a program's code."""

FLAGS = ("-S", "-s", "-P", "-B")
"""No site packages, no user's packages, no current folder, nothing written."""


def script(module: str, *arguments: object, libraries: tuple[str, ...] = ()) -> str:
    """Python source that runs `main(arguments)` of a module of this package, with these libraries importable."""
    return _START.format(root=_ROOT, paths=[_folder(name) for name in libraries], module=module, arguments=arguments)


def command(module: str, *arguments: object, libraries: tuple[str, ...] = ()) -> list[str]:
    """The same as a command."""
    return [sys.executable, *FLAGS, "-c", script(module, *arguments, libraries=libraries)]


def _folder(library: str) -> str:
    spec = find_spec(library)
    if spec is None or not spec.origin:
        raise ModuleNotFoundError(f"{library} is not installed; install guardagent again with all its dependencies")
    return str(Path(spec.origin).parents[1])
