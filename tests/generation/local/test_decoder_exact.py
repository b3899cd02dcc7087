"""In `exact` mode, calls are distributed as the model's own that comply."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from guardagent.generation.local import guarded_generate
from tests.generation.local import tiny

pytestmark = pytest.mark.slow
OWN: dict[Any, float] = {
    ("refund", ("W1", 5)): 0.30,  # not seen: denied
    ("refund", ("W2", 5)): 0.14,
    ("refund", ("W2", 50)): 0.20,  # too much
    ("refund", ("W2", 9)): 0.06,
    ("cancel", ("W2", "late")): 0.05,
    ("cancel", ("W2", "lost")): 0.08,  # no good reason
    ("cancel", ("W3", "lost")): 0.02,
    ("get_order", ("W1",)): 0.10,
    ("purge", ()): 0.05,  # never
}
NAMES: dict[str, tuple[str, ...]] = {
    "refund": ("order", "amount"),
    "cancel": ("order", "reason"),
    "get_order": ("order",),
    "purge": (),
}
CRITICAL = 18.47  # chi-square of four degrees of freedom is larger once in a thousand times


def test_guarded_calls_are_the_models_own_that_comply(tmp_path: Path) -> None:
    """20,000 turns of a known engine, compared with its distribution conditioned on compliance."""
    calls: dict[Any, Any] = {key: (key[0], dict(zip(NAMES[key[0]], key[1], strict=True))) for key in OWN}
    of = tiny.tokenizer([tiny.turn(call) for call in calls.values()], size=365, words=False)
    engine = tiny.Known(of, {tiny.turn(calls[key]): weight for key, weight in OWN.items()})
    rules, generator = tiny.policies(tmp_path), torch.Generator().manual_seed(7)
    counted: dict[Any, int] = dict.fromkeys(OWN, 0)
    for _ in range(20_000):
        turn = guarded_generate(
            engine, of, [0], tiny.TOOLS, tiny.session(rules), tool_format="hermes", do_sample=True, generator=generator
        )
        (call,) = turn.calls
        counted[call.tool, tuple(call.args.values())] += 1
    complying = {key: weight for key, weight in OWN.items() if not tiny.violates(calls[key])}
    total = sum(complying.values())
    expected = {key: 20_000 * weight / total for key, weight in complying.items()}
    assert {key for key, count in counted.items() if count} == expected.keys()
    assert sum((counted[key] - number) ** 2 / number for key, number in expected.items()) < CRITICAL
