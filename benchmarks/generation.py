"""The cost of guarded decoding: `python benchmarks/generation.py [ROUNDS]`, in CPU time.

A model with random weights generates the same tokens with transformers alone and guarded, in the same rounds: one
sequence, and batches of 1 and 16 in which each sequence has a session of its own. Then it measures turns with a call in
such batches, judging a complete call, querying whether a partial call can still comply, a token within a call, and
backtracking, beside the cost of generating the discarded tokens.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from guardagent import Event, Session, load_policies
from guardagent.generation.local import TransformersBatch, TurnRequest, guarded_generate, guarded_generate_batch
from guardagent.generation.local.checks import TurnChecker
from guardagent.generation.local.decoder import Sampler
from guardagent.generation.local.huggingface import HuggingFace
from guardagent.generation.local.tool_schemas import read_tools
from guardagent.generation.local.turn import TurnBuffer
from guardagent.generation.local.vocabulary import vocabulary_of

POLICY = """
version: 1
policies:
  - id: authenticated
    temporal: G(tool:refund -> O tool:authenticate)
  - id: own_order
    temporal: before(refund(order=o), true, g:get_order(order=o), true)
  - id: small
    temporal: forall(refund(amount=a), a <= 50)
"""
_REFUND = {"order": {"type": "string"}, "amount": {"type": "integer"}}
TOOLS = [
    {"name": "refund", "parameters": {"type": "object", "properties": _REFUND, "required": ["order", "amount"]}},
    {"name": "get_order", "parameters": {"type": "object", "properties": {"order": {"type": "string"}}}},
]
CALL = '<tool_call>\n{"name": "refund", "arguments": {"order": "W7", "amount": 5}}\n</tool_call>'
CALL_TOOLS = [
    {
        "name": "refund",
        "parameters": {
            "type": "object",
            "properties": {"order": {"enum": ["W1", "W2"]}, "amount": {"type": "integer", "minimum": 0, "maximum": 99}},
            "required": ["order", "amount"],
        },
    }
]
PROMPT, TOKENS, CHECKS, LENGTH = 200, 100, 200, 320


def tokenizer() -> PreTrainedTokenizerFast:
    """A token for each byte, and two for the marks of a call."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: at for at, letter in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken("<end>", special=True)])
    made.add_tokens([AddedToken(mark, normalized=False) for mark in ("<tool_call>", "</tool_call>")])
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>")  # noqa: S106 - the name of a token


