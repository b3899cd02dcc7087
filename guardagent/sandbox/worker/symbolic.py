"""Searches a value of one field for which a program violates a property, by CrossHair's symbolic execution.

CrossHair runs the examined code as plain Python, so this process first confines itself permanently with every hardening
layer. Its output is a suggestion that the host tries in the sandbox; it is never trusted.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from guardagent.sandbox import hardening

_MEMORY_BYTES = 4 * 1024**3
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/nix/store")
_CALLED = re.compile(r"when calling \w+\((?:value\s*=\s*)?(.*?)\)(?: \(which|$)", re.DOTALL)


class _Task:
    """The state for the examined functions below, whose only parameter can be the value."""

    check: Callable[..., Any]
    properties: Callable[..., Any]
    run: Mapping[str, Any]
    position: tuple[
        str, str, str
    ]  # the input, and the strings around the value; for facts, the name and an empty string
    number: str


def main(_arguments: tuple[()]) -> None:
    """Reads a task from standard input, and writes a line for each counterexample."""
    from guardagent.sandbox.toolbox import Toolbox

    work = json.loads(sys.stdin.read())
    tools = dict(Toolbox([_path(name) for name in work["toolbox"]]).functions)
    _counterexamples(keeps_text, 0.1)  # the first use of CrossHair loads many modules
    readable = tuple(path for path in (*sys.path, *_LIBRARIES, *work["readable"]) if path and os.path.exists(path))  # noqa: PTH110
    hardening.apply(hardening.LAYERS, hardening.Profile("program", readable, _MEMORY_BYTES, files=256))
    _Task.check, _Task.properties = (_load_check(work[name], tools) for name in ("program", "properties"))
    deadline = time.monotonic() + work["seconds"]
    for question in work["questions"]:
        if time.monotonic() > deadline:
            break
        _Task.run, _Task.position = question["run"], tuple(question["place"])
        values = _counterexamples(keeps_number if question["number"] else keeps_text, work["each"])
        for value in values:
            sys.stdout.write(json.dumps({"question": question["id"], "value": value}) + "\n")
        sys.stdout.write(json.dumps({"asked": question["id"]}) + "\n")
        sys.stdout.flush()
        if values:  # the program must be fixed first
            break


def keeps_text(value: str) -> bool:
    """Whether the program satisfies its properties for this string.

    post: _
    """
    return _keeps(value)


def keeps_number(value: int) -> bool:
    """Whether the program satisfies its properties for this number.

    post: _
    """
    return _keeps(value)


def _keeps(value: Any) -> bool:
    if not hasattr(_Task, "run"):
        return True
    run = _with_value(value)
    claims = list(_Task.properties(**run).values())
    try:
        claim = _Task.check(**run)
        label = 1 if claim["label"] else 0
        undecided = bool((claim.get("details") or {}).get("unknown"))
    except ValueError:
        label, undecided = 1, True
    if "deny" in claims:
        return label == 1
    return "allow" not in claims or label == 0 or undecided


def _with_value(value: Any) -> dict[str, Any]:
    field, before, after = _Task.position
    run = {name: (dict(item) if isinstance(item, dict) else item) for name, item in _Task.run.items()}
    if field == "facts":
        run[field][before] = value
    else:
        run[field] = before + str(value) + after
    return run


def _counterexamples(function: Callable[..., Any], seconds: float) -> list[Any]:
    from crosshair.core_and_libs import analyze_function, run_checkables
    from crosshair.options import AnalysisOptionSet

    options = AnalysisOptionSet(per_condition_timeout=seconds, per_path_timeout=max(1.0, seconds / 3))
    values: list[Any] = []
    for message in run_checkables(analyze_function(function, options)):
        match = _CALLED.search(message.message)
        if match is not None:
            try:
                values.append(ast.literal_eval(match[1]))
            except (ValueError, SyntaxError):
                continue
    return values


def _load_check(source: str, tools: Mapping[str, Any]) -> Callable[..., Any]:
    names: dict[str, Any] = dict(tools)
    exec(compile(source, "<examined>", "exec"), names)  # noqa: S102 - the purpose of this confined process
    check: Callable[..., Any] = names["check"]
    return check


def _path(name: str) -> Any:
    from pathlib import Path

    return Path(name)
