"""A batch computes each of its sequences as it would be computed alone, whatever happens to the others."""

import random
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from guardagent.errors import InputError
from guardagent.generation.local import TransformersBatch
from guardagent.generation.local.huggingface import HuggingFace

pytestmark = pytest.mark.slow
torch.set_num_threads(1)
WORDS = 90
SIZES = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
}
MODELS: dict[str, tuple[Any, Any]] = {
    "llama": (LlamaForCausalLM, LlamaConfig(**SIZES)),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**SIZES)),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**SIZES)),
    "mistral, a window of 9": (MistralForCausalLM, MistralConfig(**SIZES, sliding_window=9)),
    "gemma3, windows of 9": (Gemma3ForCausalLM, Gemma3TextConfig(**SIZES, sliding_window=9)),
    "eager": (LlamaForCausalLM, LlamaConfig(**SIZES, attn_implementation="eager")),
}


def model(name: str) -> Any:
    torch.manual_seed(3)
    kind, config = MODELS[name]
    return kind(config).eval()


@pytest.mark.parametrize("invariant", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_each_sequence_has_the_logits_that_it_has_alone(name: str, invariant: bool) -> None:
    """Sequences are opened, written, cut and closed at random; their logits are those of the same tokens, alone."""
    of, choose = model(name), random.Random(5)  # noqa: S311
    batch, alone = TransformersBatch(of, 4, 64, invariant=invariant), HuggingFace(of)
    open_ones: list[Any] = []
    for _ in range(60):
        if len(open_ones) < 4 and choose.random() < 0.4:
            open_one = batch.open()
            open_one.start([choose.randrange(WORDS) for _ in range(choose.randint(1, 20))])
            open_ones.append(open_one)
        for open_one in open_ones:
            if open_one.is_computed:
                open_one.step(choose.randrange(WORDS))
            if choose.random() < 0.2:
                open_one.cut(choose.randint(1, len(open_one.tokens)))
        batch.compute(open_ones)
        for open_one in open_ones:
            alone.start(open_one.tokens)
            torch.testing.assert_close(open_one.logits(), alone.logits(), rtol=1e-4, atol=1e-4)
        for open_one in [candidate for candidate in open_ones if choose.random() < 0.1 or len(candidate.tokens) > 60]:
            open_ones.remove(open_one)
            batch.close(open_one)


@pytest.mark.parametrize("name", ["llama", "gemma3, windows of 9"])
def test_not_even_the_rounding_depends_on_the_others(name: str) -> None:
    """A sequence's logits are the same to the bit in any slot, alone and among any others, also after a cut."""
    of, choose = model(name), random.Random(6)  # noqa: S311
    tokens = [choose.randrange(WORDS) for _ in range(40)]
    seen = [_logits(of, tokens, others, choose) for others in (0, 0, 1, 3, 7, 7)]
    assert all(torch.equal(logits, seen[0]) for logits in seen)


def _logits(of: Any, tokens: list[int], others: int, choose: random.Random) -> torch.Tensor:
    """The logits after each token, among other sequences; the last ten tokens are written twice."""
    batch = TransformersBatch(of, 8, 64)
    neighbours = [batch.open() for _ in range(others)]
    for neighbour in neighbours:
        neighbour.start([choose.randrange(WORDS) for _ in range(choose.randint(1, 15))])
    this, logits = batch.open(), []
    this.start(tokens[:10])
    for at in (*range(10, 40), *range(30, 40)):
        if at == 30:
            this.cut(30)
        batch.compute([*neighbours, this])
        logits.append(this.logits())
        this.step(tokens[at])
        for neighbour in neighbours:
            neighbour.step(choose.randrange(WORDS))
    return torch.stack(logits)


def test_what_it_does_not_support_is_refused() -> None:
    """A recurrent state, attention without masks, and sizes that do not fit."""
    recurrent = MambaForCausalLM(MambaConfig(vocab_size=WORDS, hidden_size=16, num_hidden_layers=2, state_size=4))
    with pytest.raises(InputError, match="recurrent state"):
        TransformersBatch(recurrent)
    of = model("llama")
    with pytest.raises(InputError, match="'slots' is 0"):
        TransformersBatch(of, 0)
    with pytest.raises(InputError, match="an integer from 2 to the model's 256"):
        TransformersBatch(of, 4, 257)
    of.config._attn_implementation = "flex_attention"
    with pytest.raises(InputError, match="'flex_attention', without masks"):
        TransformersBatch(of)
