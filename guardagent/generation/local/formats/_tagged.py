"""Formats whose blocks open with a mark; some have each argument in a tag of its own, and values without quotes."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from guardagent.errors import InputError
from guardagent.generation.local.formats import LiteralWriter, PartialCall
from guardagent.generation.local.formats.literals import BareSchema, check_schema, conforms, value_rules
from guardagent.generation.local.formats.objects import MalformedCall, quoted
from guardagent.generation.local.tool_schemas import ClosedSchema
from guardagent.types import EMPTY


class MarkedFormat:
    """A base for formats: blocks open with one mark, which also tells the format in a template or a vocabulary.

    Attributes:
        mark: the mark.
        is_parallel: as in `Format`.
        headers: as in `Format`.
    """

    mark: str
    is_parallel = False
    headers: re.Pattern[bytes] | None = None

    @property
    def longest(self) -> int:
        return len(self.mark.encode())

    @property
    def forced(self) -> str:
        return self.mark

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        return self.mark in template or self.mark in tokens

    def opening(self, text: bytearray, since: int, begin: int | None) -> tuple[int, int] | None:  # noqa: ARG002 - see the protocol
        at = text.find(self.mark.encode(), since)
        return None if at < 0 else (at, at + self.longest)


def check_names(tools: Sequence[ClosedSchema], allowed: str, *, of_arguments: bool = False) -> None:
    """Checks that a format without quotes can write the names of the tools.

    Args:
        tools: the tools.
        allowed: the pattern of names.
        of_arguments: whether to check the names of their arguments too.

    Raises:
        InputError: it cannot write one of them.
    """
    for tool in tools:
        for name in (tool.name, *(tool.schema["properties"] if of_arguments else ())):
            if not re.fullmatch(allowed, name):
                raise InputError(
                    f"the tool format cannot write the name {name!r} of {tool.name!r}; expected one that matches "
                    f"{allowed}"
                )


# --- arguments in tags

_BY_ARGUMENTS = frozenset(
    {"type", "properties", "required", "additionalProperties", "title", "description", "default", "examples"}
    | {"$defs", "definitions", "$schema", "$id"}
)  # keywords of a tool's schema that hold where its arguments are held to theirs


class TaggedFormat(MarkedFormat):
    """A base for formats with arguments in tags. Arguments come in the order of the schema.

    Attributes:
        names: a pattern of the names that can be written.
        head: a pattern of the beginning of a call, with the name as its group.
        argument_head: a pattern of the beginning of an argument, with its name as its group.
        value_end: the text before the closing mark of a value, the mark, and the grammar of the text after it.
        call_end: the mark at the end of a call.
        closing: the mark at the end of the block; empty if each call ends the block.
    """

    names: ClassVar[str]
    head: ClassVar[re.Pattern[bytes]]
    argument_head: ClassVar[re.Pattern[bytes]]
    value_end: ClassVar[tuple[str, str, str]]
    call_end: ClassVar[str]
    closing: ClassVar[str] = ""

    def block_rule(self, literal: LiteralWriter) -> str:
        """The grammar of a block, from the rule `call`."""
        raise NotImplementedError

    def head_rule(self, name: str, literal: LiteralWriter) -> str:
        """The grammar of the beginning of a call."""
        raise NotImplementedError

    def argument_rule(self, name: str, literal: LiteralWriter) -> str:
        """The grammar of the beginning of an argument, given the grammar of its name."""
        raise NotImplementedError

    def end_rule(self, literal: LiteralWriter) -> str:
        """The grammar of the end of a call."""
        raise NotImplementedError

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:  # noqa: ARG002 - see the protocol
        check_names(tools, self.names, of_arguments=True)
        lines = [
            f"block: {self.block_rule(literal)}",
            f"call: {' | '.join(f'call_{at}' for at in range(len(tools)))}",
        ]
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
            yield f"{rule}_x: {self.argument_rule(f'{rule}_k'.upper(), literal)} {rule}_xv"
            known = "|".join(map(re.escape, arguments))
            yield f"{rule}_k: ".upper() + f"/{self.names}/" + (f" & ~/{known}/" if known else "")
            yield from value_rules(f"{rule}_xv", others, self.value_end, literal)
        yield f"{rule}: {self.head_rule(tool.name, literal)} {' '.join(parts)} {self.end_rule(literal)}"
        for at, (name, schema) in enumerate(arguments.items()):
            yield f"{rule}_{at}: {self.argument_rule(quoted(name), literal)} {rule}_{at}v"
            yield from value_rules(f"{rule}_{at}v", schema, self.value_end, literal)

    def reader(self, tools: Sequence[ClosedSchema]) -> TaggedReader:
        return TaggedReader(self, {tool.name: tool for tool in tools})


class TaggedReader:
    """Parses a sequence of calls.

    Args:
        tags: the format.
        tools: the tools by name.
    """

    def __init__(self, tags: TaggedFormat, tools: Mapping[str, ClosedSchema]) -> None:
        self.is_closed = False
        self._tags, self._tools = tags, tools
        self._value_mark = "".join(tags.value_end[:2]).encode()
        self._at: int | None = None  # the start of the text that is not parsed yet
        self._tool: str | None = None  # None between calls
        self._key: str | None = None  # None between arguments
        self._last = 0
        self._args: Mapping[str, Any] = EMPTY

    def copy(self) -> TaggedReader:
        copied = TaggedReader.__new__(TaggedReader)
        copied.__dict__.update(self.__dict__)
        return copied

    def read(self, text: bytearray, start: int) -> list[PartialCall]:
        self._at = start if self._at is None else self._at
        found: list[PartialCall] = []
        while not self.is_closed and (step := self._next(text, self._at, start)) is not None:
            self._at = step[0]
            found += step[1]
        return found

    def _next(self, text: bytearray, at: int, start: int) -> tuple[int, list[PartialCall]] | None:
        """The next part that is complete: its end, and what it completes; None if there is none yet."""
        if self._tool is None:
            return self._head(text, at)
        if self._key is None:
            return self._argument(text, at, self._tool)
        return self._value(text, at, max(at, start - len(self._value_mark) + 1), self._tool, self._key)

    def _head(self, text: bytearray, at: int) -> tuple[int, list[PartialCall]] | None:
        if head := self._tags.head.match(text, at):
            self._tool, self._last, self._args = head[1].decode(errors="replace"), head.start(1), EMPTY
            return head.end(), [PartialCall(self._tool, EMPTY, self._last)]
        closing = self._tags.closing.encode()
        end = text.find(closing, at) if closing else -1
        self.is_closed = end >= 0
        return (end + len(closing), []) if self.is_closed else None

    def _argument(self, text: bytearray, at: int, tool: str) -> tuple[int, list[PartialCall]] | None:
        if head := self._tags.argument_head.match(text, at):
            self._key = head[1].decode(errors="replace")
            if self._key in self._args:
                raise MalformedCall(f"the argument {self._key!r} appears twice")
            return head.end(), []
        mark = self._tags.call_end.encode()
        end = text.find(mark, at)
        if end < 0:
            return None
        self._check(tool)
        self._tool, self.is_closed = None, not self._tags.closing
        return end + len(mark), [PartialCall(tool, self._args, self._last, is_complete=True)]

    def _value(self, text: bytearray, at: int, since: int, tool: str, key: str) -> tuple[int, list[PartialCall]] | None:
        end = text.find(self._value_mark, since)
        if end < 0:
            return None
        value = text[at:end]
        if self._tags.value_end[1].encode() in value:
            raise MalformedCall("a value contains the mark that ends it")
        self._args = {**self._args, key: self._schema(tool, key).parse(value)}
        self._key, self._last = None, at
        return end + len(self._value_mark), [PartialCall(tool, self._args, at)]

    def _schema(self, tool: str, key: str) -> BareSchema:
        found = self._tools.get(tool)
        if found is None:
            return BareSchema(True, {})  # noqa: FBT003 - a schema
        arguments = _arguments(found.schema_text)
        return arguments.get(key) or BareSchema(found.schema["additionalProperties"], found.schema)

    def _check(self, tool: str) -> None:
        """Checks a complete call where the schema of the tool says more than those of its arguments."""
        schema: Mapping[str, Any] = self._tools[tool].schema if tool in self._tools else {}
        is_held = schema.keys() <= _BY_ARGUMENTS and schema.get("properties", {}).keys() >= {
            *schema.get("required", ())
        }
        if not is_held and not conforms(schema, dict(self._args)):
            raise MalformedCall(f"the arguments of {tool!r} do not conform to its schema")


@lru_cache(maxsize=256)
def _arguments(schema_text: str) -> dict[str, BareSchema]:
    """The schemas of the declared arguments, given the schema of a tool as JSON."""
    schema = json.loads(schema_text)
    return {name: BareSchema(one, schema) for name, one in schema["properties"].items()}
