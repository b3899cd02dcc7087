"""Models of llama.cpp: their memory is truncated with the tokens, and no denied call leaves them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("llama_cpp")
pytest.importorskip("gguf")

import llama_cpp
import torch
from transformers import AutoTokenizer

from guardagent import InputError
from guardagent.generation.local import GeneratedCall, ModelEngine, guarded_generate
from guardagent.generation.local.decoder import engine_of
from guardagent.generation.local.llama_cpp import LlamaCpp
from tests.generation.engines import gguf_files
from tests.generation.local import tiny

F32 = 0  # llama.cpp's number of that type: the default, half precision, would blur comparisons


def loaded(path: Path, **options: Any) -> Any:
    kept = {"n_ctx": 512, "n_threads": 1, "verbose": False, "type_k": F32, "type_v": F32, **options}
    return llama_cpp.Llama(str(path), **kept)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gguf")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tiny.hermes()


@pytest.fixture(scope="module")
def llama_file(folder: Path, tokenizer: Any) -> Path:
    return gguf_files.write_llama(folder / "llama.gguf", tokenizer, tiny.model(tokenizer, layers=2))


@pytest.fixture(scope="module")
def llama(llama_file: Path) -> Any:
    return loaded(llama_file)


@pytest.fixture(scope="module")
def engine(llama: Any) -> LlamaCpp:
    return LlamaCpp(llama)


def fresh(path: Path, tokens: Sequence[int], **options: Any) -> torch.Tensor:
    """The logits after some tokens, computed at once by a model that has computed nothing else."""
    engine = LlamaCpp(loaded(path, **options))
    engine.start(tokens)
    logits: torch.Tensor = engine.logits()
    return logits


def distance(tensor: torch.Tensor, other: torch.Tensor) -> float:
    return float((tensor - other).abs().max())


def test_it_is_found(llama: Any) -> None:
    """A `llama_cpp.Llama` has its engine; other objects have none of this kind."""
    assert isinstance(engine_of(llama), LlamaCpp)
    assert isinstance(LlamaCpp(llama), ModelEngine)


def test_the_logits_are_those_of_transformers(engine: LlamaCpp, tokenizer: Any) -> None:
    """The same weights compute the same."""
    tokens = tokenizer("user: hello")["input_ids"]
    engine.start(tokens)
    with torch.no_grad():
        theirs = tiny.model(tokenizer, layers=2)(torch.tensor([tokens])).logits[0, -1]
    assert distance(engine.logits(), theirs) < 1e-3


def test_after_start_step_and_cut_the_logits_are_fresh(engine: LlamaCpp, llama_file: Path) -> None:
    """Truncated tokens leave nothing behind, and the second prompt reuses the prefix of the first."""
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 300, (40,), generator=draw).tolist()
    engine.start(tokens[:20])
    assert distance(engine.logits(), fresh(llama_file, tokens[:20])) < 1e-4
    for token in tokens[20:30]:
        engine.step(token)
    assert distance(engine.logits(), fresh(llama_file, tokens[:30])) < 1e-4
    for length in (29, 25, 12, 1):
        engine.cut(length)
        assert distance(engine.logits(), fresh(llama_file, tokens[:length])) < 1e-4
    other = [*tokens[:15], *tokens[30:40]]
    engine.start(other)
    assert distance(engine.logits(), fresh(llama_file, other)) < 1e-4
    engine.start(other)
    assert distance(engine.logits(), fresh(llama_file, other)) < 1e-4


def test_after_a_cut_it_continues_as_if_never_away(engine: LlamaCpp) -> None:
    """The logits of each later step are those of a run without the detour."""
    prompt, path, detour = [5, 6, 7], [8, 9, 10, 11], [20, 21, 22]
    engine.start(prompt)
    straight = []
    for token in path:
        engine.step(token)
        straight.append(engine.logits())
    engine.start(prompt)
    for at, token in enumerate(path):
        for wrong in detour:
            engine.step(wrong)
            engine.logits()
        engine.cut(len(prompt) + at)
        engine.step(token)
        assert distance(engine.logits(), straight[at]) < 1e-4


def test_uncomputed_tokens_can_be_cut(engine: LlamaCpp, llama_file: Path) -> None:
    """Tokens that were appended without asking for logits were not computed."""
    engine.start([1, 2, 3])
    engine.step(4)
    engine.step(5)
    engine.cut(4)
    assert distance(engine.logits(), fresh(llama_file, [1, 2, 3, 4])) < 1e-4


@pytest.mark.parametrize("full", [True, False])
def test_a_sliding_window_that_has_moved_on_is_computed_again(folder: Path, tokenizer: Any, full: bool) -> None:
    """With a cache of the window alone, tokens have left it; with a full one, none have."""
    path = gguf_files.write_gemma(folder / f"gemma{full}.gguf", tokenizer, 8)
    options = {"swa_full": full, "n_batch": 8, "n_ubatch": 8, "n_ctx": 1024}
    engine = LlamaCpp(loaded(path, **options))
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 300, (700,), generator=draw).tolist()
    engine.start(tokens)
    engine.logits()
    for length in (699, 690, 600, 300, 20, 3):
        engine.cut(length)
        assert distance(engine.logits(), fresh(path, tokens[:length], **options)) < 1e-4


def test_a_recurrent_state_is_refused(folder: Path, tokenizer: Any) -> None:
    """It cannot be truncated."""
    with pytest.raises(InputError, match="recurrent state"):
        LlamaCpp(loaded(gguf_files.write_mamba(folder / "mamba.gguf", tokenizer)))


def test_a_sequence_longer_than_the_context_is_an_error(engine: LlamaCpp) -> None:
    """The message names the option; the model is usable afterwards."""
    engine.start([1] * 513)
    with pytest.raises(InputError, match="'n_ctx'"):
        engine.logits()
    engine.start([1, 2])
    assert engine.logits().isfinite().all()
    with pytest.raises(InputError, match="the prompt is empty"):
        engine.start([])


def test_the_tokenizer_must_be_the_models(llama: Any, engine: LlamaCpp, tokenizer: Any) -> None:
    """Every token is compared; the unused ones at the end of a model are not the tokenizer's."""
    engine.check_tokenizer(tokenizer)
    other = tiny.tokenizer(["another text"] * 3, added=["<tool_call>", "</tool_call>"])
    with pytest.raises(InputError, match=r"token \d+ is .* in the tokenizer"):
        guarded_generate(llama, other, tiny.CHAT, tiny.TOOLS, None)
    with pytest.raises(InputError, match="expected the tokenizer of this model"):
        engine.check_tokenizer(tiny.tokenizer(size=500, added=[f"<{number}>" for number in range(300)]))


