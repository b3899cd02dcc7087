"""The class for vLLM's `logits_processors`. It follows the interfaces of both of vLLM's model runners."""

from __future__ import annotations

from typing import Any

from guardagent._support.requirements import install_hint
from guardagent.errors import InputError
from guardagent.generation.local.vllm import KEY, BatchRows, RequestSlots, find_request

try:
    from vllm.v1.sample.logits_processor import LogitsProcessor as BatchLogitsProcessor
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as SlotLogitsProcessor
except ImportError as missing:
    raise InputError(f"{missing}; for guarded decoding in vLLM {install_hint('vllm')}") from missing


class GuardedLogitsProcessor(BatchLogitsProcessor, SlotLogitsProcessor):
    """Masks tokens that would complete a denied call, in every request of an engine.

    The first model runner constructs it with a device and a flag, and reports changes of its batch (`update_state`).
    The second constructs it with the state of its requests, and adds each (`add_request`).

    Args:
        config: vLLM's configuration.
        place: a device, or the state of the requests.
    """

    def __init__(self, config: Any, place: Any, _is_pin_memory: Any = None) -> None:
        if getattr(config, "speculative_config", None) is not None:
            raise InputError("speculative decoding proposes tokens that are not checked; expected an engine without it")
        self._rows = BatchRows()
        self._slots = RequestSlots(place)

    @classmethod
    def validate_params(cls, params: Any) -> None:
        """Refuses a request that could not be guarded.

        Raises:
            ValueError: it names no guarded request of this process, or has an option that does not fit.
        """
        if find_request(params.extra_args) is None:
            raise ValueError(f"'extra_args' has no {KEY!r} of a guarded request in this process")
        unfit = {"n": params.n != 1, "min_tokens": params.min_tokens > 0}
        unfit |= {name: getattr(params, name) is not None for name in ("structured_outputs", "allowed_token_ids")}
        if names := [name for name, is_unfit in unfit.items() if is_unfit]:
            raise ValueError(f"{', '.join(map(repr, names))} cannot be used in a guarded request")

    def is_argmax_invariant(self) -> bool:
        """It may mask the likeliest token."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Follows a change of the first runner's batch."""
        self._rows.update(batch_update)

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Adds a request of the second runner. All of them are masked."""
        self._slots.add(req_idx, sampling_params)
        return True

    def apply(self, logits: Any, ctx: Any = None) -> Any:
        """Masks the logits of a step in place."""
        return self._rows.apply(logits) if ctx is None else self._slots.apply(logits, ctx)


__all__ = ["GuardedLogitsProcessor"]
