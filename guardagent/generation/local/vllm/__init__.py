"""Guarded decoding in vLLM: it cannot backtrack, so tokens that would complete a denied call are masked.

    llm = LLM("Qwen/Qwen3-8B", logits_processors=[GuardedLogitsProcessor])
    request = GuardedRequest(tokenizer, tools, session)
    [output] = llm.chat(messages, SamplingParams(extra_args=request.extra_args), tools=tools)
    calls = request.release(output.outputs[0].token_ids)

- `guarded_request`: one request, found by its id; `masked_row`: one request in the engine's batch
- `batch_rows`, `request_slots`: the batch of vLLM's first and second model runner
- `logits_processor`: `GuardedLogitsProcessor`, the class for vLLM. Only this module needs vLLM
"""

from __future__ import annotations

from guardagent.generation.local.vllm.guarded_request import GuardedRequest

__all__ = ["GuardedRequest"]
