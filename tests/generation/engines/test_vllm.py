"""vLLM's own batch, sampler and interfaces, on a CPU without its kernels: what a model runner calls is what it gets."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("vllm")

import torch
from vllm import SamplingParams
from vllm.exceptions import VLLMValidationError
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.sample.logits_processor import LogitsProcessors, _load_logitsprocs_by_fqcns
from vllm.v1.sample.sampler import Sampler
from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsContext
from vllm.v1.worker.gpu.sample.logits_processor.loader import (
    _load_v2_logitsprocs_by_fqcns,
    build_custom_logits_processors_params_validator,
)
from vllm.v1.worker.gpu_input_batch import CachedRequestState, InputBatch

from guardagent import InputError
from guardagent.generation.local.vllm.logits_processor import GuardedLogitsProcessor
from tests.generation.engines import batch_runners
from tests.generation.engines.batch_runners import LONGEST, Running, SecondRunner
from tests.generation.local import tiny

CPU = torch.device("cpu")
CONFIG = SimpleNamespace(speculative_config=None)
NAME = "guardagent.generation.local.vllm.logits_processor:GuardedLogitsProcessor"


@pytest.fixture(scope="module")
def random_model() -> tuple[Any, Any]:
    of = tiny.hermes()
    return tiny.model(of), of


class InputBatchRunner:
    """vLLM's own batch of the first model runner, with the part of its sampler that applies logits processors."""

    def __init__(self, vocabulary: int) -> None:
        self._batch = InputBatch(
            max_num_reqs=4, max_model_len=128, max_num_batched_tokens=128, device=CPU, vocab_size=vocabulary,
            block_sizes=[16], max_num_blocks_per_req=[8], logitsprocs_need_output_token_ids=True,
            logitsprocs=LogitsProcessors([GuardedLogitsProcessor(CONFIG, CPU, False)]),  # noqa: FBT003 - as vLLM does
        )  # fmt: skip
        self._sampler = Sampler()
        self._running: dict[str, Running] = {}

    @property
    def rows(self) -> list[Running]:
        return list(self._running.values())

    def step(self, model: Any, leaving: list[Running], joining: list[Running], chance: random.Random) -> None:
        for running in leaving:
            del self._running[str(id(running))]
            self._batch.remove_request(str(id(running)))
        for running in joining:
            self._running[str(id(running))] = running
            self._batch.add_request(self._state(running))
        self._batch.condense()
        if len(self._running) > 1 and chance.random() < 0.3:
            self._batch.swap_states(*chance.sample(range(len(self._running)), 2))
        self._batch.refresh_metadata()
        rows = [self._running[name] for name in self._batch.req_ids]
        if rows:
            logits = torch.stack([batch_runners.scores(model, row) for row in rows])
            logits = self._sampler.apply_logits_processors(
                logits, self._batch.sampling_metadata, predict_bonus_token=False
            )
            for row, running in enumerate(rows):
                running.choose(logits[row])

    @staticmethod
    def _state(running: Running) -> CachedRequestState:
        return CachedRequestState(
            req_id=str(id(running)), prompt_token_ids=running.prompt, mm_features=[], sampling_params=running.params,
            generator=None, block_ids=([0],), num_computed_tokens=0, output_token_ids=running.tokens,
        )  # fmt: skip


def parameters(request: Any, **options: Any) -> SamplingParams:
    return SamplingParams(max_tokens=LONGEST, extra_args=request.extra_args, **options)


def first(vocabulary: int) -> Any:
    return InputBatchRunner(vocabulary)


def second(vocabulary: int) -> Any:
    del vocabulary
    states = batch_runners.request_states()
    processor = GuardedLogitsProcessor(CONFIG, states)
    return SecondRunner(states, processor.add_request, processor.apply, LogitsContext)


@pytest.mark.parametrize("runner", [first, second])
def test_no_call_violates(random_model: tuple[Any, Any], tmp_path: Path, runner: Any) -> None:
    """Of 200 turns, four at a time, preempted and moved by vLLM's own batch."""
    (model, of), rules = random_model, tiny.policies(tmp_path)
    requests = batch_runners.requests(of, rules, 200)
    turns = [batch_runners.running(request, seed, parameters(request)) for seed, request in enumerate(requests)]
    assert batch_runners.run_all(runner(len(of) + 7), model, [*turns]) > 50
    calls = [call for turn in turns for call in turn.request.release(turn.tokens)]
    assert len(calls) > 150
    assert not [call for call in calls if tiny.violates((call.tool, call.args))]


def test_vllm_loads_it_by_its_name() -> None:
    """With the loaders of both model runners."""
    assert _load_logitsprocs_by_fqcns([NAME, GuardedLogitsProcessor]) == [GuardedLogitsProcessor] * 2
    assert _load_v2_logitsprocs_by_fqcns([NAME, GuardedLogitsProcessor]) == [GuardedLogitsProcessor] * 2
    assert not GuardedLogitsProcessor(CONFIG, CPU, False).is_argmax_invariant()  # noqa: FBT003 - as vLLM does


def test_a_request_that_cannot_be_guarded_is_refused(random_model: tuple[Any, Any], tmp_path: Path) -> None:
    """As vLLM validates parameters: an unknown id, several sequences, and options that may mask the end."""
    validate = build_custom_logits_processors_params_validator([GuardedLogitsProcessor])
    (request,) = batch_runners.requests(random_model[1], tiny.policies(tmp_path), 1)
    validate(parameters(request))
    for extra in (None, {}, {"guardagent": "0"}, {"guardagent": 0}):
        with pytest.raises(VLLMValidationError, match="of a guarded request in this process"):
            validate(SamplingParams(extra_args=extra))
    unfit: list[dict[str, Any]] = [{"n": 2}, {"min_tokens": 3}, {"allowed_token_ids": [1]}]
    for option in [*unfit, {"structured_outputs": StructuredOutputsParams(regex="a")}]:
        with pytest.raises(VLLMValidationError, match=f"'{next(iter(option))}' cannot be used"):
            validate(parameters(request, **option))


def test_speculative_decoding_is_refused() -> None:
    """Its drafts are not checked."""
    with pytest.raises(InputError, match="speculative"):
        GuardedLogitsProcessor(SimpleNamespace(speculative_config=object()), CPU, False)  # noqa: FBT003 - as vLLM does
