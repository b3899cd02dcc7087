"""Thinking is left alone and kept apart, and what is shown of a turn does not change afterwards."""

from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from guardagent import load_policies
from guardagent.generation.local import GuardedLogits, guarded_generate
from guardagent.generation.local.tool_schemas import read_tools
from guardagent.generation.local.turn import InvalidToken, MalformedCall, TurnBuffer
from guardagent.generation.local.vocabulary import Vocabulary, vocabulary_of
from tests.generation.local import tiny

pytestmark = pytest.mark.slow

RULES = "version: 1\npolicies:\n  - {id: any, temporal: 'G (tool:pay -> tool:pay)'}\n"
TOOLS = list(read_tools([tiny.tool("pay")]).values())
CALL = f"<tool_call>\n{tiny.written('pay', {})}\n</tool_call>"
THINK = ["<think>", "</think>"]


def tokenizer(
    *, special: list[str] | None = None, added: list[str] | None = None, texts: Any = (CALL,), **more: Any
) -> Any:
    of = tiny.tokenizer(texts, special=special or [], added=added or [], size=400, **more)
    of.chat_template = "{# <tool_call> <think> #}"
    return of


VOCABULARIES = {
    "tokens": tokenizer(added=[*THINK, "<tool_call>", "</tool_call>"]),
    "special tokens": tokenizer(special=[*THINK, "<tool_call>", "</tool_call>"]),
    "in pieces": tokenizer(),
}


def begun(of: Any, choice: Any = "auto", prompt: str = "", form: str = "hermes") -> TurnBuffer:
    vocabulary = vocabulary_of(of, [of.eos_token_id])
    return TurnBuffer(vocabulary, vocabulary.format(form), TOOLS, choice, prompt)


def push(turn: TurnBuffer, of: Any, text: str) -> int:
    """The number of calls in a text."""
    return sum(call.is_complete for token in of(text)["input_ids"] for call in turn.push(token))


CASES = [
    (f"<think>a {CALL} b</think>c", 0, f"a {CALL} b", "c"),
    (f"<think>a</think>\nb{CALL}c", 1, "a", "\nbc"),
    (f"<think>a {CALL}", 0, f"a {CALL}", ""),
    (f"<think>a</think>b</think>{CALL}", 1, "a", "b</think>"),
    (f"<think>a<think>b</think>{CALL}", 1, "a<think>b", ""),
    (f"<think>a</think><think>b {CALL}</think>{CALL}", 1, f"a\nb {CALL}", ""),
    (f"a{CALL}b<think>{CALL}</think>c", 1, CALL, "abc"),
    ("<thin<think>a</think></think", 0, "a", "<thin</think"),
    ("</think>a", 0, "", "</think>a"),
]


@pytest.mark.parametrize("kind", sorted(VOCABULARIES))
@pytest.mark.parametrize(("text", "calls", "thinking", "free"), CASES)
def test_thinking_is_left_alone(kind: str, text: str, calls: int, thinking: str, free: str) -> None:
    """A mark in it opens no block. It ends at the first closing mark, and does not nest."""
    of = VOCABULARIES[kind]
    turn = begun(of)
    assert push(turn, of, text) == calls
    if kind == "special tokens":  # they are shown in neither text
        for mark in (*THINK, "<tool_call>", "</tool_call>"):
            thinking, free = thinking.replace(mark, ""), free.replace(mark, "")
    assert (turn.thinking_text(), turn.free_text()) == (thinking, free)


@pytest.mark.parametrize("kind", sorted(VOCABULARIES))
def test_a_prompt_can_end_with_the_opening_mark(kind: str) -> None:
    """The turn begins in thinking; a mark elsewhere in the prompt, as a user can write it, does not count."""
    of = VOCABULARIES[kind]
    turn = begun(of, prompt="assistant\n<think>\n")
    assert push(turn, of, f"a{CALL}</think>{CALL}") == 1
    turn = begun(of, prompt="user: <think> assistant:")
    assert push(turn, of, CALL) == 1