def test_transformers_reads_the_tokenizer_of_a_gguf(folder: Path) -> None:
    """The same tokens, ends and chat template; transformers expects the special token of GPT-2."""
    tokenizer = tiny.tokenizer(special=["<|endoftext|>"], added=["<tool_call>", "</tool_call>"])
    path = gguf_files.write_llama(folder / "special.gguf", tokenizer, tiny.model(tokenizer))
    read, engine = AutoTokenizer.from_pretrained(str(folder), gguf_file=path.name), LlamaCpp(loaded(path))
    engine.check_tokenizer(read)
    assert read.get_vocab().items() >= tokenizer.get_vocab().items()
    assert read.chat_template == tokenizer.chat_template
    assert tokenizer.eos_token_id in engine.defaults.eos_token_id


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_without_a_backtrack_the_tokens_are_those_without_a_guard(
    llama: Any, tokenizer: Any, tmp_path: Path, mode: Any
) -> None:
    """With the same seed."""
    policy = "version: 1\npolicies:\n  - id: small\n    temporal: forall(refund(amount=a), a <= 500)\n"
    rules, calls = tiny.policies(tmp_path, policy), 0
    for seed in range(10):
        options: dict[str, Any] = {"do_sample": True, "seed": seed, "max_new_tokens": 40, "tool_choice": "required"}
        free = guarded_generate(llama, tokenizer, tiny.CHAT, tiny.TOOLS, None, **options)
        guarded = guarded_generate(llama, tokenizer, tiny.CHAT, tiny.TOOLS, tiny.session(rules), mode=mode, **options)
        assert guarded.tokens == free.tokens
        assert guarded.backtracks == 0
        calls += len(guarded.calls)
    assert calls > 5


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_no_call_violates(llama: Any, tokenizer: Any, tmp_path: Path, mode: Any) -> None:
    """Of the calls of 200 turns in each mode, none does, though many were denied; they are in flight."""
    rules, backtracks = tiny.policies(tmp_path), 0
    calls: list[GeneratedCall] = []
    for seed in range(200):
        session = tiny.session(rules)
        turn = guarded_generate(
            llama, tokenizer, tiny.CHAT, tiny.TOOLS, session, mode=mode, do_sample=True, seed=seed,
            tool_choice="required", max_new_tokens=40, max_total_tokens=1000,
        )  # fmt: skip
        assert [(event.tool, event.args) for event in session.history[2:]] == [
            (call.tool, call.args) for call in turn.calls
        ]
        calls += turn.calls
        backtracks += turn.backtracks
    assert not [call for call in calls if tiny.violates((call.tool, call.args))]
    assert len(calls) > 150
    assert backtracks > 100
