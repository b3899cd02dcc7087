"""The rows of vLLM's batches: each request keeps its own turn, wherever the engine puts it. Runs without vLLM."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from guardagent import GuardError, InputError
from guardagent.generation.local.checks import MaskedTurn
from guardagent.generation.local.vllm import BatchRows, GuardedRequest, RequestSlots
from tests.generation.engines import batch_runners
from tests.generation.engines.batch_runners import Change, Direction, FirstRunner, SecondRunner
from tests.generation.local import tiny

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def random_model() -> tuple[Any, Any]:
    of = tiny.hermes()
    return tiny.model(of), of


@pytest.fixture
def request_of(random_model: tuple[Any, Any], tmp_path: Path) -> Any:
    rules = tiny.policies(tmp_path)
    return lambda: batch_runners.requests(random_model[1], rules, 1)[0]


def alone(model: Any, of: Any, rules: Any, seed: int) -> list[int]:
    """The tokens of a turn without an engine around it."""
    turn = MaskedTurn(of, tiny.TOOLS, tiny.session(rules), tool_choice="required")
    running = batch_runners.Running(SimpleNamespace(ends=turn.ends), None, [1, 2], torch.Generator().manual_seed(seed))  # type: ignore[arg-type]
    while not running.is_over:
        logits = batch_runners.scores(model, running)
        allowed = turn.allowed(logits)
        running.choose(logits if allowed is None else logits.masked_fill(~torch.from_numpy(allowed), -torch.inf))
        turn.read(running.tokens[-1:])
    return running.tokens


def first() -> FirstRunner:
    rows = BatchRows()
    return FirstRunner(rows.update, rows.apply)


def second() -> SecondRunner:
    states = batch_runners.request_states()
    slots = RequestSlots(states)
    return SecondRunner(states, slots.add, slots.apply)


@pytest.mark.parametrize("runner", [first, second])
def test_in_a_batch_every_turn_is_as_alone(random_model: tuple[Any, Any], tmp_path: Path, runner: Any) -> None:
    """200 turns, four at a time, preempted and moved: the tokens are the same, and no call violates."""
    (model, of), rules = random_model, tiny.policies(tmp_path)
    requests = batch_runners.requests(of, rules, 200)
    turns = [batch_runners.running(request, seed) for seed, request in enumerate(requests)]
    assert batch_runners.run_all(runner(), model, [*turns]) > 50
    assert [turn.tokens for turn in turns[:40]] == [alone(model, of, rules, seed) for seed in range(40)]
    calls = [call for turn in turns for call in turn.request.release(turn.tokens)]
    assert len(calls) > 150
    assert not [call for call in calls if tiny.violates((call.tool, call.args))]


def allowed(logits: torch.Tensor) -> list[int]:
    allowed: list[int] = torch.isfinite(logits).nonzero().flatten().tolist()
    return allowed


def is_masked_by(rows: BatchRows, of: Any, size: int) -> list[list[int]]:
    return [allowed(row) for row in rows.apply(torch.zeros((size, len(of))))]


@pytest.mark.parametrize("kind", ["missing", "unknown", "dropped"])
def test_an_unknown_request_may_only_end(random_model: tuple[Any, Any], request_of: Any, kind: str) -> None:
    """Also if its caller no longer keeps it; without a token that ends a turn, it repeats one."""
    of, rows = random_model[1], BatchRows()
    extra = {"missing": None, "unknown": {"guardagent": "0"}, "dropped": request_of().extra_args}[kind]
    params = SimpleNamespace(extra_args=extra, all_stop_token_ids={of.eos_token_id})
    rows.update(Change(2, added=[(0, params, [1], []), (1, SimpleNamespace(), [1], [])]))
    assert is_masked_by(rows, of, 3) == [[of.eos_token_id], [0], [0]]


def test_rows_move(random_model: tuple[Any, Any], request_of: Any) -> None:
    """One way and by a swap: the operations count in the order removed, added, moved."""
    of, rows = random_model[1], BatchRows()
    known, ends = batch_runners.running(request_of()), [[of.eos_token_id]]
    other = SimpleNamespace(extra_args={}, all_stop_token_ids={of.eos_token_id})
    rows.update(Change(2, added=[(0, other, [1], []), (1, known.params, [1], [])]))
    opening = is_masked_by(rows, of, 2)[1]
    assert opening not in [*ends, [0]]
    rows.update(Change(2, moved=[(0, 1, Direction.SWAP)]))
    assert is_masked_by(rows, of, 2) == [opening, *ends]
    rows.update(Change(1, removed=[1], moved=[(0, 1, Direction.UNIDIRECTIONAL)]))
    assert is_masked_by(rows, of, 2) == [[0], opening]
    rows.update(Change(2, moved=[(0, 1, Direction.SWAP)]))
    assert is_masked_by(rows, of, 1) == [opening]
    rows.update(None)
    rows.update(Change(1, added=[(0, other, [1], [])]))
    assert is_masked_by(rows, of, 1) == ends


def test_a_request_has_one_row(random_model: tuple[Any, Any], request_of: Any) -> None:
    """The latest one; an earlier one may only end."""
    of, rows, running = random_model[1], BatchRows(), batch_runners.running(request_of())
    rows.update(Change(2, added=[(0, running.params, [1], []), (1, running.params, [1], [])]))
    before, now = is_masked_by(rows, of, 2)
    assert before == [of.eos_token_id] != now


def test_a_token_that_is_not_known_yet_ends_the_turn(random_model: tuple[Any, Any], request_of: Any) -> None:
    """Nothing can be checked after a placeholder."""
    of, rows, running = random_model[1], BatchRows(), batch_runners.running(request_of())
    rows.update(Change(1, added=[(0, running.params, [1], running.tokens)]))
    running.tokens.append(-1)
    assert is_masked_by(rows, of, 1) == [[of.eos_token_id]]


def test_replaced_tokens_are_read_anew(random_model: tuple[Any, Any], tmp_path: Path) -> None:
    """An engine may drop tokens, and generate others in their place; only the last ones count."""
    of, rules = random_model[1], tiny.policies(tmp_path)
    denied, fine = (
        of(tiny.turn(call))["input_ids"]
        for call in (("refund", {"order": "W1", "amount": 7}), ("refund", {"order": "W2", "amount": 7}))
    )
    (request,) = batch_runners.requests(of, rules, 1)
    running, rows = batch_runners.running(request), BatchRows()
    rows.update(Change(1, added=[(0, running.params, [1], running.tokens)]))
    running.tokens[:] = denied
    rows.apply(torch.zeros((1, len(of))))
    running.tokens[:] = fine
    rows.apply(torch.zeros((1, len(of))))
    assert [call.args for call in request.release(running.tokens)] == [{"order": "W2", "amount": 7}]


def test_a_part_of_a_prompt_is_not_masked(random_model: tuple[Any, Any], request_of: Any) -> None:
    """No token is generated after it."""
    of, running = random_model[1], batch_runners.running(request_of())
    states = batch_runners.request_states()
    states.prompt_len.np[0] = states.prefill_len.np[0] = 9
    slots = RequestSlots(states)
    slots.add(0, running.params)
    step = SimpleNamespace(expanded_idx_mapping=torch.tensor([0]), pos=torch.tensor([4]), input_ids=torch.tensor([1]))
    assert len(allowed(slots.apply(torch.zeros((1, len(of))), step)[0])) == len(of)
    step.pos += 4
    assert len(allowed(slots.apply(torch.zeros((1, len(of))), step)[0])) < len(of)


def test_a_problem_ends_the_turn_without_calls(random_model: tuple[Any, Any], tmp_path: Path) -> None:
    """The engine goes on, and the caller learns of it."""
    of, session = random_model[1], tiny.session(tiny.policies(tmp_path))
    request = GuardedRequest(of, tiny.TOOLS, session, tool_choice="required")
    running, rows = batch_runners.running(request), BatchRows()
    rows.update(Change(1, added=[(0, running.params, [1], running.tokens)]))
    running.tokens.append(of("x")["input_ids"][0])  # the grammar does not allow it
    assert is_masked_by(rows, of, 1) == [[of.eos_token_id]]
    with pytest.raises(GuardError, match="could not be checked: token"):
        request.release(running.tokens)


def test_calls_are_released_once_and_by_an_engine_of_this_process(
    random_model: tuple[Any, Any], request_of: Any
) -> None:
    """A request that no engine here has run has nothing to release."""
    request = request_of()
    with pytest.raises(InputError, match="VLLM_ENABLE_V1_MULTIPROCESSING=0"):
        request.release([])
    rows = BatchRows()
    rows.update(Change(1, added=[(0, batch_runners.running(request).params, [1], [])]))
    assert request.release([]) == ()
    with pytest.raises(InputError, match="already released"):
        request.release([])
    of = random_model[1]
    assert is_masked_by(rows, of, 1) == [[of.eos_token_id]]
