# ruff: noqa: ARG002 - a format need not use all that the protocol gives it
# ruff: noqa: RUF001, RUF002 - the marks of DeepSeek have a wide vertical line
"""The formats of models by name, as their chat templates write calls. To add one, add an object to `FORMATS`.

The examples write the call `refund(amount=5)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from guardagent.errors import InputError, UnknownNameError
from guardagent.generation.local.formats import BlockReader, Format, LiteralWriter, PartialCall
from guardagent.generation.local.formats._tagged import MarkedFormat, TaggedFormat, check_names
from guardagent.generation.local.formats.literals import PythonicReader, pythonic_rules
from guardagent.generation.local.formats.objects import (
    EITHER_STYLE,
    STYLE,
    JsonScanner,
    ObjectReader,
    arguments,
    call_rules,
    object_rules,
    parse_value,
    quoted,
)
from guardagent.generation.local.tool_schemas import ClosedSchema
from guardagent.types import EMPTY

_PYTHONIC_EXAMPLE = "[func_name1("  # in the templates for pythonic calls


def format_names() -> tuple[str, ...]:
    """The names of the formats."""
    return tuple(FORMATS)


def find_format(name: str, template: str, tokens: Collection[str]) -> Format:
    """Finds a format by name; `auto` finds the only one that fits the chat template and the tokens.

    Raises:
        InputError: no format has that name, none fits, or several fit.
    """
    if name != "auto":
        if name not in FORMATS:
            raise UnknownNameError("tool format", name, [*FORMATS, "auto"])
        return FORMATS[name]
    fitting = {found: one for found, one in FORMATS.items() if one.fits(template, tokens)}
    if len(fitting) == 1:
        return next(iter(fitting.values()))
    if fitting:
        raise InputError(
            f"several formats of tool calls fit the tokenizer; expected 'tool_format' {_alternatives(fitting)}"
        )
    raise InputError(
        "the format of tool calls cannot be detected from the tokenizer; expected 'tool_format' "
        f"{_alternatives(FORMATS)}"
    )


def _alternatives(names: Iterable[str]) -> str:
    return " or ".join(map(repr, names))


# --- calls as JSON objects


class Hermes(MarkedFormat):
    """The format of Hermes, Qwen 2.5 and 3, and many others, with each call in a block of its own.

    <tool_call>
    {"name": "refund", "arguments": {"amount": 5}}
    </tool_call>
    """

    mark = "<tool_call>"
    closing = "</tool_call>"
    other_formats = ("<function=", "<arg_key>")  # with the same mark

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        if any(mark in template or mark in tokens for mark in self.other_formats):
            return False
        return super().fits(template, tokens)

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:
        return f'block: "\\n"? call "\\n"? {literal(self.closing)}\n{call_rules(tools, "arguments")}'

    def reader(self, tools: Sequence[ClosedSchema]) -> ObjectReader:
        return ObjectReader("arguments", self.closing.encode())


class Llama3(MarkedFormat):
    """The format of Llama 3: one object, or several separated by `; `, optionally after `<|python_tag|>`.

        {"name": "refund", "parameters": {"amount": 5}}

    A turn that begins with a brace is treated as a call.
    """

    mark = "<|python_tag|>"
    brace = re.compile(rb"\s*\{")

    @property
    def forced(self) -> str:
        return ""

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        return _PYTHONIC_EXAMPLE not in template and super().fits(template, tokens)

    def opening(self, text: bytearray, since: int, begin: int | None) -> tuple[int, int] | None:
        if begin is not None and (brace := self.brace.match(text, begin)):
            return brace.end() - 1, brace.end() - 1
        return super().opening(text, since, begin)

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:
        return f'block: call ("; " call)*\n{call_rules(tools, "parameters")}'

    def reader(self, tools: Sequence[ClosedSchema]) -> ObjectReader:
        return ObjectReader("parameters")


class Granite(MarkedFormat):
    """The format of IBM's Granite 3, a list that ends the turn (Granite 4 uses that of Hermes).

    <|tool_call|>[{"name": "refund", "arguments": {"amount": 5}}]
    """

    mark = "<|tool_call|>"
    is_parallel = True
    phi_4 = "<|/tool_call|>"  # of a model that has the same mark, and calls of another form

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        if "<tool_call>" in template or self.phi_4 in template or self.phi_4 in tokens:
            return False
        return super().fits(template, tokens)

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:
        return f'block: "\\n"? "[" call (", " call)* "]"\n{call_rules(tools, "arguments")}'

    def reader(self, tools: Sequence[ClosedSchema]) -> ObjectReader:
        return ObjectReader("arguments", b"]")


class Cohere(MarkedFormat):
    """The format of Cohere's Command R7B and Command A.

        <|START_ACTION|>[
            {"tool_call_id": "0", "tool_name": "refund", "parameters": {"amount": 5}}
        ]<|END_ACTION|>

    The template asks the model to list calls together if they can run in parallel.
    """

    mark = "<|START_ACTION|>"
    is_parallel = True
    closing = "<|END_ACTION|>"

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:
        rules = object_rules(tools, lambda name: '"{" id ' + quoted(f'"tool_name": {quoted(name)}, "parameters": '))
        number = '"\\"tool_call_id\\": \\"" /[0-9]{1,6}/ "\\", "'
        return (
            f'block: "[" space? call ("," space? call)* space? "]" {literal(self.closing)}\n'
            f"space: /[ \\n]{{1,16}}/\nid: {number}\n{rules}"
        )

    def reader(self, tools: Sequence[ClosedSchema]) -> ObjectReader:
        return ObjectReader("parameters", self.closing.encode(), "tool_name")


# --- calls with a name in front of a JSON object


class Mistral(MarkedFormat):
    """The format of Mistral models: a list or, if the tokenizer has `[ARGS]`, calls with the name before the arguments.

    [TOOL_CALLS] [{"name": "refund", "arguments": {"amount": 5}}]
    [TOOL_CALLS]refund[ARGS]{"amount": 5}
    """

    mark = "[TOOL_CALLS]"
    is_parallel = True
    head = re.compile(rb"(.*?)(?:\[CALL_ID\].*?)?\[ARGS\]", re.DOTALL)
    args, call_id, some_id = "[ARGS]", "[CALL_ID]", "/[a-zA-Z0-9]{9}/"

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:
        if self.args in tokens:
            of_id = f"({literal(self.call_id)} {self.some_id})?" if self.call_id in tokens else ""
            return f"block: call\n{named_rules(tools, lambda name: f'{literal(name)} {of_id} {literal(self.args)}')}"
        with_id = f'(", \\"id\\": \\"" {self.some_id} "\\"")?'
        return f'block: " "? "[" call (", " call)* "]"\n{call_rules(tools, "arguments", with_id)}'

    def reader(self, tools: Sequence[ClosedSchema]) -> BlockReader:
        return _MistralReader()


class _MistralReader:
    """Chooses the parser of a block by its first byte after spaces."""

    def __init__(self) -> None:
        self._reader: ObjectReader | NamedReader | None = None

    @property
    def is_closed(self) -> bool:
        return self._reader is not None and self._reader.is_closed

    def copy(self) -> _MistralReader:
        copied = _MistralReader()
        copied._reader = None if self._reader is None else self._reader.copy()
        return copied

    def read(self, text: bytearray, start: int) -> list[PartialCall]:
        while self._reader is None and start < len(text) and text[start] == ord(" "):
            start += 1
        if self._reader is None and start < len(text):
            is_list = text[start] == ord("[")
            self._reader = ObjectReader("arguments", b"]") if is_list else NamedReader(Mistral.head, start)
        return [] if self._reader is None else self._reader.read(text, start)


class DeepSeekV3(MarkedFormat):
    """The format of DeepSeek V3 and R1.

    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>refund
    ```json
    {"amount": 5}
    ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
    """

    mark, closing = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
    is_parallel = True
    begin, separator, end = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
    fence = "```json"
    head = re.compile(rf"(?:\n```{end})?\s*{begin}function{separator}([^\n]*)\n{fence}\n".encode())

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        return super().fits(template, tokens) and (self.fence in template or self.mark not in template)

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:
        check_names(tools, "[^\n<]+")
        begin = f'{literal(self.begin)} "function" {literal(self.separator)} '
        rules = named_rules(
            tools, lambda name: begin + quoted(f"{name}\n{self.fence}\n"), f'"\\n```" {literal(self.end)}'
        )
        return f'block: call ("\\n"? call)* "\\n"? {literal(self.closing)}\n{rules}'

    def reader(self, tools: Sequence[ClosedSchema]) -> NamedReader:
        return NamedReader(self.head, closing=self.closing.encode())


