# ruff: noqa: RUF001 - the marks of DeepSeek have a wide vertical line
"""Each format writes and reads calls as the chat templates of its models do."""

import ast
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from guardagent import InputError
from guardagent.generation.local import GuardedLogits, guarded_generate
from guardagent.generation.local.formats import Format
from guardagent.generation.local.formats.models import find_format
from guardagent.generation.local.tool_schemas import read_tools
from guardagent.generation.local.turn import MalformedCall, TurnBuffer
from guardagent.generation.local.vocabulary import vocabulary_of
from tests.generation.local import tiny

pytestmark = pytest.mark.slow

TOOLS = [
    tiny.tool(
        "pay",
        ["to"],
        to={"type": "string", "maxLength": 8},
        parts={"type": "array", "items": {"type": ["integer", "boolean"]}, "maxItems": 3},
        sum={"type": "number", "minimum": -99, "maximum": 99},
        fast={"type": ["boolean", "null"]},
        currency={"enum": ["EUR", "a < b"]},
    ),
    tiny.tool("pay_all"),
]
ALL_ARGS = {"to": "é\n <b>", "parts": [1, True], "sum": -1.5, "fast": False, "currency": "a < b"}
CALLS: list[tuple[str, dict[str, Any]]] = [("pay", ALL_ARGS), ("pay_all", {}), ("pay", {"to": ""})]
Call = tuple[str, dict[str, Any]]


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def bare(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


def qwen(name: str, args: dict[str, Any]) -> str:
    inside = "".join(f"<parameter={key}>\n{bare(value)}\n</parameter>\n" for key, value in args.items())
    return f"<tool_call>\n<function={name}>\n{inside}</function>\n</tool_call>"


def glm(name: str, args: dict[str, Any], gap: str = "\n") -> str:
    inside = (f"<arg_key>{key}</arg_key>{gap}<arg_value>{bare(value)}</arg_value>{gap}" for key, value in args.items())
    return f"<tool_call>{name}{gap}{''.join(inside)}</tool_call>"


def minimax(name: str, args: dict[str, Any]) -> str:
    inside = "".join(f'<parameter name="{key}">{bare(value)}</parameter>\n' for key, value in args.items())
    return f'<invoke name="{name}">\n{inside}</invoke>\n'


def literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    return dumps(value) if isinstance(value, str) else repr(value)


def python(name: str, args: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={literal(argument)}' for key, argument in args.items())})"


def cohere(at: int, name: str, args: dict[str, Any]) -> str:
    return f'    {{"tool_call_id": "{at}", "tool_name": "{name}", "parameters": {dumps(args)}}}'


def joined(write_call: Callable[[str, dict[str, Any]], str], between: str = "") -> Callable[[list[Call]], str]:
    return lambda calls: between.join(write_call(*call) for call in calls)


def section(opening: str, write_call: Callable[[int, str, dict[str, Any]], str], between: str, closing: str) -> Any:
    return lambda calls: opening + between.join(write_call(at, *call) for at, call in enumerate(calls)) + closing


DEEPSEEK = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
TURNS: dict[str, Callable[[list[Call]], str]] = {
    "qwen3_coder": joined(qwen, "\n"),
    "glm": joined(glm, "\n"),
    "minimax_m2": section("<minimax:tool_call>\n", lambda _, *call: minimax(*call), "", "</minimax:tool_call>"),
    "pythonic": section("[", lambda _, *call: python(*call), ", ", "]"),
    "deepseek_v3": section(
        DEEPSEEK[0],
        lambda _, name, args: (
            f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{dumps(args)}\n```<｜tool▁call▁end｜>"
        ),
        "\n",
        DEEPSEEK[1],
    ),
    "deepseek_v31": section(
        DEEPSEEK[0],
        lambda _, name, args: f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{dumps(args)}<｜tool▁call▁end｜>",
        "",
        DEEPSEEK[1],
    ),
    "kimi_k2": section(
        "<|tool_calls_section_begin|>",
        lambda at, name, args: (
            f"<|tool_call_begin|>functions.{name}:{at}<|tool_call_argument_begin|>{dumps(args)}<|tool_call_end|>"
        ),
        "",
        "<|tool_calls_section_end|>",
    ),
    "harmony": joined(
        lambda name, args: (
            f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{dumps(args)}<|call|>"
        )
    ),
    "cohere": section("<|START_ACTION|>[\n", cohere, ",\n", "\n]<|END_ACTION|>"),
    "granite": section("<|tool_call|>[", lambda _, *call: tiny.written(*call), ", ", "]"),
}
SPECIAL = re.compile(r"<[|｜][^<>]*[|｜]>|</?tool_call>|</?arg_[a-z]+>|</?minimax:tool_call>")


def marks(form: str) -> list[str]:
    return list(dict.fromkeys(SPECIAL.findall(TURNS[form](CALLS))))


def opened(form: str, *, special: bool = True, choice: Any = "auto", tools: Any = TOOLS) -> tuple[TurnBuffer, Any]:
    of = tiny.tokenizer([TURNS[form](CALLS)], special=marks(form) if special else [], size=330)
    vocabulary = vocabulary_of(of, [of.eos_token_id])
    return TurnBuffer(vocabulary, vocabulary.format(form), list(read_tools(tools).values()), choice), of


def allowed(turn: TurnBuffer) -> Any:
    bits = turn.allowed()
    return None if bits is None else np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little"))


def push_all(turn: TurnBuffer, tokens: list[int]) -> Iterator[Call]:
    """The complete calls of a turn, of which the grammar must allow each token."""
    for token in tokens:
        mask = allowed(turn)
        assert mask is None or token in mask, f"token {token} after {bytes(turn._text)!r}"
        for call in turn.push(token):
            if call.is_complete:
                turn.accept()
                yield call.tool, dict(call.args)


@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("form", sorted(TURNS))
def test_a_turn_as_the_template_writes_it_is_read_exactly(form: str, special: bool, choice: str) -> None:
    """All calls with their values and types, whether or not the marks are special tokens; nothing of them is text."""
    calls = CALLS[:1] if form == "harmony" else CALLS
    turn, of = opened(form, special=special, choice=choice)
    assert [*push_all(turn, of(TURNS[form](calls))["input_ids"])] == calls
    assert turn.free_text().strip() == ""
    assert not turn.is_calling


OTHER_SPELLINGS = [
    ("glm", "".join(glm(*call, gap="") for call in CALLS), CALLS),
    ("qwen3_coder", qwen("pay", ALL_ARGS).replace("false", "False"), CALLS[:1]),
    ("pythonic", f" \n<|python_start|>{TURNS['pythonic'](CALLS)}<|python_end|>", CALLS),
    ("kimi_k2", TURNS["kimi_k2"](CALLS).replace('": ', '":'), CALLS),
    ("harmony", ' to=functions.pay<|channel|>commentary json<|message|>{"to":""}<|call|>', CALLS[2:]),
    ("harmony", '<|start|>assistant to=functions.pay<|channel|>commentary<|message|>{"to": ""}', CALLS[2:]),
    ("harmony", '<|channel|>analysis to=functions.pay<|constrain|>json<|message|>{"to": ""}', CALLS[2:]),
]


@pytest.mark.parametrize(("form", "text", "calls"), OTHER_SPELLINGS)
def test_other_spellings_of_the_models_are_read_too(form: str, text: str, calls: list[Call]) -> None:
    """Those of later versions, and those that the models are known to write."""
    turn, of = opened(form)
    assert [*push_all(turn, of(text)["input_ids"])] == calls


def schema_typed(key: str, text: str) -> Any:
    """The value of an argument of `pay`, from its text."""
    words = {"True": True, "False": False, "None": None}
    return text if key in ("to", "currency") else words[text] if text in words else json.loads(text)


def tagged(text: str, call: str, argument: str) -> list[Call]:
    return [
        (match[1], {key: schema_typed(key, value) for key, value in re.findall(argument, match[2], re.DOTALL)})
        for match in re.finditer(call, text, re.DOTALL)
    ]


def python_calls(text: str) -> list[Call]:
    """The calls of a list, as Python reads it."""
    tree: Any = ast.parse(text.strip(), mode="eval").body
    return [(elt.func.id, {key.arg: ast.literal_eval(key.value) for key in elt.keywords}) for elt in tree.elts]


def named(text: str, call: str) -> list[Call]:
    return [(name, json.loads(args)) for name, args in re.findall(call, text, re.DOTALL)]


PARSERS: dict[str, Callable[[str], list[Call]]] = {
    "qwen3_coder": lambda text: tagged(
        text, r"<function=(\w+)>\n(.*?)</function>", r"<parameter=(\w+)>\n(.*?)\n</parameter>\n"
    ),
    "glm": lambda text: tagged(
        text, r"<tool_call>(\w+)\n?(.*?)</tool_call>", r"<arg_key>(\w+)</arg_key>\n?<arg_value>(.*?)</arg_value>"
    ),
    "minimax_m2": lambda text: tagged(
        text, r'<invoke name="(\w+)">\n(.*?)</invoke>', r'<parameter name="(\w+)">(.*?)</parameter>\n'
    ),
    "pythonic": python_calls,
    "deepseek_v3": lambda text: named(text, r"sep｜>(\w+)\n```json\n(.*?)\n```<"),
    "deepseek_v31": lambda text: named(text, r"begin｜>(\w+)<｜tool▁sep｜>(.*?)<｜tool▁call▁end"),
    "kimi_k2": lambda text: named(text, r"functions\.(\w+):\d+<\|tool_call_argument_begin\|>(.*?)<\|tool_call_end"),
    "harmony": lambda text: named(text, r"functions\.(\w+)[^{]*<\|message\|>(.*)<\|call\|>"),
    "cohere": lambda text: [
        (load["tool_name"], load["parameters"])
        for load in json.loads(text[len("<|START_ACTION|>") : -len("<|END_ACTION|>")])
    ],
    "granite": lambda text: [(load["name"], load["arguments"]) for load in json.loads(text.partition("|>")[2])],
}


def random_walk(turn: TurnBuffer, of: Any, chance: random.Random) -> list[Call] | None:
    """The calls of a random walk through the grammar to the end of a block; None if it takes too long."""
    calls: list[Call] = []
    ends = {*of(TURNS["qwen3_coder"](CALLS))["input_ids"], *map(of.convert_tokens_to_ids, ["}", "]", '"', ")", "<"])}
    while len(turn.tokens) < 600:
        mask = allowed(turn)
        if mask is None:
            return calls
        tokens = [int(token) for token in mask if token != of.eos_token_id]
        likely = [token for token in tokens if token in ends] if chance.random() < 0.6 else []
        for call in turn.push(chance.choice(likely or tokens)):
            if call.is_complete:
                calls.append((call.tool, dict(call.args)))
                turn.accept()
    return None


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("form", sorted(TURNS))
def test_whatever_the_grammar_allows_is_read_as_a_plain_parser_reads_it(form: str, special: bool) -> None:
    """Random walks through the grammar, read incrementally and then as a whole."""
    chance, finished = random.Random(form), 0  # noqa: S311 - a test
    for _ in range(25):
        turn, of = opened(form, special=special, choice="required")
        try:
            calls = random_walk(turn, of, chance)
        except UnicodeDecodeError:
            continue
        if calls is not None:
            finished += 1
            assert PARSERS[form](turn._text.decode()) == calls
    assert finished > 10


OPEN = [
    tiny.tool(
        "find",
        what={"type": ["string", "integer", "null"]},
        mail={"type": "string", "pattern": "^[a-z]+@x$"},
        list={"type": "array", "items": {"type": "string"}},
        of={"anyOf": [{"$ref": "#/$defs/kind"}, {"type": "array", "items": {"$ref": "#/$defs/kind"}}]},
    )
]
OPEN[0]["function"]["parameters"] |= {"additionalProperties": {}, "$defs": {"kind": {"enum": ["a", "b"]}}}


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("5.5", "5.5"), ("null", None), ("[1]", "[1]"), ('"5"', '"5"'), ("five", "five"), ("", "")],
)
@pytest.mark.parametrize("write", [qwen, minimax, glm])
def test_a_value_of_several_types_is_what_its_schema_allows(write: Any, text: str, value: Any) -> None:
    """JSON of an allowed type is that; all else is a string."""
    form = {qwen: "qwen3_coder", minimax: "minimax_m2", glm: "glm"}[write]
    turn, of = opened(form, tools=OPEN)
    opening = "<minimax:tool_call>\n" if write is minimax else ""
    ((_, args),) = push_all(turn, of(opening + write("find", {"what": text}))["input_ids"])
    assert args == {"what": value}
    assert type(args["what"]) is type(value)


@pytest.mark.parametrize(
    "args",
    [{"mail": "a@y"}, {"of": '"c"'}, {"of": '["a", "c"]'}, {"other": "1", "other ": "2"}, {"list": '["</parameter>"]'}],
)
def test_a_value_that_the_grammar_cannot_refuse_is_malformed(args: dict[str, str]) -> None:
    """Patterns, references and repeated names are checked as values and calls are complete."""
    turn, of = opened("qwen3_coder", tools=OPEN)
    text = qwen("find", args).replace("other >", "other>")
    with pytest.raises(MalformedCall):
        [*push_all(turn, of(text)["input_ids"])]


def test_other_arguments_are_read_where_the_schema_allows_them() -> None:
    """After the declared ones, typed by the schema of additional arguments."""
    turn, of = opened("qwen3_coder", tools=OPEN)
    args = {"what": 5, "where": "here", "whatever": [1], "of": ["a"]}
    written = {"what": 5, "of": ["a"], "where": "here", "whatever": [1]}
    assert [*push_all(turn, of(qwen("find", written))["input_ids"])] == [("find", args)]
    turn, of = opened("pythonic", tools=OPEN)
    assert [*push_all(turn, of(f"[{python('find', written)}]")["input_ids"])] == [("find", args)]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("qwen3_coder", "<tool_call>\n<function=steal>"),
        ("qwen3_coder", "<tool_call>\n<function=pay>\n<parameter=sum>"),  # `to` is required
        ("qwen3_coder", "<tool_call>\n<function=pay>\n<parameter=to>\nx</parameter>"),
        ("qwen3_coder", '<tool_call>\n{"name"'),
        ("glm", "<tool_call>pay\n<arg_key>to</arg_key>\n<arg_value>x</arg_value>\n<arg_key>to"),
        ("glm", "<tool_call>pay</tool_call>"),
        ("minimax_m2", '<minimax:tool_call>\n<invoke name="pay">\n<parameter name="to">123456789'),
        ("pythonic", "[pay('x'"),
        ("pythonic", "[pay(to=open("),
        ("pythonic", '[pay(to="a" "b"'),
        ("pythonic", "[]"),
        ("deepseek_v31", "<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>"),
        ("kimi_k2", "<|tool_calls_section_begin|><|tool_call_begin|>pay:0"),
        ("harmony", "<|channel|>commentary to=python"),
        ("harmony", "<|channel|>final to=functions.steal"),
        ("harmony", '<|channel|>commentary to=functions.pay<|message|>{"to": ""} more'),
        ("cohere", '<|START_ACTION|>[\n    {"tool_name": "pay"'),
    ],
)  # fmt: skip
def test_the_grammar_allows_nothing_else(form: str, text: str) -> None:
    """No other tool, argument, order or expression."""
    turn, of = opened(form)
    with pytest.raises(AssertionError, match="token"):
        [*push_all(turn, of(text)["input_ids"])]


@pytest.mark.parametrize("form", ["qwen3_coder", "glm", "pythonic", "kimi_k2", "harmony", "deepseek_v3"])
def test_names_that_a_format_cannot_write_are_refused(form: str) -> None:
    """A name with the mark that ends it would be read as another one."""
    turn, _ = opened(form, tools=[tiny.tool("a<b>: c")])
    with pytest.raises(InputError, match="cannot write the name 'a<b>: c'"):
        turn._open_block(0, 0, 0)  # its caller waits for the mark of the format


def reader_positions(form: str, text: str) -> list[tuple[str, bytes]]:
    """For each name and argument, what stands at the offset to which the decoder backtracks."""
    made: Format = find_format(form, "", [])
    whole = bytearray(text.encode())
    begin = made.opening(whole, 0, 0)
    assert begin is not None
    reader, positions = made.reader(list(read_tools(TOOLS).values())), []
    for end in range(begin[1] + 1, len(whole) + 1):
        reader = reader.copy()
        positions += [
            (member, bytes(whole[member.start : member.start + 5])) for member in reader.read(whole[:end], end - 1)
        ]
    return [
        (list(position.args)[-1] if position.args else position.tool, at)
        for position, at in positions
        if not position.is_complete
    ]


@pytest.mark.parametrize("form", sorted(TURNS))
def test_the_offsets_are_those_of_names_and_values(form: str) -> None:
    """Whatever the pieces in which the text arrives."""
    args = {"to": "xyz", "sum": 12.75}
    positions = reader_positions(form, TURNS[form]([("pay", args)]))
    assert [key for key, _ in positions] == ["pay", "to", "sum"]
    assert positions[0][1].strip(b'"').startswith(b"pay")
    assert positions[1][1].strip(b'"').startswith(b"xyz")
    assert positions[2][1] == b"12.75"


REFUND = ("refund", {"order": "W2", "amount": 50})
SMALL = ("refund", {"order": "W2", "amount": 5})


@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("form", sorted(TURNS))
def test_a_denied_call_is_replaced_in_every_format(form: str, mode: Any, tmp_path: Path) -> None:
    """The decoder backtracks to a place from which the allowed call is generated."""
    texts = {TURNS[form]([REFUND]): 0.95, TURNS[form]([SMALL]): 0.05}
    of = tiny.tokenizer([*texts], special=marks(form), size=330)
    session = tiny.session(tiny.policies(tmp_path))
    turn = guarded_generate(
        tiny.Known(of, texts), of, "", tiny.TOOLS, session, tool_format=form, mode=mode, do_sample=True, seed=1
    )
    assert [(call.tool, dict(call.args)) for call in turn.calls] == [SMALL]
    assert turn.backtracks > 0


@pytest.mark.parametrize("form", sorted(TURNS))
def test_a_mask_alone_completes_no_denied_call_in_any_format(form: str, tmp_path: Path) -> None:
    """The token after which the call cannot comply is masked, whichever ends a value or a call of the format."""
    texts = {TURNS[form]([REFUND]): 0.9, TURNS[form]([SMALL]): 0.1}
    of = tiny.tokenizer([*texts], special=marks(form), size=330)
    guarded = GuardedLogits(of, tiny.TOOLS, tiny.session(tiny.policies(tmp_path)), tool_format=form, width=8)
    engine, ids = tiny.Known(of, texts), torch.zeros((1, 0), dtype=torch.long)
    engine.start([])
    while not len(ids[0]) or ids[0, -1] != of.eos_token_id:
        scores = engine.logits().clamp(min=-100)[None]
        token = int(guarded(ids, scores).argmax())
        engine.step(token)
        ids = torch.cat([ids, torch.tensor([[token]])], dim=1)
        assert len(ids[0]) < 400
    assert [(call.tool, dict(call.args)) for call in guarded.release(ids)] in ([SMALL], [])
