"""The tokens of a prompt, and those that end a turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from guardagent.errors import InputError
from guardagent.generation.local.tool_schemas import definitions

_PROMPT_END = 32
_EXPECTED = "expected chat messages, a string, or a list of tokens"


def prompt_tokens(tokenizer: Any, messages: Any, tools: Iterable[Any]) -> list[int]:
    """The tokens of a prompt: chat messages, a string, or a list of tokens.

    Raises:
        InputError: the prompt is none of these, the tokenizer is not a fast tokenizer, or it has no chat template.
    """
    _check_tokenizer(tokenizer)
    if isinstance(messages, str):
        return list(tokenizer(messages)["input_ids"])
    if not isinstance(messages, Sequence):
        raise InputError(f"'messages' is a {type(messages).__name__}; {_EXPECTED}")
    if all(type(one) is int for one in messages):
        return list(messages)
    if not all(isinstance(one, Mapping) for one in messages):
        raise InputError(f"'messages' contains an item that is not a message; {_EXPECTED}")
    return _of_chat(tokenizer, messages, tools)


def _of_chat(tokenizer: Any, messages: Sequence[Any], tools: Iterable[Any]) -> list[int]:
    if not getattr(tokenizer, "chat_template", None):
        raise InputError("the tokenizer has no chat template; expected the prompt as a string or a list of tokens")
    text = tokenizer.apply_chat_template(
        list(messages), tools=definitions(tools) or None, add_generation_prompt=True, tokenize=False
    )
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def prompt_end(tokenizer: Any, prompt: Sequence[int]) -> str:
    """The last characters of a prompt, which may be the opening mark of thinking."""
    return str(tokenizer.decode(prompt[-_PROMPT_END:], skip_special_tokens=False))


def end_tokens(tokenizer: Any, defaults: Any) -> list[int]:
    """The tokens that end a turn, from the model's configuration or else the tokenizer.

    Raises:
        InputError: neither defines one, or the tokenizer is not a fast tokenizer.
    """
    _check_tokenizer(tokenizer)
    for found in (getattr(defaults, "eos_token_id", None), tokenizer.eos_token_id):
        if found is not None:
            return [int(one) for one in found] if isinstance(found, Iterable) else [int(found)]
    raise InputError("no token ends a turn; expected an 'eos_token_id' in the model's configuration or the tokenizer")


def _check_tokenizer(tokenizer: Any) -> None:
    from transformers import PreTrainedTokenizerFast

    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise InputError(f"'tokenizer' is a {type(tokenizer).__name__}; expected a fast tokenizer of transformers")