def model(layers: int, hidden: int, words: int) -> Any:
    """A model with random weights; it never ends a turn."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=words, hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=4096, eos_token_id=None,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def session() -> Session:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.yaml"
        path.write_text(POLICY)
        made = load_policies(path).session()
    for at in range(20):
        made.observe(Event("get_order", {"order": f"W{at}"}, "ok", status="ok"), judge=False)
    made.observe(Event("authenticate", {}, "ok", status="ok"), judge=False)
    return made


def spent(work: Callable[[], object]) -> float:
    """Milliseconds of CPU time."""
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000


def shown(name: str, values: Iterable[float], unit: str = "ms") -> None:
    ordered = sorted(values)
    print(f"{name:<58}{statistics.median(ordered):>10.3f} {unit} p50{ordered[int(0.99 * len(ordered))]:>10.3f} p99")


def plain(of: Any, prompt: list[int]) -> list[int]:
    """The same engine and the same choices, with nothing around them."""
    engine, sampler = HuggingFace(of), Sampler(None, TurnRequest("", (), None, do_sample=False))
    tokens: list[int] = []
    engine.start(prompt)
    while len(tokens) < TOKENS:
        token = sampler.choose((), engine.logits(), None)
        assert token is not None
        tokens.append(token)
        engine.step(token)
    return tokens


def free_text(rounds: int, layers: int, hidden: int) -> None:
    """Free text, outside of calls."""
    words = tokenizer()
    of, prompt = model(layers, hidden, len(words)), [65] * PROMPT
    judge = session()

    def guarded() -> object:
        return guarded_generate(
            of, words, prompt, TOOLS, judge, tool_format="hermes", do_sample=False, max_new_tokens=TOKENS
        )

    turn = guarded_generate(
        of, words, prompt, TOOLS, judge, tool_format="hermes", do_sample=False, max_new_tokens=TOKENS
    )
    assert [*turn.tokens] == plain(of, prompt)
    pairs = [_both(partial(plain, of, prompt), guarded, first=at % 2) for at in range(rounds)]
    bare, with_guard = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(guard / alone for alone, guard in pairs)
    print(
        f"free text, {layers} layers of {hidden}: {bare / TOKENS:.3f} ms a token, guarded {with_guard / TOKENS:.3f}",
        end="",
    )
    print(f"; {100 * (ratio - 1):+.2f} %")


def plain_batch(of: Any, prompts: Sequence[list[int]]) -> list[list[int]]:
    """The same batch and the same choices, with nothing around them."""
    engine = TransformersBatch(of, len(prompts), LENGTH)
    sampler = Sampler(None, TurnRequest("", (), None, do_sample=False))
    sequences = [engine.open() for _ in prompts]
    for sequence, prompt in zip(sequences, prompts, strict=True):
        sequence.start(prompt)
    for _ in range(TOKENS):
        engine.compute(sequences)
        for sequence in sequences:
            token = sampler.choose((), sequence.logits(), None)
            assert token is not None
            sequence.step(token)
    return [sequence.tokens[len(prompt) :] for sequence, prompt in zip(sequences, prompts, strict=True)]


def batch_of_free_text(rounds: int, layers: int, hidden: int, count: int) -> None:
    """Free text in a batch."""
    words = tokenizer()
    of, prompts = model(layers, hidden, len(words)), [[65 + at] * PROMPT for at in range(count)]
    sessions = [session() for _ in range(count)]

    def guarded() -> list[list[int]]:
        requests = [
            TurnRequest(prompt, TOOLS, judge, tool_format="hermes", do_sample=False, max_new_tokens=TOKENS)
            for prompt, judge in zip(prompts, sessions, strict=True)
        ]
        turns = guarded_generate_batch(TransformersBatch(of, count, LENGTH), words, requests)
        return [[*turn.tokens] for turn in turns]

    assert guarded() == plain_batch(of, prompts)
    pairs = [_both(partial(plain_batch, of, prompts), guarded, first=at % 2) for at in range(rounds)]
    bare = statistics.median(alone for alone, _ in pairs) / TOKENS / count
    ratio = statistics.median(guard / alone for alone, guard in pairs)
    print(
        f"free text, {layers} layers of {hidden}, batch of {count}: {bare:.3f} ms a token; {100 * (ratio - 1):+.2f} %"
    )


def batch_of_calls(rounds: int, layers: int, hidden: int, count: int) -> None:
    """A turn that must be a call, with a guard and held to the grammar alone. Both have the same tokens."""
    words = tokenizer()
    of = model(layers, hidden, len(words))
    free = "version: 1\npolicies:\n  - {id: any, temporal: 'forall(refund(amount=a), a >= -1000000000)'}\n"
    rules = load_policies(text=free)

    def turns(*, guard: bool) -> list[tuple[int, ...]]:
        requests = [
            TurnRequest(
                [65 + at] * PROMPT, CALL_TOOLS, rules.session() if guard else None, tool_format="hermes",
                tool_choice="required", do_sample=True, seed=at, max_new_tokens=TOKENS,
            )
            for at in range(count)
        ]  # fmt: skip
        turns = guarded_generate_batch(TransformersBatch(of, count, LENGTH), words, requests)
        assert all(turn.calls for turn in turns)
        return [turn.tokens for turn in turns]

    assert turns(guard=True) == turns(guard=False)
    pairs = [_both(partial(turns, guard=False), partial(turns, guard=True), first=at % 2) for at in range(rounds)]
    extra = statistics.median(guard - alone for alone, guard in pairs) / count
    alone = statistics.median(bare for bare, _ in pairs) / count
    print(f"a call, {layers} layers of {hidden}, batch of {count}: {alone:.1f} ms, guarded {extra:+.2f} ms")


def _both(alone: Callable[[], object], guarded: Callable[[], object], first: int) -> tuple[float, float]:
    """The times of each function, called alternately."""
    if first:
        return spent(alone), spent(guarded)
    with_guard = spent(guarded)
    return spent(alone), with_guard


class Fixed:
    """An engine that computes nothing: what is left is what stands around it."""

    defaults = None

    def __init__(self, logits: torch.Tensor) -> None:
        self._logits = logits

    def start(self, prompt: Sequence[int]) -> None: ...

    def logits(self) -> torch.Tensor:
        return self._logits

    def step(self, token: int) -> None: ...

    def cut(self, length: int) -> None: ...


def own_share() -> None:
    """The guard's own cost per token of free text: a long turn minus a short one, minus sampling."""
    words, judge = tokenizer(), session()
    logits = torch.zeros(len(words))
    logits[70] = 1.0
    sampler = Sampler(None, TurnRequest("", (), None, do_sample=False))

    def write(count: int) -> None:
        options: dict[str, Any] = {"tool_format": "hermes", "do_sample": False, "max_new_tokens": count}
        guarded_generate(Fixed(logits), words, [65], TOOLS, judge, **options)

    def choose() -> None:
        for _ in range(5000):
            sampler.choose((), logits, None)

    some = [spent(partial(write, 5100)) - spent(partial(write, 100)) - spent(choose) for _ in range(15)]
    print(f"of this the guard itself: {statistics.median(some) / 5:.1f} µs a token; a turn begins and ends in ", end="")
    print(f"{statistics.median(spent(partial(write, 1)) for _ in range(50)):.2f} ms")