class DeepSeekV31(MarkedFormat):
    """The format of DeepSeek V3.1, with the marks of V3.

    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>refund<｜tool▁sep｜>{"amount": 5}<｜tool▁call▁end｜><｜tool▁calls▁end｜>
    """

    mark, closing = DeepSeekV3.mark, DeepSeekV3.closing
    is_parallel = True
    begin, separator, end = DeepSeekV3.begin, DeepSeekV3.separator, DeepSeekV3.end
    head = re.compile(rf"(?:{end})?{begin}(.*?){separator}".encode(), re.DOTALL)

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        return super().fits(template, tokens) and DeepSeekV3.fence not in template

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:
        check_names(tools, "[^<]+")
        begin, separator, end = map(literal, (self.begin, self.separator, self.end))
        rules = named_rules(tools, lambda name: f"{begin} {quoted(name)} {separator}", end)
        return f"block: call+ {literal(self.closing)}\n{rules}"

    def reader(self, tools: Sequence[ClosedSchema]) -> NamedReader:
        return NamedReader(self.head, closing=self.closing.encode())


class KimiK2(MarkedFormat):
    """The format of Kimi K2; the number counts the calls of the conversation.

        <|tool_calls_section_begin|><|tool_call_begin|>functions.refund:0<|tool_call_argument_begin|>{"amount": 5}
        <|tool_call_end|><|tool_calls_section_end|>

    (without the line break).
    """

    mark, closing = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
    is_parallel = True
    begin, argument, end = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
    head = re.compile(rf"(?:{re.escape(end)})?{re.escape(begin)}functions\.([^<:]*):\d+{re.escape(argument)}".encode())

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:
        check_names(tools, "[^<:]+")
        rules = named_rules(
            tools,
            lambda name: f"{literal(self.begin)} {quoted('functions.' + name + ':')} NUMBER {literal(self.argument)}",
            literal(self.end),
            EITHER_STYLE,
        )
        return f"block: call+ {literal(self.closing)}\nNUMBER: /[0-9]{{1,6}}/\n{rules}"

    def reader(self, tools: Sequence[ClosedSchema]) -> NamedReader:
        return NamedReader(self.head, closing=self.closing.encode())


