"""Without a violation, a guard changes no token."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from guardagent.generation.local import guarded_generate
from tests.generation.local import tiny

pytestmark = pytest.mark.slow
FREE = """
version: 1
policies:
  - id: small
    temporal: forall(refund(amount=a), a <= 500)
"""


@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_the_tokens_are_those_without_a_guard(tmp_path: Path, mode: Any, choice: str) -> None:
    """With the same seed, guarded and unguarded turns are the same, with calls and without."""
    of = tiny.hermes()
    model, rules = tiny.model(of), tiny.policies(tmp_path, FREE)
    calls = 0
    for seed in range(12):
        options: dict[str, Any] = {
            "do_sample": True,
            "seed": seed,
            "max_new_tokens": 40,
            "tool_choice": choice,
            "temperature": 1.3,
        }
        free = guarded_generate(model, of, tiny.CHAT, tiny.TOOLS, None, **options)
        guarded = guarded_generate(model, of, tiny.CHAT, tiny.TOOLS, tiny.session(rules), mode=mode, **options)
        assert guarded.tokens == free.tokens
        assert [(call.tool, call.args) for call in guarded.calls] == [(call.tool, call.args) for call in free.calls]
        assert guarded.backtracks == 0
        calls += len(guarded.calls)
    assert calls >= (12 if choice == "required" else 0)


@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize(
    "options",
    [
        {"do_sample": False},
        {"do_sample": True, "temperature": 0.7, "top_k": 0},
        {"do_sample": True, "temperature": 1.5, "top_k": 30, "top_p": 0.9},
    ],
)
def test_without_calls_they_are_those_of_transformers(tmp_path: Path, family: str, options: dict[str, Any]) -> None:
    """The same tokens as `model.generate` writes, drawn in the same order."""
    of = tiny.hermes()
    model, rules = tiny.model(of, layers=2, family=family), tiny.policies(tmp_path)
    prompt = of("user: hello")["input_ids"]
    for seed in range(5):
        torch.manual_seed(seed)
        theirs = model.generate(torch.tensor([prompt]), max_new_tokens=30, **options)[0, len(prompt) :].tolist()
        ours = guarded_generate(
            model,
            of,
            prompt,
            tiny.TOOLS,
            tiny.session(rules),
            seed=seed,
            max_new_tokens=30,
            tool_format="mistral",
            **options,
        )
        assert [*ours.tokens] == [token for token in theirs if token != of.eos_token_id]


def test_the_models_own_configuration_holds(tmp_path: Path) -> None:
    """Missing options come from the model's generation configuration, as for `model.generate`."""
    of = tiny.hermes()
    model = tiny.model(of)
    model.generation_config.update(do_sample=True, temperature=0.8, top_k=20, top_p=0.95, repetition_penalty=1.3)
    prompt = of("user: hello")["input_ids"]
    torch.manual_seed(3)
    theirs = model.generate(torch.tensor([prompt]), max_new_tokens=30)[0, len(prompt) :].tolist()
    torch.manual_seed(3)
    ours = guarded_generate(
        model, of, prompt, tiny.TOOLS, tiny.session(tiny.policies(tmp_path)), max_new_tokens=30, tool_format="mistral"
    )
    assert [*ours.tokens] == [token for token in theirs if token != of.eos_token_id]