def judging() -> None:
    """Checks of a complete call and of a partial call, in a session with 21 earlier calls."""
    tools, of = read_tools(TOOLS), session()
    args = [{"order": f"W{at % 20}", "amount": at % 90} for at in range(CHECKS)]
    whole = [spent(partial(TurnChecker(of, tools).check, "refund", argument)) for argument in args]
    judge = TurnChecker(of, tools)
    judge.check("refund", args[0])  # the copy of the session is made once in a turn
    shown("a whole call, the first of a turn", whole)
    shown("a whole call, a later one", [spent(partial(judge.check, "refund", argument)) for argument in args])
    for name, some in (
        ("its name", {}),
        ("its first argument", {"order": "W7"}),
        ("one that is wrong", {"order": "X"}),
    ):
        times = [spent(partial(TurnChecker(of, tools).can_comply, "refund", some)) for _ in range(CHECKS)]
        shown(f"whether it can comply: {name}", times)


def open_call() -> None:
    """The cost of grammar and parser at each token of a call."""
    words = tokenizer()
    vocabulary, tokens = vocabulary_of(words, [words.eos_token_id]), words(CALL)["input_ids"]
    known = list(read_tools(TOOLS).values())

    def write() -> None:
        turn = TurnBuffer(vocabulary, vocabulary.format("hermes"), known)
        for token in tokens:
            turn.allowed()
            turn.push(token)

    shown("a token of an open call: grammar and reading", (spent(write) / len(tokens) for _ in range(CHECKS)))


def going_back(rounds: int) -> None:
    """Taking 40 tokens back, with the logits to go on from, and what it took to write them."""
    of = HuggingFace(model(4, 256, 300))
    for count in (1, 5, 40):
        wrote, back = [], []
        for _ in range(rounds):
            of.start([65] * PROMPT)
            of.logits()
            wrote.append(spent(partial(_write, of, count)))
            back.append(spent(partial(_take_back, of)))
        shown(f"writing {count} tokens", wrote)
        shown(f"taking {count} back", back)


def _write(of: HuggingFace, count: int) -> None:
    for _ in range(count):
        of.step(66)
        of.logits()


def _take_back(of: HuggingFace) -> None:
    of.cut(PROMPT)
    of.logits()


if __name__ == "__main__":
    torch.set_num_threads(1)
    ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    for size in ((1, 64), (4, 256), (8, 512)):
        free_text(ROUNDS, *size)
    for size in ((4, 256), (8, 512)):
        for count in (1, 16):
            batch_of_free_text(max(3, ROUNDS // 4), *size, count)
            batch_of_calls(max(3, ROUNDS // 4), *size, count)
    own_share()
    judging()
    open_call()
    going_back(ROUNDS)
