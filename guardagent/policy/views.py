"""Views of calls for reviewers: a text, a diff of two values or a table, over arguments, outputs and facts.

A view is shown after the arguments, never in place of them. The views of a policy are data: their placeholders are
paths such as `args.items[0].price`, and a path without a value shows as `(missing)`. A host's are functions.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from guardagent._support import json_values
from guardagent.errors import InputError, error_text
from guardagent.types import Event, thaw

MISSING = "(missing)"
MAX_TEXT = 8_000  # characters of a view
MAX_LINES, MAX_ROWS, MAX_COLUMNS = 1_000, 50, 12
_NAME = r"\.[^\s.\[\]{}!<>'\"]+"
_PATH = re.compile(rf"(?:args|facts|outputs{_NAME})(?:{_NAME}|\[\d{{1,6}}\])*")
_STEP = re.compile(r"[^.\[\]]+")
_PART = re.compile(r"(\{\{|\}\})|\{([^{}]*)\}|([{}])|([^{}]+)")

ValuePath = tuple[str, ...]
HostView = Callable[[dict[str, Any]], "str | Mapping[str, Any]"]
"""A host's function that shows a call to reviewers: it takes the arguments, and returns a text or rows of a table."""


@dataclass(frozen=True, slots=True)
class RenderedView:
    """A view of one call.

    Attributes:
        text: the view as text, of a limited size.
        rows: the rows of a table, the first one with the names of its columns; empty for another view.
        is_diff: whether it is a diff.
    """

    text: str
    rows: Sequence[Sequence[Any]] = ()
    is_diff: bool = False


@dataclass(frozen=True, slots=True)
class CallView:
    """The view that a policy has of the calls of a tool.

    Attributes:
        kind: its kind.
        parts: literal strings, and paths to values.
    """

    kind: Literal["text", "diff", "table"]
    parts: tuple[str | ValuePath, ...]

    @classmethod
    def read(cls, value: Any) -> CallView:
        """Reads a view: a text with placeholders such as `{args.to}`, or a diff or table of paths; `{{` is a brace.

        Raises:
            InputError: it is not a view.
        """
        match value:
            case str() if value.strip():
                return cls("text", tuple(map(_part, _PART.finditer(value))))
            case {"diff": [before, after], **more} if not more:
                return cls("diff", (_path(before), _path(after)))
            case {"table": path, **more} if not more:
                return cls("table", (_path(path),))
        raise InputError(
            "the view is invalid; expected a text such as 'To {args.to}', diff: [PATH, PATH] or table: PATH"
        )

    def render(self, args: Any, facts: Any, history: Iterable[Event] = ()) -> RenderedView:
        """Returns the view of a call. The output of a tool is that of its last successful call in the history."""
        outputs = {event.tool: event.output for event in history if event.status == "ok"}
        sources = {"args": args, "facts": facts, "outputs": outputs}
        values = [part if isinstance(part, str) else thaw(_value(sources, part)) for part in self.parts]
        if self.kind == "table":
            return _table(values[0])
        indent = 2 if self.kind == "diff" else None
        texts = [str(value) if isinstance(value, str | Decimal) else _json(value, indent) for value in values]
        return RenderedView(_cut(_difference(*texts)), is_diff=True) if indent else RenderedView(_cut("".join(texts)))


def view_for(policies: Any, tool: str) -> CallView | None:
    """Returns the view that policies have of the calls of a tool; None if they have none, as those of a host's own."""
    source = getattr(policies, "source", None)
    return None if source is None else source.views.get(tool)


def host_text(views: Mapping[str, HostView], tool: str, args: Any) -> str:
    """Returns a call as the host's function for its tool shows it, as text; empty without one. Never raises."""
    if tool not in views:
        return ""
    try:
        value = views[tool](thaw(args))
        return _cut(value) if isinstance(value, str) else _table(thaw(value)).text
    except Exception as error:  # noqa: BLE001 - a host's function; the arguments are shown in any case
        import logging  # here: most commands log nothing

        logging.getLogger("guardagent").warning("the view of %r failed: %s", tool, error_text(error))
        return f"(the view failed: {type(error).__name__})"


def _part(match: re.Match[str]) -> str | ValuePath:
    brace, path, single, text = match.groups()
    if single:
        raise InputError(f"{single!r} stands alone; expected a placeholder such as {{args.to}}, or {single * 2!r}")
    return text or (brace[0] if brace else _path(path))


def _path(text: Any) -> ValuePath:
    if not isinstance(text, str) or not _PATH.fullmatch(text):
        raise InputError(f"{str(text)[:60]!r} is not a path; expected args.NAME, outputs.TOOL.NAME or facts.NAME")
    return tuple(_STEP.findall(text))


def _value(value: Any, path: ValuePath) -> Any:
    """Returns the value at a path. A string is read as JSON; of names with dots, the longest counts."""
    while path:
        if isinstance(value, str):
            with contextlib.suppress(ValueError, ArithmeticError):
                value = json_values.loads(value, parse_float=Decimal)
        if isinstance(value, list | tuple):
            keys = {str(at): item for at, item in enumerate(value)}
        else:
            keys = dict(value) if isinstance(value, Mapping) else {}
        end = next((end for end in range(len(path), 0, -1) if ".".join(path[:end]) in keys), 0)
        if not end:
            return MISSING
        value, path = keys[".".join(path[:end])], path[end:]
    return value


def _difference(before: str, after: str) -> str:
    lines = before.splitlines(), after.splitlines()
    if max(map(len, lines)) > MAX_LINES:
        return f"(too long to compare: {len(lines[0]):,} lines before, {len(lines[1]):,} after)"
    changed = "\n".join(difflib.unified_diff(*lines, "before", "after", lineterm=""))
    return changed or ("(no difference)" if before == after else "(only the ends of lines differ)")


def _table(value: Any) -> RenderedView:
    if isinstance(value, Mapping):
        value = [{"name": name, "value": item} for name, item in value.items()]
    items = value if isinstance(value, list) else [value]
    shown = [item if isinstance(item, dict) else {"value": item} for item in items[:MAX_ROWS]]
    names = list(dict.fromkeys(name for item in shown for name in item)) or ["no rows"]
    rows = [names[:MAX_COLUMNS], *([item.get(name, MISSING) for name in names[:MAX_COLUMNS]] for item in shown)]
    for kind, count, most in (("rows", len(items), MAX_ROWS), ("columns", len(names), MAX_COLUMNS)):
        rows += [[f"({count - most:,} more {kind})"]] if count > most else []
    return RenderedView(_cut("\n".join(" | ".join(map(_json, row)) for row in rows)), rows)


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def _cut(text: str) -> str:
    text, left = text.encode(errors="replace").decode(), len(text) - MAX_TEXT
    return text if left <= 0 else f"{text[:MAX_TEXT]}\n(cut: {left:,} more characters)"