class Harmony(MarkedFormat):
    """The harmony format of gpt-oss, as in OpenAI's description of it and in its chat template.

        <|channel|>commentary to=functions.refund <|constrain|>json<|message|>{"amount": 5}<|call|>
        <|start|>assistant to=functions.refund<|channel|>commentary json<|message|>{"amount": 5}<|call|>

    The turn begins after `<|start|>assistant`. A call ends the turn, so there is one call in a turn.
    """

    mark, closing = "<|channel|>commentary to=", "<|call|>"
    channel, constrain, message = "<|channel|>", "<|constrain|>", "<|message|>"
    channels = "analysis|commentary|final"
    longest = len("<|start|>assistant<|channel|>commentary<|message|>")  # the longest header; no opening is longer
    headers = re.compile(
        rf"<\|start\|>(?:assistant)?|<\|channel\|>(?:{channels})?(?:<\|message\|>)?|<\|(?:message|end|return|call)\|>".encode()
    )
    role_first = re.compile(rb" ?to=")  # at the beginning of the turn
    role = re.compile(rf"(?:<\|start\|>assistant|<\|channel\|>(?:{channels})?) ?to=".encode())
    head = re.compile(rb"functions\.([\w.-]+)(?: ?<\|constrain\|>json|<\|channel\|>commentary(?: json)?)?<\|message\|>")

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        return self.constrain in tokens or (self.channel in template and "to=functions." in template)

    def opening(self, text: bytearray, since: int, begin: int | None) -> tuple[int, int] | None:
        found = self.role_first.match(text) if begin == 0 else None
        found = found or self.role.search(text, since)
        return None if found is None else found.span()

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:
        check_names(tools, r"[a-zA-Z0-9_.-]+")
        rules = named_rules(
            tools,
            lambda name: f"{quoted('functions.' + name)} type? {literal(self.message)}",
            f"({literal(self.closing)})?",
            EITHER_STYLE,
        )
        kind = f'type: " "? {literal(self.constrain)} "json" | {literal(self.channel)} "commentary" " json"?'
        return f"block: call\n{kind}\n{rules}"

    def reader(self, tools: Sequence[ClosedSchema]) -> NamedReader:
        return NamedReader(self.head, closing=self.closing.encode())


