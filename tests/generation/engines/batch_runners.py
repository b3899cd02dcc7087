"""Engines that run many requests at once, as vLLM's two model runners do: they preempt requests and move their rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch

from guardagent.generation.local.vllm import GuardedRequest
from tests.generation.local import tiny

LONGEST = 40


class Direction(Enum):
    UNIDIRECTIONAL = 1
    SWAP = 2


class Change(NamedTuple):
    """As vLLM's `BatchUpdate`."""

    batch_size: int
    removed: Sequence[int] = ()
    added: Sequence[Any] = ()
    moved: Sequence[Any] = ()


@dataclass
class Running:
    """A request that an engine runs."""

    request: GuardedRequest
    params: Any
    prompt: list[int]
    draw: torch.Generator
    tokens: list[int] = field(default_factory=list)

    def choose(self, logits: torch.Tensor) -> None:
        weights = torch.softmax(logits, dim=-1)
        self.tokens.append(int(torch.multinomial(weights, 1, generator=self.draw)))

    @property
    def is_over(self) -> bool:
        return len(self.tokens) == LONGEST or self.tokens[-1:] == self.request.ends


def running(request: GuardedRequest, seed: int = 0, params: Any = None) -> Running:
    made = params or SimpleNamespace(extra_args=request.extra_args, all_stop_token_ids=set(request.ends))
    return Running(request, made, [1, 2], torch.Generator().manual_seed(seed))


def scores(model: Any, running: Running) -> torch.Tensor:
    with torch.no_grad():
        tensor: torch.Tensor = model(input_ids=torch.tensor([running.prompt + running.tokens])).logits[0, -1]
    return tensor


class FirstRunner:
    """New requests replace those that left, the last ones fill further gaps, and any two rows may be swapped.

    Args:
        update: is called with each change of the batch, or None.
        apply: masks the logits of all rows.
    """

    def __init__(self, update: Callable[[Any], None], apply: Callable[[Any], Any]) -> None:
        self.rows: list[Running] = []
        self._update, self._apply = update, apply

    def step(self, model: Any, leaving: list[Running], joining: list[Running], chance: random.Random) -> None:
        gaps = sorted(self.rows.index(running) for running in leaving)
        added, moved = [], []
        for sequence in joining:
            row = gaps.pop(0) if gaps else len(self.rows)
            self.rows[row : row + 1] = [sequence]
            added.append((row, sequence.params, sequence.prompt, sequence.tokens))
        removed = list(reversed(gaps))
        while gaps:
            last = len(self.rows) - 1
            if last == gaps[-1]:
                gaps.pop()
            else:
                row = gaps.pop(0)
                self.rows[row] = self.rows[last]
                moved.append((last, row, Direction.UNIDIRECTIONAL))
            self.rows.pop()
        if len(self.rows) > 1 and chance.random() < 0.3:
            source, target = chance.sample(range(len(self.rows)), 2)
            self.rows[source], self.rows[target] = self.rows[target], self.rows[source]
            moved.append((source, target, Direction.SWAP))
        is_changed = bool(removed or added or moved)
        self._update(Change(len(self.rows), removed, added, moved) if is_changed else None)
        if self.rows:
            logits = self._apply(torch.stack([scores(model, row) for row in self.rows]))
            for row, sequence in enumerate(self.rows):
                sequence.choose(logits[row])


def request_states(size: int = 4) -> Any:
    """As vLLM's `LogitsProcRequestState`, on a CPU."""
    return SimpleNamespace(
        all_token_ids=SimpleNamespace(gpu=torch.zeros((size, 64), dtype=torch.int32)),
        prompt_len=SimpleNamespace(np=np.zeros(size, dtype=np.int32)),
        prefill_len=SimpleNamespace(np=np.zeros(size, dtype=np.int32)),
    )


class SecondRunner:
    """A request keeps its slot until it leaves, without notice; the rows of a step come in any order.

    Args:
        states: the tokens of each slot.
        add: is called with the slot and the parameters of each new request.
        apply: masks the logits of a step.
        context: the class of the second argument of `apply`.
    """

    def __init__(self, states: Any, add: Callable[..., Any], apply: Callable[..., Any], context: Any = None) -> None:
        self._states, self._add, self._apply = states, add, apply
        self._context = context or SimpleNamespace
        self._free = list(range(len(states.prompt_len.np)))
        self._slots: dict[int, Running] = {}

    @property
    def rows(self) -> list[Running]:
        return list(self._slots.values())

    def step(self, model: Any, leaving: list[Running], joining: list[Running], chance: random.Random) -> None:
        for slot in [slot for slot, running in self._slots.items() if running in leaving]:
            del self._slots[slot]
            self._free.append(slot)
        for sequence in joining:
            slot = self._free.pop()
            self._slots[slot] = sequence
            self._states.prompt_len.np[slot] = len(sequence.prompt)
            self._states.prefill_len.np[slot] = len(sequence.prompt) + len(sequence.tokens)
            self._store(slot, sequence)
            self._add(slot, sequence.params)
        order = chance.sample(list(self._slots), len(self._slots))
        if order:
            logits = torch.stack([scores(model, self._slots[slot]) for slot in order])
            logits = self._apply(logits, self._layout(order))
            for row, slot in enumerate(order):
                self._slots[slot].choose(logits[row])
                self._store(slot, self._slots[slot])

    def _store(self, slot: int, running: Running) -> None:
        tokens = running.prompt + running.tokens
        self._states.all_token_ids.gpu[slot, : len(tokens)] = torch.tensor(tokens, dtype=torch.int32)

    def _layout(self, order: list[int]) -> Any:
        every = [self._slots[slot].prompt + self._slots[slot].tokens for slot in order]
        slots, lengths = torch.tensor(order), torch.tensor([len(tokens) for tokens in every])
        return self._context(
            expanded_idx_mapping=slots, idx_mapping=slots, idx_mapping_np=slots.numpy(),
            expanded_local_pos=torch.zeros_like(slots), input_ids=torch.tensor([tokens[-1] for tokens in every]),
            pos=lengths - 1, seq_lens_upper_bound_np=lengths.numpy(),
        )  # fmt: skip


def run_all(runner: Any, model: Any, waiting: list[Running], seed: int = 0) -> int:
    """Runs all requests, up to four at a time, each perhaps preempted a few times; returns how often."""
    chance, preempted = random.Random(seed), 0  # noqa: S311 - a test
    while waiting or runner.rows:
        leaving = [row for row in runner.rows if row.is_over]
        taken = [row for row in runner.rows if not row.is_over and chance.random() < 0.1]
        room = 4 - len(runner.rows) + len(leaving) + len(taken)
        joining = [waiting.pop(0) for _ in range(min(room, len(waiting)))]
        waiting += taken
        preempted += len(taken)
        runner.step(model, leaving + taken, joining, chance)
    return preempted


def requests(of: Any, rules: Any, number: int) -> list[GuardedRequest]:
    return [GuardedRequest(of, tiny.TOOLS, tiny.session(rules), tool_choice="required") for _ in range(number)]
