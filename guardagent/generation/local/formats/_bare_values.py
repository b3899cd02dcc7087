"""Values without quotes, typed by the schema of their argument.

A string is written as it is, every other value as JSON. Where the schema allows both, text that is JSON of an allowed
type other than a string is that value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from guardagent._support import strict_json
from guardagent.errors import InputError
from guardagent.generation.local.formats import LiteralWriter
from guardagent.generation.local.formats._objects import json_grammar, quoted
from guardagent.generation.local.formats.objects import MalformedCall, parse_value
from guardagent.generation.local.tool_schemas import ClosedSchema

ALL_TYPES = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})
PYTHON_WORDS = {"True": True, "False": False, "None": None}
_LITERALS = ("enum", "const")
_DEFINITIONS = ("$defs", "definitions")
_NOTES = frozenset({"type", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
_IN_GRAMMAR = _NOTES | {"enum", "const", "minLength", "maxLength"}
_SPECIAL = frozenset("/.^$*+?()[]{}|\\")  # in patterns of grammars; others must not be escaped
_LONGEST_COUNT = 1000  # the greatest length in characters that a grammar counts


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
        return {word: value for word, value in PYTHON_WORDS.items() if kinds[value] in self.types}

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
        found = string if self.is_string else self._either(string)
        if (self._needs_check or not isinstance(found, str)) and not conforms(self.schema, found):
            raise MalformedCall("an argument does not conform to its schema")
        return found

    def _either(self, string: str) -> Any:
        try:
            value = strict_json.loads(string)
        except ValueError:
            return string
        return string if isinstance(value, str) or not conforms(self.schema, value) else value

    def strings(self) -> list[str] | None:
        """The only strings that the schema allows; None if it does not list them."""
        if not self.is_string:
            return None
        if "const" in self.schema:
            return [self.schema["const"]]
        return [one for one in self.schema["enum"] if isinstance(one, str)] if "enum" in self.schema else None

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
        listed = [quoted(one) for one in strings if mark not in one]
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
    return "".join(f"\\{one}" if one in _SPECIAL else one for one in text)


def _types(schema: Any, root: Mapping[str, Any], depth: int) -> frozenset[str]:
    """The types of JSON that a schema may allow."""
    if not isinstance(schema, Mapping) or not depth:
        return ALL_TYPES
    found = own_types(schema)
    if isinstance(reference := schema.get("$ref"), str):
        found &= _types(referenced(reference, root), root, depth - 1)
    for key in ("anyOf", "oneOf"):
        if isinstance(members := schema.get(key), list):
            found &= frozenset().union(*(_types(one, root, depth - 1) for one in members))
    for one in schema.get("allOf") or ():
        found &= _types(one, root, depth - 1)
    return found


def own_types(schema: Mapping[str, Any]) -> frozenset[str]:
    named = schema.get("type")
    found = ALL_TYPES if named is None else frozenset([named] if isinstance(named, str) else named)
    if "number" in found:
        found |= {"integer"}
    for key in _LITERALS:
        if key in schema:
            found &= frozenset().union(*map(_types_of, schema[key] if key == "enum" else [schema[key]]))
    return found


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


def referenced(reference: str, root: Mapping[str, Any]) -> Any:
    """The schema at a local reference; None if there is none."""
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found


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
