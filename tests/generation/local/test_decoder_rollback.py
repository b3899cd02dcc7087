"""After a backtrack, a model continues as if the discarded tokens had never existed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from transformers import MistralConfig, MistralForCausalLM

from guardagent.generation.local import guarded_generate
from guardagent.generation.local.huggingface import HuggingFace
from tests.generation.local import tiny

pytestmark = pytest.mark.slow


class VerifyingEngine:
    """An engine that compares its logits after a cut with a fresh forward pass."""

    def __init__(self, model: Any) -> None:
        self._inner, self._model = HuggingFace(model), model
        self.defaults = self._inner.defaults
        self.tokens: list[int] = []
        self.worst, self.cuts, self._was_cut = 0.0, 0, False

    def start(self, prompt: Sequence[int]) -> None:
        self.tokens = [*prompt]
        self._inner.start(prompt)

    def step(self, token: int) -> None:
        self.tokens.append(token)
        self._inner.step(token)

    def cut(self, length: int) -> None:
        del self.tokens[length:]
        self._inner.cut(length)
        self.cuts, self._was_cut = self.cuts + 1, True

    def logits(self) -> torch.Tensor:
        logits: torch.Tensor = self._inner.logits()
        if self._was_cut:
            with torch.no_grad():
                fresh = self._model(input_ids=torch.tensor([self.tokens]), use_cache=False).logits[0, -1]
            self.worst = max(self.worst, float((fresh - logits).abs().max()))
        return logits


def sliding(of: Any) -> Any:
    """A model whose attention looks back over eight tokens only."""
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=len(of), hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, sliding_window=8, initializer_range=0.3, eos_token_id=of.eos_token_id,
    )  # fmt: skip
    return MistralForCausalLM(config).eval()


@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("family", ["llama", "qwen2", "sliding"])
def test_the_next_logits_are_those_of_a_fresh_pass(tmp_path: Path, family: str, mode: Any) -> None:
    """After every backtrack, and ever after, on the same tokens."""
    of, rules = tiny.hermes(), tiny.policies(tmp_path)
    engine = VerifyingEngine(sliding(of) if family == "sliding" else tiny.model(of, layers=2, family=family))
    for seed in range(8):
        guarded_generate(
            engine, of, tiny.CHAT, tiny.TOOLS, tiny.session(rules), mode=mode, seed=seed, do_sample=True,
            tool_choice="required", max_new_tokens=30,
        )  # fmt: skip
    assert engine.cuts > 3
    assert engine.worst < 1e-3