def named_rules(
    tools: Sequence[ClosedSchema], head: Callable[[str], str], tail: str = "", style: Mapping[str, Any] = STYLE
) -> str:
    """The rule `call`: a head with the name of a tool, its arguments, and a tail.

    Args:
        tools: the tools.
        head: the grammar of the head of a call, given the name of the tool.
        tail: the grammar of the text after the arguments.
        style: the style of the JSON.
    """
    lines = [f"call: {' | '.join(f'call_{at}' for at in range(len(tools)))}"]
    for at, tool in enumerate(tools):
        lines += [f"call_{at}: {head(tool.name)} args_{at} {tail}", f"args_{at}: {arguments(tool, style)}"]
    return "\n".join(lines)


class NamedReader:
    """Parses a sequence of calls.

    Args:
        head: a pattern of the text from the end of the last call to the arguments, with the name as its group.
        start: the offset of the block.
        closing: the end mark of the block; empty if the first call ends it.
    """

    def __init__(self, head: re.Pattern[bytes], start: int | None = None, closing: bytes = b"") -> None:
        self.is_closed = False
        self._head, self._closing = head, closing
        self._between = start  # the start of the text between calls; None before the first byte
        self._object: JsonScanner | None = None  # None between calls
        self._tool, self._last = "", 0
        self._args: Mapping[str, Any] = EMPTY

    def copy(self) -> NamedReader:
        copied = NamedReader.__new__(NamedReader)
        copied.__dict__.update(self.__dict__)
        copied._object = None if self._object is None else self._object.copy()  # noqa: SLF001 - a copy of this
        return copied

    def read(self, text: bytearray, start: int) -> list[PartialCall]:
        found: list[PartialCall] = []
        while start < len(text) and not self.is_closed:
            start = self._find_call(text, start, found) if self._object is None else self._read_call(text, start, found)
        return found

    def _find_call(self, text: bytearray, start: int, found: list[PartialCall]) -> int:
        """Advances to the arguments of a call, or to the end of the block."""
        self._between = start if self._between is None else self._between
        head = self._head.match(text, self._between)
        if head is not None:
            self._tool, self._last, self._args = head[1].decode(errors="replace"), head.start(1), EMPTY
            self._object = JsonScanner(1)
            found.append(PartialCall(self._tool, EMPTY, self._last))
            return head.end()
        self.is_closed = bool(self._closing) and text.find(self._closing, self._between) >= 0
        return len(text)

    def _read_call(self, text: bytearray, start: int, found: list[PartialCall]) -> int:
        assert self._object is not None
        for member in self._object.read(text, start, len(text)):
            value = parse_value(text[member.start : member.end])
            if not member.path:
                found.append(PartialCall(self._tool, value, self._last, is_complete=True))
                self._object, self._between, self.is_closed = None, member.end, not self._closing
                return member.end
            self._args, self._last = {**self._args, member.path[0]: value}, member.start
            found.append(PartialCall(self._tool, self._args, self._last))
        return len(text)


# --- calls with keyword arguments, or with arguments in tags


class Pythonic(MarkedFormat):
    """The pythonic format of Llama 3.2 and Llama 4, as in the templates for them: calls in a list.

        [refund(order="W1", amount=5), send_mail(text="hi")]

    A turn that begins with a bracket is treated as calls, and so is a bracket after `<|python_start|>`. Values are
    literals of both Python and JSON, but for `True`, `False` and `None`.
    """

    mark = "<|python_start|>"
    is_parallel = True
    bracket = re.compile(rb"\s*\[")

    @property
    def forced(self) -> str:
        return ""

    def fits(self, template: str, tokens: Collection[str]) -> bool:  # its tokens are in other formats too
        return _PYTHONIC_EXAMPLE in template

    def opening(self, text: bytearray, since: int, begin: int | None) -> tuple[int, int] | None:
        if begin is not None and (bracket := self.bracket.match(text, begin)):
            return bracket.end() - 1, bracket.end() - 1
        return super().opening(text, since, begin)

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:
        check_names(tools, r"[A-Za-z_]\w*", of_arguments=True)
        return f'block: "[" call (", " call)* "]"\n{pythonic_rules(tools)}'

    def reader(self, tools: Sequence[ClosedSchema]) -> PythonicReader:
        return PythonicReader({tool.name: tool for tool in tools})


