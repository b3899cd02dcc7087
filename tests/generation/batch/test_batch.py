"""Many turns at once: each keeps the guarantees that it has alone, whatever its neighbours do."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from guardagent.errors import GuardError, InputError
from guardagent.generation.local import (
    GeneratedCall,
    GuardedBatch,
    TransformersBatch,
    TurnRequest,
    guarded_generate,
    guarded_generate_batch,
)
from guardagent.policy.policies import Policies
from guardagent.session.session import Session
from tests.generation.local import tiny

pytestmark = pytest.mark.slow
LONGEST = 14
OPTIONS: dict[str, Any] = {
    "tool_format": "llama3",
    "do_sample": True,
    "max_new_tokens": LONGEST,
    "max_total_tokens": 560,
}


@pytest.fixture(scope="module")
def random_model() -> tuple[Any, Any]:
    """A model that writes as Llama 3 does, several calls in a turn."""
    calls = [text.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>") for text in tiny.samples()]
    texts = [call.replace("arguments", "parameters") for call in calls]
    of = tiny.tokenizer(texts, special=["<|python_tag|>"], size=500, words=False)
    return tiny.model(of, seed=7), of


@pytest.fixture
def rules(tmp_path: Path) -> Policies:
    return tiny.policies(tmp_path)


def request(seed: int, session: Session | None, **options: Any) -> TurnRequest:
    """A turn whose prompt, choice and mode differ with the seed."""
    varied = {"mode": ("exact", "fast")[seed % 2], "tool_choice": "auto" if seed % 5 == 0 else "required"}
    prompt = [1, 2 + seed % 50, *range(3, 3 + seed % 17)]
    return TurnRequest(prompt, tiny.TOOLS, session, seed=seed, **{**OPTIONS, **varied, **options})


def test_no_call_of_10000_turns_violates(random_model: tuple[Any, Any], rules: Policies) -> None:
    """Ten thousand sessions in batches of 16, judged by the rules in plain code; what was released is in flight."""
    model, of = random_model
    batch, turns = GuardedBatch(TransformersBatch(model, 16, 64), of), 0
    calls: list[GeneratedCall] = []
    for first in range(0, 10_000, 1000):
        requests = [request(first + at, tiny.session(rules)) for at in range(1000)]
        for turn_request, pending in zip(requests, batch.run(requests), strict=True):
            turn, session = pending.result(), turn_request.session
            assert session is not None
            assert [(event.tool, event.args) for event in session.history[2:]] == [
                (call.tool, call.args) for call in turn.calls
            ]
            calls += turn.calls
            turns += bool(turn.backtracks)
    assert len(calls) > 8000
    assert turns > 3000
    assert not [call for call in calls if tiny.violates((call.tool, call.args))]


def test_a_turn_is_the_same_alone_and_among_others(random_model: tuple[Any, Any], rules: Policies) -> None:
    """Its tokens are those that it has alone in a batch, with other neighbours, and without a batch."""
    model, of = random_model

    def tokens(seeds: Sequence[int]) -> dict[int, tuple[int, ...]]:
        batch = GuardedBatch(TransformersBatch(model, 16, 64), of)
        turns = batch.run(request(seed, tiny.session(rules)) for seed in seeds)
        return {seed: turn.result().tokens for seed, turn in zip(seeds, turns, strict=True)}

    together, backwards = tokens(range(300)), tokens(range(600)[::-1])
    for seed in range(300):
        assert backwards[seed] == together[seed]
    for seed in range(0, 300, 10):
        assert tokens([seed])[seed] == together[seed]
        seed_request = request(seed, None)
        options = {"mode": seed_request.mode, "tool_choice": seed_request.tool_choice, "seed": seed, **OPTIONS}
        alone = guarded_generate(model, of, seed_request.messages, tiny.TOOLS, tiny.session(rules), **options)
        assert alone.tokens == together[seed]


class KnownSequence:
    """A sequence with the distribution that the first token of its prompt names."""

    def __init__(self, engines: Sequence[tiny.Known]) -> None:
        self.defaults, self.is_computed = None, False
        self._engines = engines

    def start(self, prompt: Sequence[int]) -> None:
        self._engine = self._engines[prompt[0]]
        self._engine.start(prompt)

    def logits(self) -> torch.Tensor:
        assert self.is_computed
        return self._engine.logits()

    def step(self, token: int) -> None:
        self._engine.step(token)
        self.is_computed = False

    def cut(self, length: int) -> None:
        self._engine.cut(length)
        self.is_computed = False


class KnownBatch:
    """An engine for a batch of such sequences."""

    def __init__(self, engines: Sequence[tiny.Known]) -> None:
        self.defaults, self.slots, self.max_length = None, len(engines), 4096
        self._engines = engines

    def open(self) -> KnownSequence:
        return KnownSequence(self._engines)

    def close(self, sequence: Any) -> None:
        """The sequence is dropped."""

    def compute(self, sequences: Sequence[Any]) -> None:
        for sequence in sequences:
            sequence.is_computed = True


CALLS: dict[Any, tuple[str, dict[str, Any]]] = {
    "unseen": ("refund", {"order": "W1", "amount": 5}),
    "seen": ("refund", {"order": "W2", "amount": 5}),
    "too much": ("refund", {"order": "W2", "amount": 50}),
    "nine": ("refund", {"order": "W2", "amount": 9}),
    "late": ("cancel", {"order": "W2", "reason": "late"}),
    "no good reason": ("cancel", {"order": "W2", "reason": "lost"}),
    "order": ("get_order", {"order": "W1"}),
    "purge": ("purge", {}),
}
CRITICAL = 20.5  # chi-square of three degrees of freedom, once in 16 * 500 times


def test_each_sequence_keeps_its_own_distribution(rules: Policies) -> None:
    """Sixteen sequences with distributions of their own, 1,250 turns each, in one batch: each as if conditioned."""
    texts = {name: tiny.turn(call) for name, call in CALLS.items()}
    of = tiny.tokenizer(list(texts.values()), size=365, words=False)
    weights = [{name: 1.0 + (at * (number + 3)) % 7 for at, name in enumerate(CALLS)} for number in range(16)]
    engines = [tiny.Known(of, {texts[name]: weight for name, weight in own.items()}) for own in weights]
    batch = GuardedBatch(KnownBatch(engines), of)
    generators = [torch.Generator().manual_seed(number) for number in range(16)]
    counted: list[dict[str, int]] = [dict.fromkeys(CALLS, 0) for _ in range(16)]
    names = {(tool, tuple(args.items())): name for name, (tool, args) in CALLS.items()}
    for _ in range(1250):
        requests = [
            TurnRequest(
                [at], tiny.TOOLS, tiny.session(rules), tool_format="hermes", do_sample=True, generator=generator
            )
            for at, generator in enumerate(generators)
        ]
        for number, pending in enumerate(batch.run(requests)):
            (call,) = pending.result().calls
            counted[number][names[call.tool, tuple(call.args.items())]] += 1
    complying = [name for name, call in CALLS.items() if not tiny.violates(call)]
    for own, counts in zip(weights, counted, strict=True):
        total = sum(own[name] for name in complying)
        expected = {name: 1250 * own[name] / total for name in complying}
        assert {name for name, count in counts.items() if count} == {*complying}
        assert sum((counts[name] - number) ** 2 / number for name, number in expected.items()) < CRITICAL


def test_turns_begin_and_end_while_others_go_on(random_model: tuple[Any, Any], rules: Policies) -> None:
    """Turns are added and cancelled at any step, and one fails; the others are as ever, and no slot is lost."""
    model, of = random_model

    def fails(_: Any, scores: Any) -> Any:
        raise ZeroDivisionError("from a caller's processor")

    batch = GuardedBatch(TransformersBatch(model, 3, 64), of)
    sessions = [tiny.session(rules) for _ in range(12)]
    pending = [batch.add(request(at, sessions[at])) for at in range(6)]
    broken = batch.add(request(99, tiny.session(rules), logits_processor=[fails]))
    ended = [*batch.step(), *batch.step()]
    pending[1].cancel()
    pending[5].cancel()
    pending += [batch.add(request(at, sessions[at])) for at in range(6, 12)]
    while not batch.is_idle:
        ended += batch.step()
    assert sorted(map(id, ended)) == sorted(map(id, [*pending, broken]))
    with pytest.raises(ZeroDivisionError):
        broken.result()
    for at, turn in enumerate(pending):
        if at in (1, 5):
            with pytest.raises(GuardError, match="cancelled"):
                turn.result()
            assert len(sessions[at].history) == 2
        else:
            (alone,) = GuardedBatch(TransformersBatch(model, 3, 64), of).run([request(at, tiny.session(rules))])
            assert turn.result().tokens == alone.result().tokens


def test_a_failed_turn_withdraws_the_calls_that_nobody_gets(random_model: tuple[Any, Any], rules: Policies) -> None:
    """`guarded_generate_batch` raises what failed; the calls of the other turns can then be made again."""
    model, of = random_model

    def fails(_: Any, scores: Any) -> Any:
        raise ZeroDivisionError

    sessions = [tiny.session(rules) for _ in range(4)]
    requests = [request(at, session) for at, session in enumerate(sessions)]
    turns = guarded_generate_batch(model, of, requests, slots=2)
    assert any(turn.calls for turn in turns)
    sessions = [tiny.session(rules) for _ in range(4)]
    requests = [request(at, session) for at, session in enumerate(sessions)]
    with pytest.raises(ExceptionGroup, match="1 of 5 turns failed"):
        guarded_generate_batch(model, of, [*requests, request(9, None, logits_processor=[fails])], slots=2)
    assert not [event for session in sessions for event in session.history if event.status is None]


def test_what_does_not_fit_is_refused_before_it_begins(random_model: tuple[Any, Any]) -> None:
    model, of = random_model
    batch = GuardedBatch(TransformersBatch(model, 2, 16), of)
    with pytest.raises(InputError, match="a larger 'max_length'"):
        batch.add(request(0, None, max_new_tokens=60))
    with pytest.raises(InputError, match="expected a model of transformers"):
        GuardedBatch(object(), of)
