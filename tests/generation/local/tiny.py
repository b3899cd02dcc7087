"""A tiny model with random weights, its tokenizer, six tools of a shop and their policy: all made here."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from guardagent import Event, load_policies
from guardagent.policy.policies import Policies
from guardagent.session.session import Session

torch.set_num_threads(1)

END = "<eos>"
ORDERS = ["W1", "W2", "W3"]
_ORDER = {"type": "string", "enum": ORDERS}


def tool(name: str, required: Sequence[str] = (), **properties: Any) -> dict[str, Any]:
    """A tool as models are told of it."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}


TOOLS = [
    tool("authenticate", ["user"], user={"type": "string", "enum": ["ann", "eve"]}),
    tool("get_order", ["order"], order=_ORDER),
    tool("refund", ["order", "amount"], order=_ORDER, amount={"type": "integer", "minimum": 0, "maximum": 99}),
    tool("cancel", ["order"], order=_ORDER, reason={"type": "string", "enum": ["late", "lost"]}),
    tool("send_mail", ["text"], text={"type": "string", "maxLength": 4}),
    tool("purge"),
]

POLICY = """
version: 1
policies:
  - id: authenticated
    temporal: G(tool:refund || tool:cancel || tool:get_order -> O tool:authenticate)
  - id: seen
    temporal: before(refund(order=o), true, g:get_order(order=o), true)
  - id: small
    temporal: forall(refund(amount=a), a <= 20)
  - id: reasoned
    temporal: forall(cancel(order=o, reason=r), r == "late" || o == "W3")
  - id: never
    temporal: G !tool:purge
  - id: other_users
    temporal: forall(authenticate(user=u), u == "ann")
"""

TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant: {# <tool_call> #}"
)
HISTORY = [("authenticate", {"user": "ann"}), ("get_order", {"order": "W2"})]


def violates(call: tuple[str, Mapping[str, Any]], before: Sequence[tuple[str, Mapping[str, Any]]] = HISTORY) -> bool:
    """The policy again, in plain code: whether a call breaks it after others that went well."""
    name, args = call
    known = [other for other, _ in before]
    seen = [earlier["order"] for other, earlier in before if other == "get_order"]
    if name in ("refund", "cancel", "get_order") and "authenticate" not in known:
        return True
    if name == "refund":
        return args["order"] not in seen or args["amount"] > 20
    if name == "cancel":
        return args["order"] != "W3" and args.get("reason") != "late"
    return name == "purge" or (name == "authenticate" and args["user"] != "ann")


def policies(folder: Path, text: str = POLICY) -> Policies:
    path = folder / "policy.yaml"
    path.write_text(text)
    return load_policies(path)


def session(rules: Policies, history: Sequence[tuple[str, Mapping[str, Any]]] = HISTORY) -> Session:
    """A conversation in which calls went well."""
    made = rules.session()
    for name, args in history:
        made.observe(Event(name, args, "ok", status="ok"), judge=False)
    return made


def written(name: str, args: Mapping[str, Any], key: str = "arguments") -> str:
    return json.dumps({"name": name, key: args}, ensure_ascii=False)


def samples() -> list[str]:
    """Texts as a model writes them, so that a call takes few tokens."""
    calls = [
        *(written("get_order", {"order": order}) for order in ORDERS),
        *(written("refund", {"order": order, "amount": 7}) for order in ORDERS),
        *(written("cancel", {"order": order, "reason": "late"}) for order in ORDERS),
        *(written("authenticate", {"user": user}) for user in ("ann", "eve")),
        written("purge", {}),
        written("send_mail", {"text": "hi"}),
    ]
    return [f"<tool_call>\n{call}\n</tool_call>" for call in calls] + ["user: hello", "assistant: yes"]


def tokenizer(
    texts: Sequence[str] = (),
    *,
    special: Sequence[str] = (),
    added: Sequence[str] = (),
    size: int = 420,
    words: bool = True,
) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer trained on some texts."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=words)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[END, *special],
        show_progress=False,
    )
    made.train_from_iterator([*(texts or samples())] * 5, trainer)
    made.add_tokens([AddedToken(text, special=False, normalized=False) for text in added])
    return PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token=END, additional_special_tokens=list(special), chat_template=TEMPLATE
    )


def hermes() -> PreTrainedTokenizerFast:
    """As Qwen's: the marks of a call are tokens of their own."""
    return tokenizer(added=["<tool_call>", "</tool_call>"])


def model(of: PreTrainedTokenizerFast, seed: int = 0, layers: int = 1, family: str = "llama", **options: Any) -> Any:
    """A model with random weights; peaked a little, so that it has opinions."""
    torch.manual_seed(seed)
    sizes = {
        "vocab_size": len(of) + 7,
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "initializer_range": 0.3,
        "eos_token_id": of.eos_token_id,
        "bos_token_id": None,
        "pad_token_id": of.eos_token_id,
        **options,
    }
    if family == "qwen2":
        return Qwen2ForCausalLM(Qwen2Config(**sizes)).eval()
    return LlamaForCausalLM(LlamaConfig(**sizes)).eval()


CHAT = [{"role": "user", "content": "hello"}]


class Known:
    """An engine whose turns are known: texts, each with how likely it is."""

    def __init__(self, of: PreTrainedTokenizerFast, texts: Mapping[str, float]) -> None:
        self.defaults = None
        self._end, self._size = of.eos_token_id, len(of)
        self._after: dict[tuple[int, ...], dict[int, float]] = {}
        for text, weight in texts.items():
            self._learn([*of(text)["input_ids"], self._end], weight)
        self._scores = {path: self._logits(weights) for path, weights in self._after.items()}

    def _learn(self, tokens: Sequence[int], weight: float) -> None:
        for at, token in enumerate(tokens):
            after = self._after.setdefault(tuple(tokens[:at]), {})
            after[token] = after.get(token, 0.0) + weight

    def _logits(self, weights: Mapping[int, float]) -> torch.Tensor:
        logits = torch.full((self._size,), -torch.inf)
        for token, weight in weights.items():
            logits[token] = math.log(weight)
        return logits

    def start(self, prompt: Sequence[int]) -> None:
        self._tokens: tuple[int, ...] = ()
        self._prompt = len(prompt)

    def logits(self) -> torch.Tensor:
        score = self._scores.get(self._tokens)
        return self._logits({self._end: 1.0}) if score is None else score

    def step(self, token: int) -> None:
        self._tokens = (*self._tokens, token)

    def cut(self, length: int) -> None:
        self._tokens = self._tokens[: length - self._prompt]


def turn(*calls: tuple[str, Mapping[str, Any]], text: str = "") -> str:
    """A turn in Hermes' format."""
    return text + "".join(f"<tool_call>\n{written(name, args)}\n</tool_call>" for name, args in calls)
