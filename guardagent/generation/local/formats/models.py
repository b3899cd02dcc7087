# ruff: noqa: ERA001, RUF001 - comments show calls; the marks of DeepSeek have a wide vertical line
"""The formats of models by name, as their chat templates write calls. To add one, add a row to `FORMATS`.

The comments show the call `refund(amount=5)`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from guardagent.errors import InputError, UnknownNameError
from guardagent.generation.local.formats import Format, LiteralWriter, PartialCall
from guardagent.generation.local.formats._tagged import TagSyntax
from guardagent.generation.local.formats.literals import PythonicReader, pythonic_grammar
from guardagent.generation.local.formats.objects import (
    EITHER_STYLE,
    STYLE,
    NamedReader,
    ObjectReader,
    json_calls,
    object_format,
)
from guardagent.generation.local.tool_schemas import ClosedSchema

_PYTHONIC_EXAMPLE = "[func_name1("  # in the templates for pythonic calls
_FENCE = "```json"  # around the arguments in DeepSeek V3


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
    fitting = {label: row for label, row in FORMATS.items() if row.fits(template, tokens)}
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


# --- Mistral, which has two forms


_MISTRAL_HEAD = re.compile(rb"(.*?)(?:\[CALL_ID\].*?)?\[ARGS\]", re.DOTALL)
_MISTRAL_ID = "/[a-zA-Z0-9]{9}/"
_mistral_list = json_calls(
    '" "? "[" call (", " call)* "]"',
    r'"{\"name\": $json, \"arguments\": "',
    rf'(", \"id\": \"" {_MISTRAL_ID} "\"")? "}}"',
)


def _mistral_grammar(tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:
    if "[ARGS]" not in tokens:
        return _mistral_list(tools, tokens, literal)
    of_id = f"(«[CALL_ID]» {_MISTRAL_ID})?" if "[CALL_ID]" in tokens else ""
    return json_calls("call", f"«$name» {of_id} «[ARGS]»", "")(tools, tokens, literal)


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
            self._reader = ObjectReader("arguments", b"]") if is_list else NamedReader(_MISTRAL_HEAD, start)
        return [] if self._reader is None else self._reader.read(text, start)


# --- the table


def _named_format(
    mark: str, block: str, head: str, tail: str, pattern: str, closing: str, style: Mapping[str, Any] = STYLE,
    *, names: str, **options: Any,
) -> Format:  # fmt: skip
    """A format of calls with a name before a JSON object.

    Args:
        mark: the mark that opens a block.
        block: the template of a block.
        head: the template of a call up to its arguments.
        tail: the template of the text after the arguments.
        pattern: a pattern of the text from the end of the last call to the arguments, with the name as its group.
        closing: the end mark of the block.
        style: the style of the JSON.
        names: a pattern of the names that can be written.
        options: those of `Format`.
    """
    grammar = json_calls(block, head, tail, style=style, names=names)
    compiled = re.compile(pattern.encode(), re.DOTALL)
    return Format(mark, grammar, lambda _: NamedReader(compiled, closing=closing.encode()), **options)


_CHANNELS = "analysis|commentary|final"  # of harmony
_DEEPSEEK = "<｜tool▁calls▁begin｜>"

FORMATS: Mapping[str, Format] = {
    # Cohere's Command R7B and Command A. The template asks for a list of the calls that can run in parallel.
    #     <|START_ACTION|>[
    #         {"tool_call_id": "0", "tool_name": "refund", "parameters": {"amount": 5}}
    #     ]<|END_ACTION|>
    "cohere": object_format(
        "<|START_ACTION|>",
        '"[" space? call ("," space? call)* space? "]" «<|END_ACTION|>»\n'
        "space: /[ \\n]{1,16}/\n"
        r'id: "\"tool_call_id\": \"" /[0-9]{1,6}/ "\", "',
        key="parameters",
        closing="<|END_ACTION|>",
        head=r'"{" id "\"tool_name\": $json, \"parameters\": "',
        name_key="tool_name",
        is_parallel=True,
    ),
    # DeepSeek V3 and R1.
    #     <|tool_calls_begin|><|tool_call_begin|>function<|tool_sep|>refund
    #     ```json
    #     {"amount": 5}
    #     ```<|tool_call_end|><|tool_calls_end|>
    "deepseek_v3": _named_format(
        _DEEPSEEK,
        r'call ("\n"? call)* "\n"? «<｜tool▁calls▁end｜>»',
        r'«<｜tool▁call▁begin｜>» "function" «<｜tool▁sep｜>» "$name\n```json\n"',
        r'"\n```" «<｜tool▁call▁end｜>»',
        r"(?:\n```<｜tool▁call▁end｜>)?\s*<｜tool▁call▁begin｜>function<｜tool▁sep｜>([^\n]*)\n```json\n",
        "<｜tool▁calls▁end｜>",
        names="[^\n<]+",
        is_parallel=True,
        detects=lambda template, _, is_marked: is_marked and (_FENCE in template or _DEEPSEEK not in template),
    ),
    # DeepSeek V3.1, with the marks of V3.
    #     <|tool_calls_begin|><|tool_call_begin|>refund<|tool_sep|>{"amount": 5}<|tool_call_end|><|tool_calls_end|>
    "deepseek_v31": _named_format(
        _DEEPSEEK,
        "call+ «<｜tool▁calls▁end｜>»",
        '«<｜tool▁call▁begin｜>» "$name" «<｜tool▁sep｜>»',
        "«<｜tool▁call▁end｜>»",
        "(?:<｜tool▁call▁end｜>)?<｜tool▁call▁begin｜>(.*?)<｜tool▁sep｜>",
        "<｜tool▁calls▁end｜>",
        names="[^<]+",
        is_parallel=True,
        detects=lambda template, _, is_marked: is_marked and _FENCE not in template,
    ),
    # GLM 4.5 and later, with each call in a block of its own. From GLM 4.7 on without the line breaks.
    #     <tool_call>refund
    #     <arg_key>amount</arg_key>
    #     <arg_value>5</arg_value>
    #     </tool_call>
    "glm": TagSyntax(
        names=r"[^<>\s]+",
        head=re.compile(rb"([^<\n]+)\n?(?=<arg_key>|</tool_call>)"),
        argument_head=re.compile(rb"\n?<arg_key>([^<]*)</arg_key>\n?<arg_value>"),
        value_end=("", "</arg_value>", r'"\n"?'),
        call_end="</tool_call>",
        closing="",
        block_rule="call",
        head_rule=r'"$name" "\n"?',
        argument_rule=r'«<arg_key>» $key «</arg_key>» "\n"? «<arg_value>»',
        end_rule="«</tool_call>»",
    ).format(
        "<tool_call>",
        detects=lambda template, tokens, _: "<arg_key>" in (template if "<tool_call>" in template else tokens),
    ),
    # IBM's Granite 3, with a list that ends the turn (Granite 4 uses that of Hermes). Phi 4 has the same mark, and
    # calls of another form.
    #     <|tool_call|>[{"name": "refund", "arguments": {"amount": 5}}]
    "granite": object_format(
        "<|tool_call|>",
        r'"\n"? "[" call (", " call)* "]"',
        closing="]",
        is_parallel=True,
        detects=lambda template, tokens, is_marked: (
            is_marked
            and not ("<tool_call>" in template or "<|/tool_call|>" in template)
            and "<|/tool_call|>" not in tokens
        ),
    ),
    # The harmony format of gpt-oss, as in OpenAI's description of it and in its chat template. The turn begins after
    # `<|start|>assistant`. A call ends the turn, so there is one call in a turn.
    #     <|channel|>commentary to=functions.refund <|constrain|>json<|message|>{"amount": 5}<|call|>
    #     <|start|>assistant to=functions.refund<|channel|>commentary json<|message|>{"amount": 5}<|call|>
    "harmony": _named_format(
        "<|channel|>commentary to=",
        'call\ntype: " "? «<|constrain|>» "json" | «<|channel|>» "commentary" " json"?',
        '"functions.$name" type? «<|message|>»',
        "(«<|call|>»)?",
        r"functions\.([\w.-]+)(?: ?<\|constrain\|>json|<\|channel\|>commentary(?: json)?)?<\|message\|>",
        "<|call|>",
        EITHER_STYLE,
        names=r"[a-zA-Z0-9_.-]+",
        detects=lambda template, tokens, _: (
            "<|constrain|>" in tokens or ("<|channel|>" in template and "to=functions." in template)
        ),
        first=re.compile(rb"\A( ?to=)"),
        later=re.compile(rf"(?:<\|start\|>assistant|<\|channel\|>(?:{_CHANNELS})?) ?to=".encode()),
        longest_opening="<|start|>assistant<|channel|>commentary<|message|>",
        headers=re.compile(
            rf"<\|start\|>(?:assistant)?|<\|channel\|>(?:{_CHANNELS})?(?:<\|message\|>)?|<\|(?:message|end|return|call)\|>".encode()
        ),
    ),
    # Hermes, Qwen 2.5 and 3, and many others, with each call in a block of its own. Other formats have the same mark.
    #     <tool_call>
    #     {"name": "refund", "arguments": {"amount": 5}}
    #     </tool_call>
    "hermes": object_format(
        "<tool_call>",
        r'"\n"? call "\n"? «</tool_call>»',
        closing="</tool_call>",
        detects=lambda template, tokens, is_marked: (
            is_marked and not any(mark in template or mark in tokens for mark in ("<function=", "<arg_key>"))
        ),
    ),
    # Kimi K2 (without the line break); the number counts the calls of the conversation.
    #     <|tool_calls_section_begin|><|tool_call_begin|>functions.refund:0<|tool_call_argument_begin|>{"amount": 5}
    #     <|tool_call_end|><|tool_calls_section_end|>
    "kimi_k2": _named_format(
        "<|tool_calls_section_begin|>",
        "call+ «<|tool_calls_section_end|>»\nNUMBER: /[0-9]{1,6}/",
        '«<|tool_call_begin|>» "functions.$name:" NUMBER «<|tool_call_argument_begin|>»',
        "«<|tool_call_end|>»",
        r"(?:<\|tool_call_end\|>)?<\|tool_call_begin\|>functions\.([^<:]*):\d+<\|tool_call_argument_begin\|>",
        "<|tool_calls_section_end|>",
        EITHER_STYLE,
        names="[^<:]+",
        is_parallel=True,
    ),
    # Llama 3: an object, or several separated by `; `, optionally after `<|python_tag|>`. A turn that begins with a
    # brace is treated as a call.
    #     {"name": "refund", "parameters": {"amount": 5}}
    "llama3": object_format(
        "<|python_tag|>",
        'call ("; " call)*',
        key="parameters",
        detects=lambda template, _, is_marked: is_marked and _PYTHONIC_EXAMPLE not in template,
        first=re.compile(rb"\s*()\{"),
        needs_mark=False,
    ),
    # MiniMax M2.
    #     <minimax:tool_call>
    #     <invoke name="refund">
    #     <parameter name="amount">5</parameter>
    #     </invoke>
    #     </minimax:tool_call>
    "minimax_m2": TagSyntax(
        names=r'[^<>\s"]+',
        head=re.compile(rb'\n?<invoke name="([^"\n]*)">'),
        argument_head=re.compile(rb'\n?<parameter name="([^"\n]*)">'),
        value_end=("", "</parameter>", r'"\n"'),
        call_end="</invoke>",
        closing="</minimax:tool_call>",
        block_rule=r'"\n" call+ «</minimax:tool_call>»',
        head_rule=r'"<invoke name=\"$name\">\n"',
        argument_rule=r'"<parameter name=\"" $key "\">"',
        end_rule=r'"</invoke>\n"',
    ).format("<minimax:tool_call>", is_parallel=True),
    # Mistral models: a list or, if the tokenizer has `[ARGS]`, calls with the name before the arguments.
    #     [TOOL_CALLS] [{"name": "refund", "arguments": {"amount": 5}}]
    #     [TOOL_CALLS]refund[ARGS]{"amount": 5}
    "mistral": Format("[TOOL_CALLS]", _mistral_grammar, lambda _: _MistralReader(), is_parallel=True),
    # The pythonic format of Llama 3.2 and Llama 4, as in the templates for them: calls in a list. A turn that begins
    # with a bracket is treated as calls, and so is a bracket after `<|python_start|>`, which other formats have too.
    # Values are literals of both Python and JSON, but for `True`, `False` and `None`.
    #     [refund(order="W1", amount=5), send_mail(text="hi")]
    "pythonic": Format(
        "<|python_start|>",
        pythonic_grammar,
        PythonicReader,
        is_parallel=True,
        detects=lambda template, _tokens, _: _PYTHONIC_EXAMPLE in template,
        first=re.compile(rb"\s*()\["),
        needs_mark=False,
    ),
    # Qwen3-Coder and Qwen3.5, with each call in a block of its own.
    #     <tool_call>
    #     <function=refund>
    #     <parameter=amount>
    #     5
    #     </parameter>
    #     </function>
    #     </tool_call>
    "qwen3_coder": TagSyntax(
        names=r"[^<>\s]+",
        head=re.compile(rb"\n?<function=([^>\n]*)>\n"),
        argument_head=re.compile(rb"\n?<parameter=([^>\n]*)>\n"),
        value_end=("\n", "</parameter>", r'"\n"'),
        call_end="</function>",
        closing="</tool_call>",
        block_rule=r'"\n" call «</tool_call>»',
        head_rule=r'"<function=$name>\n"',
        argument_rule=r'"<parameter=" $key ">\n"',
        end_rule=r'"</function>\n"',
    ).format(
        "<tool_call>",
        detects=lambda template, tokens, is_marked: (
            "<function=" in template and bool(re.search(r"(?:\n|\\n)</parameter>", template))  # also within a string
            if "<tool_call>" in template
            else is_marked and "<arg_key>" not in tokens
        ),
    ),
}
"""The formats by name, in the order in which users see the names."""
