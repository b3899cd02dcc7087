"""Chat completions of a local model whose tool calls are guarded while it writes them: `guardagent generate-server`.

- `requests`: a request, read
- `generation`: the conversations with the calls that the guard allowed in them, and the thread that runs the model
- `application`: the ASGI application, and its answers, whole or streamed

This file loads a model, and serves its completions at an address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from guardagent._support.http import HttpAdmission, HttpEndpoint, RequestLimits, serve
from guardagent.enforcement import ToolGuard
from guardagent.errors import InputError
from guardagent.generation.local import GuardedBatch, TransformersBatch
from guardagent.log import AuditLog
from guardagent.server.completions.application import CompletionsApplication, CompletionSettings
from guardagent.server.completions.generation import GenerationThread, ServedConversations


def load_batch(model: str, *, device: str, dtype: str, slots: int, max_length: int) -> GuardedBatch:
    """Loads a model with its tokenizer from a folder.

    Args:
        model: the folder.
        device: its device.
        dtype: the type of its numbers.
        slots: the most turns at once.
        max_length: the most tokens of a prompt with its turn; the model's own limit, if that is lower.

    Raises:
        InputError: it cannot be loaded.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if not Path(model).is_dir():
        raise InputError(f"'{model}' is not a folder; expected a transformers model folder")
    try:
        tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
        loaded = AutoModelForCausalLM.from_pretrained(model, dtype=dtype, local_files_only=True).to(device).eval()
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        raise InputError(f"the model in '{model}' cannot be loaded: {error}") from None
    longest = getattr(loaded.config.get_text_config(decoder=True), "max_position_embeddings", None) or max_length
    return GuardedBatch(TransformersBatch(loaded, slots, min(max_length, longest)), tokenizer)


def open_guard(
    policies: Sequence[Path], state: str | None, log: Path | None, principals: Mapping[str, Any] | None
) -> ToolGuard:
    """Opens the guard of all conversations.

    Args:
        policies: the policy files.
        state: the address of the ledger; None to keep conversations in memory.
        log: the file of the audit log; None for none.
        principals: the principals of conversations; None if callers are not known.

    Raises:
        InputError: the policies are invalid, or a store cannot be opened.
    """
    principal = None if principals is None else principals.get
    return ToolGuard(list(policies), ledger=state, log=None if log is None else AuditLog(log), principal=principal)


async def run_completions_server(
    settings: CompletionSettings,
    conversations: ServedConversations,
    batch: GuardedBatch,
    endpoint: HttpEndpoint[RequestLimits],
) -> None:
    """Serves until it is stopped.

    Raises:
        InputError: the address is not available.
    """
    thread = GenerationThread(batch, conversations, endpoint.limits.requests)
    admission = HttpAdmission(endpoint.hosts, endpoint.authenticate)
    try:
        await serve(CompletionsApplication(settings, conversations, thread, admission, endpoint.limits), endpoint)
    finally:
        thread.close()