def test_only_the_token_opens_thinking_if_there_is_one() -> None:
    """Text that only looks like the mark hides no call; any spelling closes."""
    of, pieces = VOCABULARIES["tokens"], VOCABULARIES["in pieces"]
    turn = begun(of)
    for token in pieces("<think>")["input_ids"]:
        turn.push(of.convert_tokens_to_ids(pieces.convert_ids_to_tokens(token)))
    assert push(turn, of, CALL) == 1
    assert turn.free_text() == "<think>"
    turn = begun(of, prompt="<think>")
    for token in pieces("</think>")["input_ids"]:
        turn.push(of.convert_tokens_to_ids(pieces.convert_ids_to_tokens(token)))
    assert push(turn, of, CALL) == 1


def test_one_token_can_close_thinking_and_open_a_call() -> None:
    """The call is constrained, and cutting the token opens the thinking again."""
    of = tokenizer(texts=["a</think><tool_call>", "a</think><think>b", "</think>no<tool_call>no"], words=False)
    turn = begun(of, prompt="<think>")
    (token,) = of("a</think><tool_call>")["input_ids"]
    assert turn.push(token) == []
    assert turn.block is not None
    assert (turn.thinking_text(), turn.free_text()) == ("a", "")
    turn.cut(0)
    assert turn.block is None
    assert push(turn, of, CALL) == 0
    assert turn.thinking_text() == CALL
    (again,) = of("a</think><think>b")["input_ids"]
    assert (turn.push(again), turn.thinking_text()) == ([], f"{CALL}a\nb")
    (wrong,) = of("</think>no<tool_call>no")["input_ids"]
    with pytest.raises(InvalidToken):
        turn.push(wrong)
    assert turn.thinking_text() == f"{CALL}a\nb"


def test_a_required_call_follows_the_thinking_that_the_prompt_opens() -> None:
    """After the closing mark, the grammar allows the call alone."""
    of = VOCABULARIES["tokens"]
    turn = begun(of, "required", "<think>\n")
    assert push(turn, of, f"a {CALL}") == 0
    assert turn.allowed() is None
    push(turn, of, "</think>")
    assert turn.allowed() is not None
    root = turn.root
    assert push(turn, of, CALL[:30]) == 0
    turn.cut(root)
    assert push(turn, of, CALL) == 1
    packed = tokenizer(texts=["</think> so"], words=False)
    turn = begun(packed, "required", "<think>")
    with pytest.raises(InvalidToken):
        push(turn, packed, "</think> so")


HARMONY = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|constrain|>", "<|call|>", "<|return|>"]


@pytest.mark.parametrize("special", [True, False])
def test_channels_are_distinguished(special: bool) -> None:
    """Analysis is thinking, even with a call quoted in it; the headers of other messages are not shown."""
    of = tokenizer(special=HARMONY) if special else tokenizer(added=HARMONY)
    call = "<|channel|>commentary to=functions.pay <|constrain|>json<|message|>{}<|call|>"
    turn = begun(of, form="harmony")
    message = "<|channel|>commentary<|message|>one moment<|end|><|start|>assistant"
    assert push(turn, of, "<|channel|>analysis<|message|> to=functions.pay{}<|end|><|start|>assistant") == 0
    assert push(turn, of, message + call) == 1
    assert turn.thinking_text() == " to=functions.pay{}"
    assert turn.free_text() == "one moment"
    turn = begun(of, form="harmony")
    push(turn, of, f"<|channel|>analysis<|message|>{call}<|end|><|start|>assistant<|channel|>final<|message|>finally")
    assert turn.free_text() == "finally"


CONSTRUCTS = [
    "a", " ", "\n", "é", "🙂", "<", "[", "{", "x<tool_call>", CALL, CALL[:14], CALL[:30], "<think>", "</think>",
    "<think>b</think>", "</think>x<tool_call>", "<|channel|>analysis<|message|>", "<|end|>", "<|start|>assistant",
    "<|channel|>final<|message|>", "<|channel|>fin", "<|channel|>commentary<|message|>", "<|message|>",
    "<|channel|>commentary to=functions.pay<|message|>{}", " to=functions.pay", '{"name": "pay", "parameters": {}}',
    "[pay()]", "[pay(), pay()", f"<|tool_call|>[{tiny.written('pay', {})}]", "�",
]  # fmt: skip
STREAMED = {
    "hermes": VOCABULARIES["in pieces"],
    "hermes, tokens": VOCABULARIES["tokens"],
    "hermes, packed": tokenizer(texts=["x<tool_call>", "</think>x<tool_call>", "<think>b</think>"], words=False),
    "harmony": tokenizer(special=HARMONY),
    "harmony, marks in pieces": tokenizer(),
    "pythonic": tokenizer(special=["<|python_start|>"]),
    "llama3": tokenizer(special=["<|python_tag|>"]),
    "granite": tokenizer(special=["<|tool_call|>"]),
}