class Qwen3Coder(TaggedFormat):
    """The format of Qwen3-Coder and Qwen3.5, with each call in a block of its own.

    <tool_call>
    <function=refund>
    <parameter=amount>
    5
    </parameter>
    </function>
    </tool_call>
    """

    mark = "<tool_call>"
    names = r"[^<>\s]+"
    head = re.compile(rb"\n?<function=([^>\n]*)>\n")
    argument_head = re.compile(rb"\n?<parameter=([^>\n]*)>\n")
    value_end = ("\n", "</parameter>", '"\\n"')
    call_end = "</function>"
    closing = "</tool_call>"
    newline_before_end = ("\n</parameter>", "\\n</parameter>")  # in a template, or in a string within it

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        if self.mark in template:
            return "<function=" in template and any(end in template for end in self.newline_before_end)
        return self.mark in tokens and "<arg_key>" not in tokens

    def block_rule(self, literal: LiteralWriter) -> str:
        return f'"\\n" call {literal(self.closing)}'

    def head_rule(self, name: str, literal: LiteralWriter) -> str:
        return quoted(f"<function={name}>\n")

    def argument_rule(self, name: str, literal: LiteralWriter) -> str:
        return f'"<parameter=" {name} ">\\n"'

    def end_rule(self, literal: LiteralWriter) -> str:
        return '"</function>\\n"'


class Glm(TaggedFormat):
    """The format of GLM 4.5 and later, with each call in a block of its own.

        <tool_call>refund
        <arg_key>amount</arg_key>
        <arg_value>5</arg_value>
        </tool_call>

    From GLM 4.7 on without the line breaks.
    """

    mark = "<tool_call>"
    names = r"[^<>\s]+"
    head = re.compile(rb"([^<\n]+)\n?(?=<arg_key>|</tool_call>)")
    argument_head = re.compile(rb"\n?<arg_key>([^<]*)</arg_key>\n?<arg_value>")
    value_end = ("", "</arg_value>", '"\\n"?')
    call_end = "</tool_call>"
    key = "<arg_key>"
    line_break = ' "\\n"? '

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        return self.key in (template if self.mark in template else tokens)

    def block_rule(self, literal: LiteralWriter) -> str:
        return "call"

    def head_rule(self, name: str, literal: LiteralWriter) -> str:
        return quoted(name) + self.line_break

    def argument_rule(self, name: str, literal: LiteralWriter) -> str:
        return f"{literal(self.key)} {name} {literal('</arg_key>')}{self.line_break}{literal('<arg_value>')}"

    def end_rule(self, literal: LiteralWriter) -> str:
        return literal(self.call_end)


class MinimaxM2(TaggedFormat):
    """The format of MiniMax M2.

    <minimax:tool_call>
    <invoke name="refund">
    <parameter name="amount">5</parameter>
    </invoke>
    </minimax:tool_call>
    """

    mark = "<minimax:tool_call>"
    is_parallel = True
    names = r'[^<>\s"]+'
    head = re.compile(rb'\n?<invoke name="([^"\n]*)">')
    argument_head = re.compile(rb'\n?<parameter name="([^"\n]*)">')
    value_end = ("", "</parameter>", '"\\n"')
    call_end = "</invoke>"
    closing = "</minimax:tool_call>"

    def block_rule(self, literal: LiteralWriter) -> str:
        return f'"\\n" call+ {literal(self.closing)}'

    def head_rule(self, name: str, literal: LiteralWriter) -> str:
        return quoted(f'<invoke name="{name}">\n')

    def argument_rule(self, name: str, literal: LiteralWriter) -> str:
        return f'"<parameter name=\\"" {name} "\\">"'

    def end_rule(self, literal: LiteralWriter) -> str:
        return '"</invoke>\\n"'


FORMATS: Mapping[str, Format] = {
    "cohere": Cohere(),
    "deepseek_v3": DeepSeekV3(),
    "deepseek_v31": DeepSeekV31(),
    "glm": Glm(),
    "granite": Granite(),
    "harmony": Harmony(),
    "hermes": Hermes(),
    "kimi_k2": KimiK2(),
    "llama3": Llama3(),
    "minimax_m2": MinimaxM2(),
    "mistral": Mistral(),
    "pythonic": Pythonic(),
    "qwen3_coder": Qwen3Coder(),
}
"""The formats by name, in the order in which users see the names."""
