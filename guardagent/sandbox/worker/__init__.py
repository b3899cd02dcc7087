"""Code that runs in a worker process, behind the hardening layers.

Of it the host imports this file, `codec`, and the names of the modules that a program can import.

A worker loads this package and `guardagent.sandbox.hardening`, but not the library, so that it starts fast and small.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

_FOLDERS = {"guardagent": str(Path(__file__).parents[2]), "guardagent.sandbox": str(Path(__file__).parents[1])}

# Empty packages replace the library and its sandbox, so that their `__init__` modules do not load.
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
"""The file name of a program's code."""

FLAGS = ("-S", "-s", "-P", "-B")
"""No site packages, no user packages, no current folder, no bytecode files."""


def script(module: str, *arguments: object, libraries: tuple[str, ...] = ()) -> str:
    """Returns Python source that runs `main(arguments)` of a module of this package, with these libraries."""
    paths = [_folder(name) for name in libraries]
    return _START.format(folders=_FOLDERS, paths=paths, module=module, arguments=arguments)


def command(module: str, *arguments: object, libraries: tuple[str, ...] = ()) -> list[str]:
    """Returns the command line that runs `script`."""
    return [sys.executable, *FLAGS, "-c", script(module, *arguments, libraries=libraries)]


def _folder(library: str) -> str:
    spec = find_spec(library)
    if spec is None or not spec.origin:
        raise ModuleNotFoundError(f"{library!r} is not installed; reinstall guardagent with all its dependencies")
    return str(Path(spec.origin).parents[1])
