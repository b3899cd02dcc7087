"""Reads the source of Acme Flows programs: flows and steps become stubs, extracted like live objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guardagent.frameworks._template import extractor as live
from guardagent.workflow.python_source.stubs import REQUIRED, ClassStub, ObjectStub
from guardagent.workflow.python_source.values import Arguments, Values

if TYPE_CHECKING:
    from guardagent.workflow.python_source.interpreter import Interpreter

extract = live.extract
KINDS = (
    ClassStub("Step", "acme_flows", fields={"name": REQUIRED, "tool": REQUIRED}),
    ClassStub(
        "Flow",
        "acme_flows",
        fields={"steps": REQUIRED},
        list_fields=frozenset({"steps"}),
        ordered_fields=frozenset({"steps"}),
    ),
)


def is_workflow(value: object) -> bool:
    return isinstance(value, ObjectStub) and live.recognises(value)


def called(_interpreter: Interpreter, _target: object, _arguments: Arguments, _line: int) -> Values | None:
    """Returns None: Acme Flows has no relevant functions, and KINDS describes its classes."""
    return None
