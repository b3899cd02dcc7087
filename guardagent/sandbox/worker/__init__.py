"""What runs in a worker process, behind the hardening layers; the host imports nothing of it but this page.

A worker loads this package and `guardagent.sandbox.hardening`, and not the library: it starts fast and holds little.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

_FOLDERS = {"guardagent": str(Path(__file__).parents[2]), "guardagent.sandbox": str(Path(__file__).parents[1])}

# Empty packages in the place of the library and of its sandbox, so that their own first pages are not read.
_START = """\
import sys, types
for name, folder in {folders!r}.items():
    package = types.ModuleType(name)
    package.__path__ = [folder]
    sys.modules[name] = package
sys.path += {paths!r}
from guardagent.sandbox.worker.{module} import main
main({arguments!r})
"""

PROGRAM = "<program>"
"""The file name in a program's code."""

FLAGS = ("-S", "-s", "-P", "-B")
"""No site packages, no user's packages, no current folder, nothing written."""


def script(module: str, *arguments: object, libraries: tuple[str, ...] = ()) -> str:
    """Python source that runs `main(arguments)` of a module of this package, with these libraries importable."""
    paths = [_folder(name) for name in libraries]
    return _START.format(folders=_FOLDERS, paths=paths, module=module, arguments=arguments)


def command(module: str, *arguments: object, libraries: tuple[str, ...] = ()) -> list[str]:
    """The same as a command."""
    return [sys.executable, *FLAGS, "-c", script(module, *arguments, libraries=libraries)]


def _folder(library: str) -> str:
    spec = find_spec(library)
    if spec is None or not spec.origin:
        raise ModuleNotFoundError(f"{library} is not installed; install guardagent again with all its dependencies")
    return str(Path(spec.origin).parents[1])
