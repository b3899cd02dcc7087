"""Reformats JSON: other key order, white space, escaped letters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.fields import objects_in
from guardagent.programs.compile.suite import RUN_TEXTS, Suite
from guardagent.programs.compile.transformations import Variant

ABOUT = "JSON objects are reformatted with the same content"

_STRING = re.compile(r'(?<=[\[{:, ])"([A-Za-z])(?=(?:[^"\\]|\\.)*"\s*[,:\]}])')


def variants(example: Example, _suite: Suite) -> Iterator[Variant]:
    for origin in RUN_TEXTS:
        text = getattr(example, origin)
        objects = list(objects_in(text))
        if not objects:
            continue
        forms = [
            ("the keys turned around", lambda value: json.dumps(_turned(value), ensure_ascii=False)),
            ("without spaces", lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))),
            ("with more spaces", lambda value: json.dumps(value, ensure_ascii=False, separators=(" , ", " : "))),
            ("with escapes", lambda value: _escaped(json.dumps(value))),
        ]
        if len(objects) == 1 and text.strip() == text[objects[0][0] : objects[0][1]]:
            forms.append(("over several lines", lambda value: json.dumps(value, ensure_ascii=False, indent=4)))
        for note, form in forms:
            changed = example.with_text(origin, _rewritten(text, objects, form))
            yield Variant(changed, "steady", f"the JSON of {origin} {note}")


def _rewritten(text: str, objects: list[tuple[int, int, Any]], form: Any) -> str:
    for start, end, value in reversed(objects):
        text = text[:start] + form(value) + text[end:]
    return text


def _turned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _turned(item) for key, item in reversed(value.items())}
    return [_turned(item) for item in value] if isinstance(value, list) else value


def _escaped(text: str) -> str:
    """Escapes the first letter of each string."""
    return _STRING.sub(lambda match: f'"\\u{ord(match[1]):04x}', text)
