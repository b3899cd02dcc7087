"""The SARIF 2.1.0 objects of our reports: their properties, the required ones, and the allowed values of some.

From the published schema, reduced to these objects: sarif-schema-2.1.0.json, OASIS Standard with errata 01.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_LEVELS = {"none", "note", "warning", "error"}
_URI = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?[\w.~!$&'()*+,;=:@/?%#-]*", re.ASCII)
_LANGUAGE_TAG = re.compile(r"[a-zA-Z]{2}(-[a-zA-Z]{2})?")

# A property is text, number, whole, truth, bag, the name of another object, or a list of one of these; `!` after its
# name says that it is required, `*` after a list that no two are equal.
SHAPES: dict[str, dict[str, str]] = {
    "sarifLog": {"$schema": "uri", "version!": "text", "runs!": "[run]", "properties": "bag"},
    "run": {
        "tool!": "tool", "invocations": "[invocation]", "language": "language", "results": "[result]",
        "originalUriBaseIds": "{artifactLocation}", "automationDetails": "runAutomationDetails",
        "columnKind": "text", "properties": "bag",
    },
    "runAutomationDetails": {"id": "text", "description": "message", "properties": "bag"},
    "tool": {"driver!": "toolComponent", "properties": "bag"},
    "toolComponent": {
        "name!": "text", "version": "text", "semanticVersion": "text", "informationUri": "uri",
        "rules": "[reportingDescriptor]*", "properties": "bag",
    },
    "reportingDescriptor": {
        "id!": "text", "name": "text", "shortDescription": "multiformat", "fullDescription": "multiformat",
        "help": "multiformat", "helpUri": "uri", "defaultConfiguration": "reportingConfiguration", "properties": "bag",
    },
    "reportingConfiguration": {"enabled": "truth", "level": "level", "rank": "number", "properties": "bag"},
    "reportingDescriptorReference": {"id": "text", "index": "index", "properties": "bag"},
    "multiformat": {"text!": "text", "markdown": "text", "properties": "bag"},
    "message": {"text!": "text", "markdown": "text", "arguments": "[text]", "properties": "bag"},
    "invocation": {
        "executionSuccessful!": "truth", "toolExecutionNotifications": "[notification]", "exitCode": "whole",
        "properties": "bag",
    },
    "notification": {
        "message!": "message", "level": "level", "locations": "[location]*",
        "associatedRule": "reportingDescriptorReference", "properties": "bag",
    },
    "result": {
        "ruleId": "text", "ruleIndex": "index", "kind": "text", "level": "level", "message!": "message",
        "locations": "[location]", "partialFingerprints": "{text}", "codeFlows": "[codeFlow]",
        "suppressions": "[suppression]*", "properties": "bag",
    },
    "suppression": {
        "kind!": "suppressionKind", "status": "suppressionStatus", "justification": "text", "properties": "bag",
    },
    "location": {
        "id": "index", "physicalLocation": "physicalLocation", "logicalLocations": "[logicalLocation]*",
        "message": "message", "properties": "bag",
    },
    "physicalLocation": {"artifactLocation!": "artifactLocation", "region": "region", "properties": "bag"},
    "artifactLocation": {
        "uri": "uri", "uriBaseId": "text", "index": "index", "description": "message", "properties": "bag",
    },
    "region": {
        "startLine!": "line", "startColumn": "line", "endLine": "line", "endColumn": "line", "properties": "bag",
    },
    "logicalLocation": {
        "name": "text", "index": "index", "fullyQualifiedName": "text", "decoratedName": "text", "kind": "text",
        "properties": "bag",
    },
    "codeFlow": {"message": "message", "threadFlows!": "[threadFlow]", "properties": "bag"},
    "threadFlow": {"id": "text", "message": "message", "locations!": "[threadFlowLocation]", "properties": "bag"},
    "threadFlowLocation": {
        "location": "location", "kinds": "[text]*", "nestingLevel": "index", "executionOrder": "index",
        "importance": "importance", "properties": "bag",
    },
}  # fmt: skip

_VALUES = {
    "text": lambda value: isinstance(value, str),
    "uri": lambda value: isinstance(value, str) and _URI.fullmatch(value),
    "language": lambda value: isinstance(value, str) and _LANGUAGE_TAG.fullmatch(value),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "whole": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "index": lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= -1,
    "line": lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 1,
    "truth": lambda value: isinstance(value, bool),
    "bag": lambda value: isinstance(value, dict) and all(isinstance(tag, str) for tag in value.get("tags", [])),
    "level": lambda value: value in _LEVELS,
    "suppressionKind": lambda value: value in {"inSource", "external"},
    "suppressionStatus": lambda value: value in {"accepted", "underReview", "rejected"},
    "importance": lambda value: value in {"important", "essential", "unimportant"},
}


def problems(value: Any, shape: str = "sarifLog", where: str = "$") -> Iterator[str]:
    """Yields the problems of a value, with their places."""
    if shape.startswith("["):
        yield from _in_list(value, shape, where)
    elif shape.startswith("{"):
        for key, part in value.items():
            yield from problems(part, shape[1:-1], f"{where}.{key}")
    elif shape in _VALUES:
        if not _VALUES[shape](value):  # type: ignore[no-untyped-call]
            yield f"{where}: {value!r} is not of the shape {shape}"
    else:
        yield from _in_object(value, SHAPES[shape], where)


def _in_list(value: Any, shape: str, where: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{where}: expected a list"
        return
    if shape.endswith("*") and any(part in value[:index] for index, part in enumerate(value)):
        yield f"{where}: two are equal"
    for index, part in enumerate(value):
        yield from problems(part, shape.rstrip("*")[1:-1], f"{where}[{index}]")


def _in_object(value: Any, properties: dict[str, str], where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where}: expected an object"
        return
    known = {name.rstrip("!"): shape for name, shape in properties.items()}
    yield from (f"{where}: unknown property {name}" for name in value if name not in known)
    yield from (f"{where}: {name} is missing" for name in properties if name.endswith("!") and name[:-1] not in value)
    for name, part in value.items():
        if name in known:
            yield from problems(part, known[name], f"{where}.{name}")
