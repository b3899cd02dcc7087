import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent import Demonstration

PLAN = ("1", "2", "3", "4")
Made = Callable[..., list[Demonstration]]


@pytest.fixture
def runs() -> Made:
    """Makes so many different runs from a seed; every third is like the one before it."""

    def make(count: int, seed: int = 1, size: int = 120) -> list[Demonstration]:
        rng = random.Random(seed)  # noqa: S311 - test data
        texts: list[tuple[str, str]] = []
        for number in range(count):
            if number % 3 == 2:
                shown, output = texts[-1]
                at = rng.randrange(len(output))
                texts.append((shown, output[:at] + rng.choice("xyz") + output[at + 1 :]))
            else:
                signs = ["".join(rng.choices("abcdef é漢🙂\n", k=rng.randrange(1, size))) for _ in range(2)]
                texts.append(("in " + signs[0], "out " + signs[1]))
        return [Demonstration(*both, PLAN, f"pass  # {number}") for number, both in enumerate(texts)]

    return make


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """A memory folder with a copy of the health-records agent."""
    shutil.copytree(Path(__file__).parents[3] / "memory" / "ehragent", tmp_path / "memory" / "ehragent")
    return tmp_path / "memory"
