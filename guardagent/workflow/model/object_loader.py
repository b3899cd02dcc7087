"""Imports a target and writes its graph: `python -m guardagent.workflow.model.object_loader TARGET FILE`."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from guardagent.errors import GuardError, name_hint
from guardagent.workflow.extraction import extract


def main(target: str, answer: Path) -> None:
    """Writes the graph of the target, or the error, to a file."""
    try:
        graph = extract(load_attribute(target), target)
        content: dict[str, Any] = {"graph": graph.to_dict()}
    except TargetError as error:
        content = {"error": str(error)}
    except GuardError as error:
        content = {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - an extractor that meets what it does not know
        content = {"error": f"the graph could not be extracted: {_where(error)}"}
    answer.write_text(json.dumps(content, default=str), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # threads of the target do not keep the process alive


class TargetError(Exception):
    """A target cannot be imported, or does not exist."""


def load_attribute(target: str) -> Any:
    """Returns the object of `module:attribute` or `file.py:attribute`.

    Raises:
        TargetError: the message says why it cannot be loaded.
    """
    place, _, path = target.rpartition(":")
    found: Any = _module(place)
    for name in path.split("."):
        if not hasattr(found, name):
            known = [one for one in dir(found) if not one.startswith("_")]
            raise TargetError(f"{place!r} has no attribute {name!r}{name_hint(name, known)}")
        found = getattr(found, name)
    return found


def _module(place: str) -> ModuleType:
    try:
        return _from_file(Path(place)) if place.endswith(".py") else _named(place)
    except SystemExit as error:
        raise TargetError(
            f"importing it calls sys.exit({error.code!r}); expected a module that can be imported"
        ) from None
    except SyntaxError as error:
        raise TargetError(f"{error.filename}:{error.lineno}: not Python: {error.msg}") from None
    except BaseException as error:  # noqa: BLE001 - whatever a module raises while it is imported
        raise TargetError(f"importing it failed: {_where(error)}") from None


def _named(name: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as the interpreter does for `-m`
    return importlib.import_module(name)


def _from_file(path: Path) -> ModuleType:
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
    return f"{place}{type(error).__name__}: {error}"


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
