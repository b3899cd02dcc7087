"""Models of llama.cpp, through llama-cpp-python. The memory of keys and values is truncated with the tokens."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from guardagent.errors import InputError

_ENDS: weakref.WeakKeyDictionary[Any, tuple[int, ...]] = weakref.WeakKeyDictionary()
_CHECKED: weakref.WeakKeyDictionary[Any, weakref.WeakSet[Any]] = weakref.WeakKeyDictionary()
_BACKEND_ERRORS = (RuntimeError, ValueError)


@dataclass(frozen=True, slots=True)
class LlamaCppDefaults:
    """The defaults of a GGUF: only the tokens that end a turn."""

    eos_token_id: tuple[int, ...]


class LlamaCpp:
    """Runs a `llama_cpp.Llama`, which keeps the computation on the longest prefix shared with its last sequence.

    Args:
        model: the model. While a turn is generated, nothing else may use it.
    """

    def __init__(self, model: Any) -> None:
        import llama_cpp

        if llama_cpp.llama_model_is_recurrent(model.model) or llama_cpp.llama_model_is_hybrid(model.model):
            raise InputError(
                "the model keeps a recurrent state, which cannot be truncated; expected attention layers only"
            )
        self._api, self._model = llama_cpp, model
        self._window = int(llama_cpp.llama_model_n_swa(model.model))
        self.defaults = LlamaCppDefaults(self._end_tokens())
        self._tokens: list[int] = []
        self._logits: Any = None

    def check_tokenizer(self, tokenizer: Any) -> None:
        """Compares the tokens of a tokenizer with those of the model.

        Raises:
            InputError: one differs, or the tokenizer has more tokens.
        """
        checked = _CHECKED.setdefault(self._model, weakref.WeakSet())
        if tokenizer in checked:
            return
        if len(tokenizer) > self._model.n_vocab():
            raise InputError(
                f"the tokenizer has {len(tokenizer)} tokens, and the model {self._model.n_vocab()}; "
                "expected the tokenizer of this model"
            )
        vocabulary = self._api.llama_model_get_vocab(self._model.model)
        for token, text in enumerate(tokenizer.convert_ids_to_tokens(range(len(tokenizer)))):
            model_text = self._api.llama_vocab_get_text(vocabulary, token).decode(errors="replace")
            if model_text != text:
                raise InputError(
                    f"token {token} is {text!r} in the tokenizer and {model_text!r} in the model; "
                    "expected the tokenizer of this model"
                )
        checked.add(tokenizer)

    def start(self, prompt: Sequence[int]) -> None:
        if not prompt:
            raise InputError("the prompt is empty; expected at least one token")
        self._tokens, self._logits = list(prompt), None
        self._truncate(min(self._shared(), len(prompt) - 1))

    def step(self, token: int) -> None:
        self._tokens.append(token)
        self._logits = None

    def logits(self) -> Any:
        if self._logits is None:
            self._truncate(min(self._model.n_tokens, len(self._tokens) - 1))
            self._compute(self._tokens[self._model.n_tokens :])
        return self._logits

    def cut(self, length: int) -> None:
        if length < len(self._tokens):
            del self._tokens[length:]
            self._logits = None
            self._truncate(min(self._model.n_tokens, length - 1))  # the last token is computed again, for its logits

    def _compute(self, tokens: Sequence[int]) -> None:
        import numpy as np
        import torch

        if len(self._tokens) > self._model.n_ctx():
            raise InputError(
                f"the sequence has {len(self._tokens)} tokens; expected at most {self._model.n_ctx()}, the 'n_ctx' of "
                "the model"
            )
        try:
            self._model.eval(tokens)
        except _BACKEND_ERRORS as error:
            self._model.reset()
            raise InputError(f"llama.cpp cannot compute the sequence: {error}") from error
        pointer = self._api.llama_get_logits_ith(self._model.ctx, -1)
        self._logits = torch.from_numpy(np.ctypeslib.as_array(pointer, (self._model.n_vocab(),)).copy())

    def _shared(self) -> int:
        """The number of tokens that are computed already."""
        computed = self._model.input_ids[: self._model.n_tokens].tolist()
        pairs = enumerate(zip(computed, self._tokens, strict=False))
        return next((at for at, (old, new) in pairs if old != new), min(len(computed), len(self._tokens)))

    def _truncate(self, length: int) -> None:
        """Truncates the memory, or clears it if it has lost what the kept tokens attend to."""
        if length >= self._model.n_tokens:
            return
        memory = self._api.llama_get_memory(self._model.ctx)
        if not self._api.llama_memory_seq_rm(memory, 0, length, -1) or not self._is_whole(memory, length):
            self._api.llama_memory_clear(memory, False)  # noqa: FBT003 - positional only
            length = 0
        self._model.n_tokens = length

    def _is_whole(self, memory: Any, length: int) -> bool:
        """Whether no token that the next one attends to has left a sliding window."""
        if not self._window or not length:
            return True
        first: int = self._api.llama_memory_seq_pos_min(memory, 0)
        return 0 <= first <= max(0, length - self._window)

    def _end_tokens(self) -> tuple[int, ...]:
        end = _ENDS.get(self._model)
        if end is None:
            vocabulary, is_end = self._api.llama_model_get_vocab(self._model.model), self._api.llama_vocab_is_eog
            end = tuple(token for token in range(self._model.n_vocab()) if is_end(vocabulary, token))
            _ENDS[self._model] = end
        return end


def engine(model: Any) -> LlamaCpp | None:
    """The engine of a `llama_cpp.Llama`; None for any other object."""
    loaded = sys.modules.get("llama_cpp")
    return LlamaCpp(model) if loaded is not None and isinstance(model, loaded.Llama) else None
