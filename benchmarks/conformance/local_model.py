"""A tiny local model as an agent: random weights, made here, held to the grammar of calls and to the world's own ids.

It knows nothing, so that it proposes anything that the tools' schemas allow. Each turn is one call.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from benchmarks.conformance.agents import Observation
from benchmarks.conformance.shop import TOOLS
from benchmarks.conformance.tasks import Call, CustomerTask

TURNS = 8
LONGEST = 400  # tokens of a call; each is a byte
_CENTS = [-1, 0, 100, 500, 2_000, 2_001, 20_000, 20_001]


class LocalModel:
    """Proposes what the model writes."""

    def __init__(self, task: CustomerTask, chance: random.Random) -> None:
        self._tools = [_in_this_world(tool, task) for tool in TOOLS]
        self._chance = chance
        self._left = TURNS

    def propose(self, observation: Observation) -> Sequence[Call]:
        from guardagent.generation.local import guarded_generate

        self._left -= 1
        if self._left < 0:
            return []
        model, tokenizer = tiny_model()
        turn = guarded_generate(
            model,
            tokenizer,
            f"{observation.request}\n",
            self._tools,
            None,
            tool_format="hermes",
            tool_choice="required",
            parallel=False,
            max_new_tokens=LONGEST,
            do_sample=True,
            seed=self._chance.randrange(2**31),
        )
        return [(call.tool, dict(call.args)) for call in turn.calls][:1]


def _in_this_world(tool: Mapping[str, Any], task: CustomerTask) -> dict[str, Any]:
    """A tool whose arguments are values of this world: random free text would always be unknown."""
    function = tool["function"]
    properties = {name: {"enum": _values(name, task)} for name in function["parameters"]["properties"]}
    return {
        "type": "function",
        "function": {**function, "parameters": {**function["parameters"], "properties": properties}},
    }


def _values(name: str, task: CustomerTask) -> list[Any]:
    tables = {"order_id": "orders", "payment_id": "payments", "address_id": "addresses", "customer_id": "customers"}
    if name in tables:
        return sorted(task.database[tables[name]])
    values: dict[str, list[Any]] = {
        "email": [task.email],
        "pin": [task.pin, "000000"],
        "amount": _CENTS,
        "street": ["1 New Road"],
    }
    return values.get(name, ["changed mind", "ordered twice", "the manager allows it"])


@cache
def tiny_model() -> tuple[Any, Any]:
    """The model, and a tokenizer with a token for each byte."""
    import torch
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.set_num_threads(1)
    torch.manual_seed(0)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: at for at, letter in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken("<end>", special=True)])
    made.add_tokens([AddedToken(mark, normalized=False) for mark in ("<tool_call>", "</tool_call>")])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>")  # noqa: S106 - the name of a token
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=2048,
        eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    model: Any = LlamaForCausalLM(config)
    return model.eval(), tokenizer
