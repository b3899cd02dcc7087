"""The guard within transformers' own `model.generate`."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from guardagent import GuardError, InputError
from guardagent.generation.local import GeneratedCall, GuardedLogits
from tests.generation.local import tiny

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def random_model() -> tuple[Any, Any]:
    of = tiny.hermes()
    return tiny.model(of), of


def generated(random_model: tuple[Any, Any], processor: GuardedLogits, seed: int = 0, **options: Any) -> Any:
    model, of = random_model
    torch.manual_seed(seed)
    prompt = torch.tensor([of("user: hello")["input_ids"]])
    return model.generate(prompt, logits_processor=[processor], max_new_tokens=40, **{"do_sample": True, **options})


def test_no_denied_call_is_completed(random_model: tuple[Any, Any], tmp_path: Path) -> None:
    """Of 60 turns that begin with a call; the calls are in flight."""
    rules = tiny.policies(tmp_path)
    released: list[GeneratedCall] = []
    for seed in range(60):
        session = tiny.session(rules)
        processor = GuardedLogits(random_model[1], tiny.TOOLS, session, tool_choice="required")
        calls = processor.release(generated(random_model, processor, seed))
        assert [(event.tool, event.args) for event in session.history[2:]] == [(call.tool, call.args) for call in calls]
        released += calls
    assert len(released) > 55
    assert len({call.tool for call in released}) > 3
    assert not [call for call in released if tiny.violates((call.tool, call.args))]


def test_without_calls_it_changes_nothing(random_model: tuple[Any, Any], tmp_path: Path) -> None:
    """The tokens are those of the model alone."""
    model, of = random_model
    processor = GuardedLogits(of, tiny.TOOLS, tiny.session(tiny.policies(tmp_path)), tool_format="mistral")
    guarded = generated(random_model, processor)
    torch.manual_seed(0)
    alone = model.generate(torch.tensor([of("user: hello")["input_ids"]]), max_new_tokens=40, do_sample=True)
    assert torch.equal(guarded, alone)
    assert processor.release(guarded) == ()


def test_a_turn_without_an_allowed_way_on_ends(random_model: tuple[Any, Any], tmp_path: Path) -> None:
    """Every tool is forbidden: the turn that has to be a call ends before a name is whole."""
    session = tiny.policies(
        tmp_path, "version: 1\nunlisted: deny\npolicies:\n  - id: a\n    temporal: G !tool:b\n"
    ).session()
    processor = GuardedLogits(random_model[1], tiny.TOOLS, session, tool_choice="required")
    sequence = generated(random_model, processor)
    assert sequence[0, -1] == random_model[1].eos_token_id
    assert processor.release(sequence) == ()
    assert session.history == ()


def test_it_is_for_one_turn_of_one_sequence(random_model: tuple[Any, Any], tmp_path: Path) -> None:
    """Several sequences, a second turn and a second release are refused."""
    rules = tiny.policies(tmp_path)
    processor = GuardedLogits(random_model[1], tiny.TOOLS, tiny.session(rules))
    with pytest.raises(InputError, match="nothing to release"):
        processor.release(torch.tensor([[1]]))
    with pytest.raises(InputError, match="2 sequences"):
        generated(random_model, processor, num_return_sequences=2)
    processor.release(generated(random_model, processor))
    with pytest.raises(InputError, match="once"):
        processor.release(torch.tensor([[1]]))
    with pytest.raises(InputError, match="each turn"):
        generated(random_model, processor)


def test_calls_that_were_overtaken_are_not_released(random_model: tuple[Any, Any], tmp_path: Path) -> None:
    """They are judged together with other events of the session."""
    policy = "version: 1\npolicies:\n  - id: nothing_after\n    temporal: G(tool:stop -> G tool:stop)\n"
    session = tiny.policies(tmp_path, policy).session()
    processor = GuardedLogits(random_model[1], tiny.TOOLS, session, tool_choice="required")
    sequence = generated(random_model, processor)
    session.check("stop")
    with pytest.raises(GuardError, match="no longer allowed"):
        processor.release(sequence)
    assert [event.tool for event in session.history] == ["stop"]