def admitted(turn: TurnBuffer, token: int) -> bool:
    bits = turn.allowed()
    return bits is None or bool(bits[token // 8] >> token % 8 & 1)


def pushed(turn: TurnBuffer, token: int) -> bool:
    """Adds a token that is allowed; whether it was added."""
    if not admitted(turn, token):
        return False
    try:
        accepted = any(call.is_complete for call in turn.push(token))
    except InvalidToken:
        return False
    except MalformedCall:
        turn.cut(turn.root)
        return True
    if accepted:
        turn.accept()
    return True


@settings(max_examples=300)
@given(data=st.data(), kind=st.sampled_from(sorted(STREAMED)), prompt=st.sampled_from(["", "<think>"]))
def test_what_is_settled_does_not_change(data: st.DataObject, kind: str, prompt: str) -> None:
    """It is a prefix of the later results and of the whole text, whatever follows and wherever a call is cut."""
    of = STREAMED[kind]
    turn, shown = begun(of, prompt=prompt, form=kind.split(",", maxsplit=1)[0]), ""
    for text in data.draw(st.lists(st.sampled_from(CONSTRUCTS), max_size=12)):
        is_split = data.draw(st.booleans())
        pieces = [text] if not is_split else text
        for token in [token for piece in pieces for token in of(piece)["input_ids"]]:
            if not pushed(turn, token):
                break
            now = turn.settled_text()
            assert now.startswith(shown)
            assert turn.free_text().startswith(now)
            shown = now
        if turn.is_calling and data.draw(st.booleans()):
            turn.cut(data.draw(st.integers(turn.root, len(turn.tokens))))
            assert turn.settled_text() == shown


def test_settled_text_keeps_up() -> None:
    """It lacks no more than what may still become a mark, and a character that is not complete."""
    of = VOCABULARIES["in pieces"]
    turn = begun(of)
    push(turn, of, "Here you are. " + "🙂" * 5)
    assert turn.settled_text() == "Here you are. " + "🙂" * 2
    for token in of("🙂" * 3)["input_ids"][:-1]:
        turn.push(token)
    assert turn.settled_text() == "Here you are. " + "🙂" * 5
    push(turn, of, f"\n{CALL}")
    assert turn.settled_text() == turn.free_text()


def test_marks_come_from_the_template_or_the_tokens() -> None:
    """Without them, nothing is thinking."""
    of = tiny.hermes()
    assert Vocabulary(of, [of.eos_token_id]).thinking == ()
    turn = begun(of)
    assert push(turn, of, f"<think>{CALL}") == 1


@pytest.mark.parametrize("prompt", ["user: hi", "user: hi<think>"])
def test_a_prompt_that_opens_thinking_is_seen_by_both_decoders(prompt: str) -> None:
    """A call that follows it is thought, not made; without the mark it is a call."""
    of = VOCABULARIES["tokens"]
    tools, session = [tiny.tool("pay")], load_policies(text=RULES).session()
    turn = guarded_generate(tiny.Known(of, {CALL: 1.0}), of, prompt, tools, session, do_sample=True, seed=1)
    processor, begin = GuardedLogits(of, tools, session), of(prompt)["input_ids"]
    for at in range(len(written := of(CALL)["input_ids"]) + 1):
        processor(torch.tensor([[*begin, *written[:at]]]), torch.zeros(1, len(of)))
    calls = processor.release(torch.tensor([[*begin, *written]]))
    assert len(turn.calls) == len(calls) == (0 if "<think>" in prompt else 1)
