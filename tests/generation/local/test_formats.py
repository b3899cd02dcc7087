# ruff: noqa: RUF001 - the marks of DeepSeek have a wide vertical line
"""Calls are recognized in each format, for every tokenization of the text."""

import json
from typing import Any

import pytest

pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st

from guardagent import InputError
from guardagent.generation.local.formats import Format
from guardagent.generation.local.formats.models import find_format, format_names
from guardagent.generation.local.formats.objects import JsonScanner, MalformedCall, parse_value
from guardagent.generation.local.tool_schemas import read_tools
from guardagent.generation.local.turn import InvalidToken, TurnBuffer
from guardagent.generation.local.vocabulary import vocabulary_of
from tests.docs.test_docs import ROOT
from tests.generation.local import tiny

pytestmark = pytest.mark.slow
TOOLS = [tiny.tool("pay", ["to"], to={"type": "string"}, parts={"type": "array"}, sum={"type": "number"})]
ARGS = {"to": 'a "b", {c}: [d]\\ é', "parts": [1, {"x": ["}", None]}, []], "sum": -1.5e3}
PAY, REST = tiny.written("pay", ARGS), tiny.written("pay", {"to": "e"})
BLOCKS = {
    "hermes": f"so: <tool_call>\n{PAY}\n</tool_call> and <tool_call>\n{REST}\n</tool_call>!",
    "llama3": f"{PAY}; {REST}".replace("arguments", "parameters"),
    "mistral": f"[TOOL_CALLS] [{PAY}, {REST}]",
}


def bytes_read(form: Format, text: bytes, sizes: list[int]) -> list[tuple[str, dict[str, Any], bool]]:
    """The calls that a format finds in a text that arrives in pieces."""
    calls, so_far, reader, free = [], bytearray(), None, 0
    pieces = iter([*sizes, *[1] * len(text)])
    while len(so_far) < len(text):
        start = len(so_far)
        so_far += text[start : start + next(pieces)]
        while start < len(so_far):
            if reader is None:
                opening = form.opening(so_far, free, 0 if not free else None)
                if opening is None:
                    break
                reader, start = form.reader(list(read_tools(TOOLS).values())), opening[1]
                continue
            calls += reader.read(so_far, start)
            start, reader, free = len(so_far), None if reader.is_closed else reader.copy(), len(so_far)
    return [(call.tool, dict(call.args), call.is_complete) for call in calls]


@given(form=st.sampled_from(sorted(BLOCKS)), sizes=st.lists(st.integers(1, 6)))
def test_the_result_does_not_depend_on_the_pieces(form: str, sizes: list[int]) -> None:
    """Names, arguments and calls, in the order in which they are complete."""
    expected = []
    for args in (ARGS, {"to": "e"}):
        so_far = [dict(list(args.items())[:count]) for count in range(len(args) + 1)]
        expected += [("pay", piece, False) for piece in so_far] + [("pay", args, True)]
    assert bytes_read(find_format(form, "", []), BLOCKS[form].encode(), sizes) == expected


VOCABULARIES = {
    "hermes": {"added": ["<tool_call>", "</tool_call>"]},
    "hermes, marks in pieces": {},
    "llama3": {"special": ["<|python_tag|>"]},
    "mistral": {"special": ["[TOOL_CALLS]"]},
    "mistral, names before": {"special": ["[TOOL_CALLS]", "[ARGS]"]},
    "mistral, names and ids": {"special": ["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"]},
}
TURNS = {
    "hermes": f"<tool_call>\n{PAY}\n</tool_call>",
    "llama3": f"{PAY}; {REST}".replace("arguments", "parameters"),
    "llama3, tagged": f"<|python_tag|>{PAY}".replace("arguments", "parameters"),
    "mistral": f"[TOOL_CALLS] [{PAY}, {REST}]",
    "mistral, names before": '[TOOL_CALLS]pay[ARGS]{"to": "e"}[TOOL_CALLS]pay[ARGS]{"to": "e"}',
    "mistral, names and ids": '[TOOL_CALLS]pay[CALL_ID]abcdefgh1[ARGS]{"to": "e"}',
}
GRAMMARS = [
    ("hermes", "hermes"), ("hermes, marks in pieces", "hermes"), ("llama3", "llama3"), ("llama3", "llama3, tagged"),
    ("mistral", "mistral"), ("mistral, names before", "mistral, names before"),
    ("mistral, names and ids", "mistral, names and ids"),
]  # fmt: skip


def opened(kind: str, choice: Any = "auto") -> tuple[TurnBuffer, Any]:
    of = tiny.tokenizer([PAY, REST], **VOCABULARIES[kind])  # type: ignore[arg-type]
    vocabulary = vocabulary_of(of, [of.eos_token_id])
    form = vocabulary.format(kind.split(",", maxsplit=1)[0])
    return TurnBuffer(vocabulary, form, list(read_tools(TOOLS).values()), choice), of


