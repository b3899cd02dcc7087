"""Calls with each argument in a tag of its own, and values without quotes."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from guardagent.generation.local.formats import Format, LiteralWriter
from guardagent.generation.local.formats.literals import ArgumentReader, BareSchema, check_schema, conforms, value_rules
from guardagent.generation.local.formats.objects import MalformedCall, call_rule, check_names, filled, quoted
from guardagent.generation.local.tool_schemas import ClosedSchema

_BY_ARGUMENTS = frozenset(
    {"type", "properties", "required", "additionalProperties", "title", "description", "default", "examples"}
    | {"$defs", "definitions", "$schema", "$id"}
)  # keywords of a tool's schema that hold where its arguments are held to theirs


@dataclass(frozen=True, slots=True)
class TagSyntax:
    """The syntax of calls with arguments in tags. Arguments come in the order of the schema.

    Attributes:
        names: a pattern of the names that can be written.
        head: a pattern of the beginning of a call, with the name as its group.
        argument_head: a pattern of the beginning of an argument, with its name as its group.
        value_end: the text before the closing mark of a value, the mark, and the grammar of the text after it.
        call_end: the mark at the end of a call.
        closing: the mark at the end of the block; empty if each call ends the block.
        block_rule: the template of a block, from the rule `call`.
        head_rule: the template of the beginning of a call.
        argument_rule: the template of the beginning of an argument.
        end_rule: the template of the end of a call.
    """

    names: str
    head: re.Pattern[bytes]
    argument_head: re.Pattern[bytes]
    value_end: tuple[str, str, str]
    call_end: str
    closing: str
    block_rule: str
    head_rule: str
    argument_rule: str
    end_rule: str

    def format(self, mark: str, **options: Any) -> Format:
        """Returns the format whose blocks open with a mark; its options are those of `Format`."""
        return Format(mark, self._grammar, lambda tools: TaggedReader(self, tools), **options)

    def _grammar(self, tools: Sequence[ClosedSchema], _: Collection[str], literal: LiteralWriter) -> str:
        check_names(tools, self.names, of_arguments=True)
        lines = [f"block: {filled(self.block_rule, literal)}", call_rule(tools)]
        for at, tool in enumerate(tools):
            check_schema(tool)
            lines += self._call_rules(f"call_{at}", tool, literal)
        return "\n".join(lines)

    def _call_rules(self, rule: str, tool: ClosedSchema, literal: LiteralWriter) -> Iterator[str]:
        arguments = _arguments(tool.schema_text)
        required = tool.schema.get("required") or ()
        parts = [f"{rule}_{at}{'' if name in required else '?'}" for at, name in enumerate(arguments)]
        others = BareSchema(tool.schema["additionalProperties"], tool.schema)
        if tool.schema["additionalProperties"] is not False:
            parts.append(f"{rule}_x*")
            yield f"{rule}_x: {filled(self.argument_rule, literal, key=f'{rule}_k'.upper())} {rule}_xv"
            known = "|".join(map(re.escape, arguments))
            yield f"{rule}_k: ".upper() + f"/{self.names}/" + (f" & ~/{known}/" if known else "")
            yield from value_rules(f"{rule}_xv", others, self.value_end, literal)
        head = filled(self.head_rule, literal, tool.name)
        yield f"{rule}: {head} {' '.join(parts)} {filled(self.end_rule, literal)}"
        for at, (name, schema) in enumerate(arguments.items()):
            yield f"{rule}_{at}: {filled(self.argument_rule, literal, key=quoted(name))} {rule}_{at}v"
            yield from value_rules(f"{rule}_{at}v", schema, self.value_end, literal)


class TaggedReader(ArgumentReader):
    """Parses a sequence of calls with arguments in tags.

    Args:
        tags: their syntax.
        tools: the tools.
    """

    def __init__(self, tags: TagSyntax, tools: Sequence[ClosedSchema]) -> None:
        super().__init__(tools, tags.head, tags.argument_head)
        self._tags = tags
        self._value_mark = "".join(tags.value_end[:2]).encode()

    def _block_end(self, text: bytearray, at: int) -> int:
        mark = self._tags.closing.encode()
        return _end(text, mark, at) if mark else -1

    def _call_end(self, text: bytearray, at: int, tool: str) -> int:
        end = _end(text, self._tags.call_end.encode(), at)
        if end >= 0:
            self._check(tool)
            self.is_closed = not self._tags.closing
        return end

    def _value(self, text: bytearray, at: int, start: int, tool: str, key: str) -> tuple[Any, int] | None:
        end = text.find(self._value_mark, max(at, start - len(self._value_mark) + 1))
        if end < 0:
            return None
        value = text[at:end]
        if self._tags.value_end[1].encode() in value:
            raise MalformedCall("a value contains the mark that ends it")
        return self._schema(tool, key).parse(value), end + len(self._value_mark)

    def _schema(self, tool: str, key: str) -> BareSchema:
        schema = self._tools.get(tool)
        if schema is None:
            return BareSchema(True, {})  # noqa: FBT003 - a schema
        arguments = _arguments(schema.schema_text)
        return arguments.get(key) or BareSchema(schema.schema["additionalProperties"], schema.schema)

    def _check(self, tool: str) -> None:
        """Checks a complete call where the schema of the tool says more than those of its arguments."""
        schema: Mapping[str, Any] = self._tools[tool].schema if tool in self._tools else {}
        is_held = schema.keys() <= _BY_ARGUMENTS and schema.get("properties", {}).keys() >= {
            *schema.get("required", ())
        }
        if not is_held and not conforms(schema, dict(self._args)):
            raise MalformedCall(f"the arguments of {tool!r} do not conform to its schema")


def _end(text: bytearray, mark: bytes, at: int) -> int:
    """Returns the offset after the next mark; -1 without any."""
    start = text.find(mark, at)
    return start if start < 0 else start + len(mark)


@lru_cache(maxsize=256)
def _arguments(schema_text: str) -> dict[str, BareSchema]:
    """The schemas of the declared arguments, given the schema of a tool as JSON."""
    schema = json.loads(schema_text)
    return {name: BareSchema(property_schema, schema) for name, property_schema in schema["properties"].items()}
