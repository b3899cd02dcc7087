"""Calls with keyword arguments, whose values are literals of both Python and JSON, but for True, False and None."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from guardagent.generation.local.formats import PartialCall
from guardagent.generation.local.formats._bare_values import (
    ALL_TYPES,
    PYTHON_WORDS,
    check_schema,
    conforms,
    own_types,
    referenced,
)
from guardagent.generation.local.formats._objects import json_grammar, quoted
from guardagent.generation.local.formats.objects import MalformedCall, parse_value
from guardagent.generation.local.tool_schemas import ClosedSchema
from guardagent.types import EMPTY

_SCALARS = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
_KEY = r"/[A-Za-z_]\w*/"
_HEAD = re.compile(rb"[\[,\s]*([A-Za-z_]\w*)\(")
_ARGUMENT = re.compile(rb"[,\s]*([A-Za-z_]\w*)=")
_WORD = re.compile(rb'"(?:[^"\\]|\\.)*"|' + "|".join(PYTHON_WORDS).encode(), re.DOTALL)


def call_rules(tools: Sequence[ClosedSchema]) -> str:
    """The rule `call`.

    Raises:
        InputError: the grammar library does not support one of the schemas.
    """
    lines = [f"call: {' | '.join(f'call_{at}' for at in range(len(tools)))}"]
    for at, tool in enumerate(tools):
        check_schema(tool)
        rules = _Rules(f"call_{at}", tool.schema)
        members = rules.members(tool.schema, lambda name: f'{quoted(name)} "="', f'{_KEY} "="')
        lines += [f'call_{at}: {quoted(tool.name)} "(" {members} ")"', *rules.lines]
    return "\n".join(lines)


class _Rules:
    """The rules of the literals that the schemas of one tool allow. They ignore some keywords, which readers check.

    Args:
        prefix: the prefix of the names of the rules.
        root: the schema of the tool, for references.
    """

    def __init__(self, prefix: str, root: Mapping[str, Any]) -> None:
        self.lines: list[str] = []
        self._prefix, self._root, self._count = prefix, root, 0
        self._by_reference: dict[str, str] = {}

    def _named(self) -> str:
        self._count += 1
        return f"{self._prefix}_{self._count}"

    def literal(self, schema: Any) -> str:
        """The name of the rule for a schema."""
        schema = schema if isinstance(schema, Mapping) else {}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            if reference not in self._by_reference:
                self._by_reference[reference] = rule = self._named()
                self.lines.append(f"{rule}: {self.literal(referenced(reference, self._root))}")
            return self._by_reference[reference]
        rule = self._named()
        self.lines.append(f"{rule}: {' | '.join(self._alternatives(schema))}")
        return rule

    def _alternatives(self, schema: Mapping[str, Any]) -> list[str]:
        if "const" in schema or "enum" in schema:
            return [quoted(_written(one)) for one in schema.get("enum", [schema.get("const")])]
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list):
                return [self.literal(one) for one in schema[key]]
        types = own_types(schema)
        if types == ALL_TYPES and "any" not in self._by_reference:
            self._by_reference["any"] = rule = self._named()
            self.lines.append(f"{rule}: {' | '.join(self._typed(one, {}) for one in sorted(types))}")
        if types == ALL_TYPES:
            return [self._by_reference["any"]]
        return [self._typed(one, schema) for one in sorted(types)]

    def _typed(self, kind: str, schema: Mapping[str, Any]) -> str:
        match kind:
            case "boolean":
                return '("True" | "False")'
            case "null":
                return '"None"'
            case "array":
                return self._array(schema)
            case "object":
                members = self.members(
                    {"additionalProperties": True, **schema}, lambda name: f'{quoted(quoted(name))} ": "',
                    f'{self._scalar("string", {})} ": "',
                )  # fmt: skip
                return f'"{{" {members} "}}"'
        return self._scalar(kind, schema)

    def _scalar(self, kind: str, schema: Mapping[str, Any]) -> str:
        kept = _SCALARS["string" if kind == "string" else "number"]
        rule = self._named()
        self.lines.append(
            f"{rule}: {json_grammar({'type': kind} | {key: schema[key] for key in kept if key in schema})}"
        )
        return rule

    def _array(self, schema: Mapping[str, Any]) -> str:
        item = self.literal(schema.get("items"))
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if most == 0:
            return '"[]"'
        others = f"{{{max(least - 1, 0)},{'' if most is None else most - 1}}}"
        return f'"[" ({item} (", " {item}){others}){"" if least else "?"} "]"'

    def members(self, schema: Mapping[str, Any], key: Any, other_key: str) -> str:
        """The rule for the members of an object, or the arguments of a call, in the order of the schema.

        Args:
            schema: the schema of the object.
            key: the grammar of the text before a value, given its key.
            other_key: the grammar of the text before the value of another key.
        """
        properties, required = schema.get("properties") or {}, schema.get("required") or ()
        names = [self._named() for _ in range(2 * len(properties) + 2)]
        first, later = names[::2], names[1::2]
        for at, (name, one) in enumerate(properties.items()):
            member = f"{key(name)} {self.literal(one)} {later[at + 1]}"
            self.lines += [
                f"{first[at]}: {member}" + ("" if name in required else f" | {first[at + 1]}"),
                f'{later[at]}: ", " {member}' + ("" if name in required else f" | {later[at + 1]}"),
            ]
        if schema.get("additionalProperties", True) is False:
            self.lines += [f'{first[-1]}: ""', f'{later[-1]}: ""']
        else:
            other = f"{other_key} {self.literal(schema.get('additionalProperties'))}"
            self.lines += [f'{first[-1]}: ({other} (", " {other})*)?', f'{later[-1]}: (", " {other})*']
        return first[0]


def _written(value: Any) -> str:
    """A literal of Python, with double quotes."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_written(key)}: {_written(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    if value is None or isinstance(value, bool):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)


