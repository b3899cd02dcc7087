"""Tiny models with random weights as GGUF files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch

Tensors = dict[str, Any]


def write_llama(path: Path, of: Any, model: Any) -> Path:
    """Writes a Llama model of transformers."""
    config, weights = model.config, {name: value.detach() for name, value in model.state_dict().items()}
    tensors: Tensors = {
        "token_embd": weights["model.embed_tokens.weight"],
        "output_norm": weights["model.norm.weight"],
        "output": weights["lm_head.weight"],
    }
    for layer in range(config.num_hidden_layers):
        theirs, ours = f"model.layers.{layer}", f"blk.{layer}"
        heads = config.num_attention_heads
        tensors[f"{ours}.attn_q"] = _interleaved(weights[f"{theirs}.self_attn.q_proj.weight"], heads)
        tensors[f"{ours}.attn_k"] = _interleaved(weights[f"{theirs}.self_attn.k_proj.weight"], heads)
        tensors[f"{ours}.attn_v"] = weights[f"{theirs}.self_attn.v_proj.weight"]
        tensors[f"{ours}.attn_output"] = weights[f"{theirs}.self_attn.o_proj.weight"]
        tensors[f"{ours}.attn_norm"] = weights[f"{theirs}.input_layernorm.weight"]
        tensors[f"{ours}.ffn_norm"] = weights[f"{theirs}.post_attention_layernorm.weight"]
        for part in ("gate", "up", "down"):
            tensors[f"{ours}.ffn_{part}"] = weights[f"{theirs}.mlp.{part}_proj.weight"]
    writer = _writer(path, "llama", of, config.vocab_size, config.hidden_size, config.num_hidden_layers)
    _add_attention(writer, config.num_attention_heads, config.hidden_size // config.num_attention_heads)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    return _finished(writer, tensors)


def write_gemma(path: Path, of: Any, window: int) -> Path:
    """Writes a model with a sliding window in five of six layers."""
    vocabulary, width, heads, size, layers = len(of), 32, 2, 16, 6
    draw = torch.Generator().manual_seed(0)
    tensors: Tensors = {"token_embd": _random(draw, vocabulary, width), "output_norm": torch.ones(width)}
    for layer in range(layers):
        name = f"blk.{layer}"
        for norm in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            tensors[f"{name}.{norm}"] = torch.ones(width)
        for norm in ("attn_q_norm", "attn_k_norm"):
            tensors[f"{name}.{norm}"] = torch.ones(size)
        for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
            tensors[f"{name}.{part}"] = _random(draw, width, width)
    writer = _writer(path, "gemma3", of, vocabulary, width, layers)
    _add_attention(writer, heads, size)
    writer.add_feed_forward_length(width)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_sliding_window(window)
    return _finished(writer, tensors)


def write_mamba(path: Path, of: Any) -> Path:
    """Writes a model with a recurrent state."""
    vocabulary, width, inner, state, rank = len(of), 16, 32, 8, 1
    draw = torch.Generator().manual_seed(0)
    tensors: Tensors = {
        "token_embd": _random(draw, vocabulary, width),
        "output_norm": torch.ones(width),
        "blk.0.attn_norm": torch.ones(width),
        "blk.0.ssm_in": _random(draw, 2 * inner, width),
        "blk.0.ssm_conv1d": _random(draw, inner, 4),
        "blk.0.ssm_conv1d.bias": torch.zeros(inner),
        "blk.0.ssm_x": _random(draw, rank + 2 * state, inner),
        "blk.0.ssm_dt": _random(draw, inner, rank),
        "blk.0.ssm_dt.bias": torch.zeros(inner),
        "blk.0.ssm_a": -torch.ones(inner, state),
        "blk.0.ssm_d": torch.ones(inner),
        "blk.0.ssm_out": _random(draw, width, inner),
    }
    writer = _writer(path, "mamba", of, vocabulary, width, 1)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_ssm_conv_kernel(4)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    writer.add_layer_norm_rms_eps(1e-5)
    return _finished(writer, tensors)


def _writer(path: Path, architecture: str, of: Any, vocabulary: int, width: int, layers: int) -> gguf.GGUFWriter:
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(4096)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_vocab_size(vocabulary)
    _add_tokenizer(writer, of, vocabulary)
    return writer


def _add_tokenizer(writer: gguf.GGUFWriter, of: Any, vocabulary: int) -> None:
    tokens = of.convert_ids_to_tokens(range(len(of)))
    added = set(of.get_added_vocab())
    kinds = [gguf.TokenType.USER_DEFINED if token in added else gguf.TokenType.NORMAL for token in tokens]
    for token in of.all_special_ids:
        kinds[token] = gguf.TokenType.CONTROL
    unused = range(len(of), vocabulary)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*tokens, *(f"[PAD{token}]" for token in unused)])
    writer.add_token_types([*kinds, *(gguf.TokenType.UNUSED for _ in unused)])
    merges = json.loads(of.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_eos_token_id(of.eos_token_id)
    writer.add_bos_token_id(of.eos_token_id)
    writer.add_chat_template(of.chat_template)


def _add_attention(writer: gguf.GGUFWriter, heads: int, size: int) -> None:
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_key_length(size)
    writer.add_value_length(size)
    writer.add_rope_dimension_count(size)


def _interleaved(weight: Any, heads: int) -> Any:
    """The rows of a projection in the order of llama.cpp, which rotates neighbouring values."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _random(draw: torch.Generator, *shape: int) -> Any:
    return torch.randn(*shape, generator=draw) * 0.3


def _finished(writer: gguf.GGUFWriter, tensors: Tensors) -> Path:
    for name, tensor in tensors.items():
        full = name if name.endswith((".bias", "ssm_a", "ssm_d")) else f"{name}.weight"
        writer.add_tensor(full, np.ascontiguousarray(tensor.float().numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Path(writer.path)