def is_allowed(turn: TurnBuffer, token: int) -> bool:
    bits = turn.allowed()
    return bits is None or bool(bits[token // 8] >> token % 8 & 1)


@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize(("kind", "text"), GRAMMARS)
def test_the_grammar_lets_calls_through(kind: str, text: str, choice: str) -> None:
    """Every token of a turn as the format writes it; its calls are found."""
    if choice == "required" and "tagged" in text:
        pytest.skip("a tag is not what a turn is made to begin with")
    turn, of = opened(kind, choice)
    calls = []
    for token in of(TURNS[text])["input_ids"]:
        assert is_allowed(turn, token), of.decode(turn.tokens)
        calls += [dict(call.args) for call in turn.push(token) if call.is_complete]
    assert calls
    assert all(args in (ARGS, {"to": "e"}) for args in calls)
    assert turn.free_text() == ""


@pytest.mark.parametrize(
    "wrong",
    [
        '{"name": "steal"',
        '{"arguments"',
        '{"name": "pay", "arguments": {"to": 5',
        '{"name": "pay", "arguments": {"x"',
        "x",
    ],
)
def test_the_grammar_lets_nothing_else_through(wrong: str) -> None:
    """No other tool, argument or type, and no other order."""
    turn, of = opened("hermes")
    for token in of(f"<tool_call>\n{wrong}")["input_ids"]:
        if not is_allowed(turn, token):
            return
        turn.push(token)
    pytest.fail(f"{wrong} was let through")


def test_an_opening_within_a_token_is_held_to_the_grammar_too() -> None:
    """A token that opens a block and goes on in it fits where a call can begin so, and nowhere else."""
    of = tiny.tokenizer(['x<tool_call>\n{"name"', "x<tool_call>no"], words=False)
    vocabulary = vocabulary_of(of, [of.eos_token_id])
    turn = TurnBuffer(vocabulary, vocabulary.format("hermes"), list(read_tools(TOOLS).values()))
    right, wrong = (of(text)["input_ids"] for text in ('x<tool_call>\n{"name"', "x<tool_call>no"))
    assert len(right) == len(wrong) == 1
    with pytest.raises(InvalidToken):
        turn.push(wrong[0])
    assert turn.push(right[0]) == []
    assert turn.free_text() == "x"
    for token in of(': "pay", "arguments": {"to')["input_ids"]:
        assert is_allowed(turn, token)
        turn.push(token)
    turn.cut(1)
    assert turn.block is not None
    turn.cut(0)
    assert turn.block is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(value=st.dictionaries(st.text(), JSON, max_size=4), ascii_only=st.booleans())
def test_members_are_found_where_they_are_complete(value: dict[str, Any], ascii_only: bool) -> None:
    """The members of an object and of the objects in it, with their values, and then the object."""
    text = json.dumps(value, ensure_ascii=ascii_only).encode(errors="surrogatepass")
    members = [
        (member.path, parse_value(text[member.start : member.end]))
        for member in JsonScanner(2).read(text, 0, len(text))
    ]
    expected: list[Any] = []
    for key, child in value.items():
        expected += [((key, inner), part) for inner, part in child.items()] if isinstance(child, dict) else []
        expected.append(((key,), child))
    assert members == [*expected, ((), value)]


@pytest.mark.parametrize("text", [b'{"a": 1, "a": 2}', b"1e999", b"NaN", b'"\xff"', b"[" * 10_000, b"1" * 5000])
def test_malformed_json_is_an_error(text: bytes) -> None:
    """Duplicate keys, invalid numbers, lone surrogates, and JSON that Python cannot parse are refused."""
    with pytest.raises(MalformedCall):
        parse_value(text)


TEMPLATES = {
    "hermes": "<tool_call>\n{{ call | tojson }}\n</tool_call> <parameter=",
    "qwen3_coder": "<tool_call>\n<function={{ name }}>\n<parameter={{ key }}>\n{{ value }}\n</parameter>",
    "glm": "<tool_call>{{ name }}\n<arg_key>",
    "minimax_m2": '<minimax:tool_call> <invoke name="{{ name }}"> <parameter name="{{ key }}">',
    "llama3": "<|python_tag|>",
    "pythonic": "in the format of [func_name1(params_name1=params_value1)] <|python_tag|>",
    "mistral": "[TOOL_CALLS]",
    "deepseek_v3": "<｜tool▁calls▁begin｜>{{ type }}<｜tool▁sep｜>{{ name }}\\n```json\\n",
    "deepseek_v31": "<｜tool▁calls▁begin｜>{{ name }}<｜tool▁sep｜>",
    "kimi_k2": "<|tool_calls_section_begin|>",
    "harmony": "<|start|>assistant to=functions.{{ name }}<|channel|>commentary",
    "cohere": "<|START_ACTION|>[",
    "granite": "<|tool_call|>",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_the_format_is_detected_from_the_chat_template(name: str) -> None:
    """Each template fits one format, also with the tokens that other formats have in common with it."""
    assert find_format("auto", TEMPLATES[name], []) is find_format(name, "", [])
    assert find_format("auto", TEMPLATES[name], ["<think>"]) is find_format(name, "", [])
    assert {*format_names()} == {*TEMPLATES}


def test_the_page_has_each_format() -> None:
    """In its table."""
    page = (ROOT / "docs" / "generation.md").read_text(encoding="utf-8")
    assert [name for name in format_names() if f"| `{name}` |" not in page] == []


def test_the_format_is_detected_from_the_tokens() -> None:
    """If the tokens differ. Otherwise the error names those that fit, or all."""
    assert find_format("auto", "", ["<|python_tag|>"]) is find_format("llama3", "", [])
    assert find_format("auto", "", ["[TOOL_CALLS]"]) is find_format("mistral", "", [])
    assert find_format("auto", "", ["<tool_call>", "<arg_key>"]) is find_format("glm", "", [])
    assert find_format("auto", "", ["<|constrain|>"]) is find_format("harmony", "", [])
    with pytest.raises(InputError, match=r"several formats.*'hermes' or 'qwen3_coder'$"):
        find_format("auto", "", ["<tool_call>"])
    with pytest.raises(InputError, match=r"several formats.*'deepseek_v3' or 'deepseek_v31'$"):
        find_format("auto", "", ["<｜tool▁calls▁begin｜>"])
    for name in ("auto", "hermse"):
        with pytest.raises(InputError, match="'hermes'"):
            find_format(name, "", ["<|tool_call|>", "<|/tool_call|>"])