class PythonicReader:
    """Parses a list of calls.

    Args:
        tools: the tools by name.
    """

    def __init__(self, tools: Mapping[str, ClosedSchema]) -> None:
        self.is_closed = False
        self._tools = tools
        self._at: int | None = None  # the start of the text that is not parsed yet
        self._tool: str | None = None  # None between calls
        self._key: str | None = None  # None between arguments
        self._seen = self._depth = self._last = 0  # in a value: its scanned end, and the open brackets in it
        self._in_string = self._is_escaped = False
        self._args: Mapping[str, Any] = EMPTY

    def copy(self) -> PythonicReader:
        copied = PythonicReader.__new__(PythonicReader)
        copied.__dict__.update(self.__dict__)
        return copied

    def read(self, text: bytearray, start: int) -> list[PartialCall]:
        self._at = start if self._at is None else self._at
        found: list[PartialCall] = []
        while not self.is_closed and (step := self._next(text, self._at)) is not None:
            self._at = step[0]
            found += step[1]
        return found

    def _next(self, text: bytearray, at: int) -> tuple[int, list[PartialCall]] | None:
        """The next part that is complete: its end, and what it completes; None if there is none yet."""
        if self._tool is None:
            return self._head(text, at)
        if self._key is None:
            return self._argument(text, at, self._tool)
        return self._value(text, at, self._tool, self._key)

    def _head(self, text: bytearray, at: int) -> tuple[int, list[PartialCall]] | None:
        if head := _HEAD.match(text, at):
            self._tool, self._last, self._args = head[1].decode(), head.start(1), EMPTY
            return head.end(), [PartialCall(self._tool, EMPTY, self._last)]
        self.is_closed = text.startswith(b"]", at)
        return (at + 1, []) if self.is_closed else None

    def _argument(self, text: bytearray, at: int, tool: str) -> tuple[int, list[PartialCall]] | None:
        if head := _ARGUMENT.match(text, at):
            self._key, self._seen = head[1].decode(), head.end()
            if self._key in self._args:
                raise MalformedCall(f"the argument {self._key!r} appears twice")
            return head.end(), []
        if not text.startswith(b")", at):
            return None
        if tool in self._tools and not conforms(self._tools[tool].schema, dict(self._args)):
            raise MalformedCall(f"the arguments of {tool!r} do not conform to its schema")
        self._tool = None
        return at + 1, [PartialCall(tool, self._args, self._last, is_complete=True)]

    def _value(self, text: bytearray, at: int, tool: str, key: str) -> tuple[int, list[PartialCall]] | None:
        while self._seen < len(text) and not self._ends(text[self._seen]):
            self._seen += 1
        if self._seen >= len(text):
            return None
        self._args = {**self._args, key: _parsed(text[at : self._seen])}
        self._key, self._last = None, at
        return self._seen, [PartialCall(tool, self._args, at)]

    def _ends(self, byte: int) -> bool:
        """Whether a byte follows the value."""
        if self._in_string:
            self._in_string = self._is_escaped or byte != ord('"')
            self._is_escaped = not self._is_escaped and byte == ord("\\")
        elif byte == ord('"'):
            self._in_string = True
        elif byte in b"[{":
            self._depth += 1
        elif byte in b"]}":
            self._depth -= 1
        else:
            return byte in b",)" and not self._depth
        return False


def _parsed(text: bytearray) -> Any:
    words = {word.encode(): json.dumps(value).encode() for word, value in PYTHON_WORDS.items()}
    return parse_value(_WORD.sub(lambda found: words.get(found[0], found[0]), text))
