"""Values of calls that are not written as JSON, and the grammars and parsers of them.

- Literals of both Python and JSON, but for `True`, `False` and `None`: the values of keyword arguments.
- Values without quotes, typed by the schema of their argument. A string is written as it is, every other value as JSON.
  Where the schema allows both, text that is JSON of an allowed type other than a string is that value.
"""

from __future__ import annotations

import abc
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Self

from guardagent._support import json_values
from guardagent.errors import InputError
from guardagent.generation.local.formats import LiteralWriter, PartialCall
from guardagent.generation.local.formats.objects import (
    MalformedCall,
    call_rule,
    check_names,
    copied,
    json_grammar,
    parse_value,
    quoted,
)
from guardagent.generation.local.tool_schemas import ClosedSchema
from guardagent.types import EMPTY

_ALL_TYPES = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})
_PYTHON_WORDS = {"True": True, "False": False, "None": None}
_LITERALS = ("enum", "const")
_DEFINITIONS = ("$defs", "definitions")
_NOTES = frozenset({"type", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
_IN_GRAMMAR = _NOTES | {"enum", "const", "minLength", "maxLength"}
_SPECIAL = frozenset("/.^$*+?()[]{}|\\")  # in patterns of grammars; others must not be escaped
_LONGEST_COUNT = 1000  # the greatest length in characters that a grammar counts
_SCALARS = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
_OTHER_NAME = r"/[A-Za-z_]\w*/"
_CALL_HEAD = re.compile(rb"[\[,\s]*([A-Za-z_]\w*)\(")
_ARGUMENT_HEAD = re.compile(rb"[,\s]*([A-Za-z_]\w*)=")
_WORD = re.compile(rb'"(?:[^"\\]|\\.)*"|' + "|".join(_PYTHON_WORDS).encode(), re.DOTALL)


# --- literals of Python


def pythonic_grammar(tools: Sequence[ClosedSchema], _: Collection[str], __: LiteralWriter) -> str:
    """The rule `block` of a list of calls.

    Raises:
        InputError: a name is not a Python identifier, or the grammar library does not support one of the schemas.
    """
    check_names(tools, r"[A-Za-z_]\w*", of_arguments=True)
    lines = ['block: "[" call (", " call)* "]"', call_rule(tools)]
    for at, tool in enumerate(tools):
        check_schema(tool)
        rules = _LiteralRules(f"call_{at}", tool.schema)
        members = rules.members(tool.schema, lambda name: f'{quoted(name)} "="', f'{_OTHER_NAME} "="')
        lines += [f'call_{at}: {quoted(tool.name)} "(" {members} ")"', *rules.lines]
    return "\n".join(lines)


class _LiteralRules:
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
                self.lines.append(f"{rule}: {self.literal(_referenced(reference, self._root))}")
            return self._by_reference[reference]
        rule = self._named()
        self.lines.append(f"{rule}: {' | '.join(self._alternatives(schema))}")
        return rule

    def _alternatives(self, schema: Mapping[str, Any]) -> list[str]:
        if "const" in schema or "enum" in schema:
            return [quoted(_written(value)) for value in schema.get("enum", [schema.get("const")])]
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list):
                return [self.literal(alternative) for alternative in schema[key]]
        types = _own_types(schema)
        if types == _ALL_TYPES and "any" not in self._by_reference:
            self._by_reference["any"] = rule = self._named()
            self.lines.append(f"{rule}: {' | '.join(self._typed(type_, {}) for type_ in sorted(types))}")
        if types == _ALL_TYPES:
            return [self._by_reference["any"]]
        return [self._typed(type_, schema) for type_ in sorted(types)]

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
        for at, (name, property_schema) in enumerate(properties.items()):
            member = f"{key(name)} {self.literal(property_schema)} {later[at + 1]}"
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
        return "{" + ", ".join(f"{_written(key)}: {_written(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    if value is None or isinstance(value, bool):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)


class ArgumentReader(abc.ABC):
    """Parses a sequence of calls whose arguments are written one by one.

    Args:
        tools: the tools.
        head: a pattern of the beginning of a call, with the name as its group.
        argument_head: a pattern of the beginning of an argument, with its name as its group.
    """

    def __init__(
        self, tools: Sequence[ClosedSchema], head: re.Pattern[bytes], argument_head: re.Pattern[bytes]
    ) -> None:
        self.is_closed = False
        self._tools = {tool.name: tool for tool in tools}
        self._head, self._argument_head = head, argument_head
        self._at: int | None = None  # the start of the text that is not parsed yet
        self._tool: str | None = None  # None between calls
        self._key: str | None = None  # None between arguments
        self._last = 0
        self._args: Mapping[str, Any] = EMPTY

    @abc.abstractmethod
    def _block_end(self, text: bytearray, at: int) -> int:
        """Returns the end of the block, if it is here; else -1."""

    @abc.abstractmethod
    def _call_end(self, text: bytearray, at: int, tool: str) -> int:
        """Returns the end of a call, if it is here; else -1.

        Raises:
            MalformedCall: the arguments do not conform to the schema.
        """

    @abc.abstractmethod
    def _value(self, text: bytearray, at: int, start: int, tool: str, key: str) -> tuple[Any, int] | None:
        """Returns a value and its end; None if it is not complete. The text before `start` was seen before."""

    def copy(self) -> Self:
        return copied(self)

    def read(self, text: bytearray, start: int) -> list[PartialCall]:
        self._at = start if self._at is None else self._at
        calls: list[PartialCall] = []
        while not self.is_closed and (end := self._next(text, self._at, start, calls)) >= 0:
            self._at = end
        return calls

    def _next(self, text: bytearray, at: int, start: int, calls: list[PartialCall]) -> int:
        """Parses the next part, and adds what it completes; returns its end, or -1 if it is not complete."""
        if self._tool is None:
            return self._next_head(text, at, calls)
        if self._key is None:
            return self._next_argument(text, at, self._tool, calls)
        value = self._value(text, at, start, self._tool, self._key)
        if value is None:
            return -1
        self._args = {**self._args, self._key: value[0]}
        self._key, self._last = None, at
        calls.append(PartialCall(self._tool, self._args, at))
        return value[1]

    def _next_head(self, text: bytearray, at: int, calls: list[PartialCall]) -> int:
        if head := self._head.match(text, at):
            self._tool, self._last, self._args = head[1].decode(errors="replace"), head.start(1), EMPTY
            calls.append(PartialCall(self._tool, EMPTY, self._last))
            return head.end()
        end = self._block_end(text, at)
        self.is_closed = end >= 0
        return end

    def _next_argument(self, text: bytearray, at: int, tool: str, calls: list[PartialCall]) -> int:
        if head := self._argument_head.match(text, at):
            self._key = head[1].decode(errors="replace")
            if self._key in self._args:
                raise MalformedCall(f"the argument {self._key!r} appears twice")
            return head.end()
        end = self._call_end(text, at, tool)
        if end >= 0:
            self._tool = None
            calls.append(PartialCall(tool, self._args, self._last, is_complete=True))
        return end


class PythonicReader(ArgumentReader):
    """Parses a list of calls.

    Args:
        tools: the tools.
    """

    def __init__(self, tools: Sequence[ClosedSchema]) -> None:
        super().__init__(tools, _CALL_HEAD, _ARGUMENT_HEAD)
        self._seen = self._depth = 0  # in a value: its scanned end, and the open brackets in it
        self._in_string = self._is_escaped = False

    def _block_end(self, text: bytearray, at: int) -> int:
        return at + 1 if text.startswith(b"]", at) else -1

    def _call_end(self, text: bytearray, at: int, tool: str) -> int:
        if not text.startswith(b")", at):
            return -1
        if tool in self._tools and not conforms(self._tools[tool].schema, dict(self._args)):
            raise MalformedCall(f"the arguments of {tool!r} do not conform to its schema")
        return at + 1

    def _value(self, text: bytearray, at: int, *_: object) -> tuple[Any, int] | None:
        self._seen = max(self._seen, at)
        while self._seen < len(text) and not self._ends(text[self._seen]):
            self._seen += 1
        return None if self._seen >= len(text) else (_parsed(text[at : self._seen]), self._seen)

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
    words = {word.encode(): json.dumps(value).encode() for word, value in _PYTHON_WORDS.items()}
    return parse_value(_WORD.sub(lambda match: words.get(match[0], match[0]), text))


# --- values without quotes


class BareSchema:
    """The schema of an argument.

    Args:
        schema: the schema; True allows everything.
        root: the schema of the tool, for references.
    """

    def __init__(self, schema: Any, root: Mapping[str, Any]) -> None:
        own = schema if isinstance(schema, Mapping) else {}
        self.schema = {**own, **{key: root[key] for key in _DEFINITIONS if key in root}}
        self.types = _types(own, root, 8)
        self._is_simple = own.keys() <= _NOTES
        self._needs_check = not own.keys() <= _IN_GRAMMAR

    @property
    def is_string(self) -> bool:
        """Whether every value is a string."""
        return self.types == {"string"}

    @property
    def may_be_string(self) -> bool:
        return "string" in self.types

    def words(self) -> dict[str, Any]:
        """The Python words that stand for values."""
        if not self._is_simple or self.may_be_string:
            return {}
        kinds = {True: "boolean", False: "boolean", None: "null"}
        return {word: value for word, value in _PYTHON_WORDS.items() if kinds[value] in self.types}

    def parse(self, text: bytes | bytearray) -> Any:
        """Parses a value.

        Raises:
            MalformedCall: it does not conform to the schema.
        """
        if not self.may_be_string:
            word = text.decode(errors="replace")
            words = self.words()
            return words[word] if word in words else parse_value(text)
        try:
            string = text.decode()
        except UnicodeDecodeError:
            raise MalformedCall("a string is not UTF-8") from None
        value = string if self.is_string else self._either(string)
        if (self._needs_check or not isinstance(value, str)) and not conforms(self.schema, value):
            raise MalformedCall("an argument does not conform to its schema")
        return value

    def _either(self, string: str) -> Any:
        try:
            value = json_values.loads(string)
        except ValueError:
            return string
        return string if isinstance(value, str) or not conforms(self.schema, value) else value

    def strings(self) -> list[str] | None:
        """The only strings that the schema allows; None if it does not list them."""
        if not self.is_string:
            return None
        if "const" in self.schema:
            return [self.schema["const"]]
        return [choice for choice in self.schema["enum"] if isinstance(choice, str)] if "enum" in self.schema else None

    def length(self) -> str:
        """The repetition of characters in the grammar."""
        if not self.is_string:
            return "*"
        least, most = self.schema.get("minLength", 0), self.schema.get("maxLength")
        if most is None or most > _LONGEST_COUNT:
            return f"{{{least},}}" if 0 < least <= _LONGEST_COUNT else "*"
        return f"{{{least},{most}}}"


def value_rules(name: str, schema: BareSchema, end: tuple[str, str, str], literal: LiteralWriter) -> Iterator[str]:
    """The rule of a value with its end.

    Args:
        name: the name of the rule.
        schema: the schema of the value.
        end: the text before the closing mark, the mark, and the text after it. Values cannot contain the mark.
        literal: writes the mark.

    Raises:
        InputError: all strings that the schema allows contain the mark.
    """
    before, mark, after = end
    closing = " ".join([*([quoted(before)] if before else []), literal(mark), after])
    if not schema.may_be_string:
        words = "".join(f" | {quoted(word)}" for word in schema.words())
        yield f"{name}: ({name}_json{words}) {closing}"
        yield f"{name}_json: {json_grammar(schema.schema)}"
    elif (strings := schema.strings()) is not None:
        listed = [quoted(string) for string in strings if mark not in string]
        if not listed:
            raise InputError(f"the tool format cannot write any of the values {strings!r}, which contain {mark!r}")
        yield f"{name}: ({' | '.join(listed)}) {closing}"
    else:
        yield from _text_rules(name, schema.length(), end, literal)


def _text_rules(name: str, length: str, end: tuple[str, str, str], literal: LiteralWriter) -> Iterator[str]:
    before, mark, after = end
    terminal = name.upper()
    text = f"(/(?s:.{length})/ & ~/(?s:.*){_escaped(mark)}(?s:.*)/)"
    special = literal(mark).partition(" | ")[2].removesuffix(")")  # see `LiteralWriter`: the mark as a special token
    yield f"{name}: {terminal} {after}" + (f" | {terminal}_S {special} {after}" if special else "")
    yield f"{terminal}: {text} {quoted(before + mark)}"
    if special:
        yield f"{terminal}_S: {text}{' ' + quoted(before) if before else ''}"


def _escaped(text: str) -> str:
    return "".join(f"\\{character}" if character in _SPECIAL else character for character in text)


# --- schemas


def _types(schema: Any, root: Mapping[str, Any], depth: int) -> frozenset[str]:
    """The types of JSON that a schema may allow."""
    if not isinstance(schema, Mapping) or not depth:
        return _ALL_TYPES
    types = _own_types(schema)
    if isinstance(reference := schema.get("$ref"), str):
        types &= _types(_referenced(reference, root), root, depth - 1)
    for key in ("anyOf", "oneOf"):
        if isinstance(members := schema.get(key), list):
            types &= frozenset().union(*(_types(member, root, depth - 1) for member in members))
    for subschema in schema.get("allOf") or ():
        types &= _types(subschema, root, depth - 1)
    return types


def _own_types(schema: Mapping[str, Any]) -> frozenset[str]:
    named = schema.get("type")
    types = _ALL_TYPES if named is None else frozenset([named] if isinstance(named, str) else named)
    if "number" in types:
        types |= {"integer"}
    for key in _LITERALS:
        if key in schema:
            types &= frozenset().union(*map(_types_of, schema[key] if key == "enum" else [schema[key]]))
    return types


def _types_of(value: Any) -> frozenset[str]:
    match value:
        case bool():
            return frozenset({"boolean"})
        case None:
            return frozenset({"null"})
        case str():
            return frozenset({"string"})
        case int() | float():
            return frozenset({"number", "integer"})
        case list():
            return frozenset({"array"})
    return frozenset({"object"})


def _referenced(reference: str, root: Mapping[str, Any]) -> Any:
    """The schema at a local reference; None if there is none."""
    node: Any = root
    for step in reference.removeprefix("#/").split("/"):
        node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, Mapping) else None
    return node


def check_schema(tool: ClosedSchema) -> None:
    """Checks that `conforms` supports the schema of a tool.

    Raises:
        InputError: the grammar library does not support it.
    """
    from llguidance import LLMatcher

    if problem := LLMatcher.validate_grammar(f"start: {json_grammar(tool.schema)}"):
        raise InputError(f"no grammar can be built from the schema of {tool.name!r}: {problem}")


def conforms(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether a value conforms to a schema, as far as grammars do."""
    matcher = _matcher(json.dumps(schema)).deep_copy()
    text = json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")
    return bool(matcher.try_consume_tokens(list(text)) == len(text) and matcher.is_accepting())


@lru_cache(maxsize=256)
def _matcher(schema: str) -> Any:
    from llguidance import LLMatcher, LLTokenizer

    return LLMatcher(LLTokenizer("byte"), f"start: {json_grammar(json.loads(schema))}", log_level=0)
