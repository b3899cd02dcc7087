"""The time of a translation without its model: `python -m benchmarks.translation [ROUNDS]`, in milliseconds of CPU.

A document of sixty sentences, of which 36 need rules, is translated by a model that answers in this process as
scripted; its time does not count. It calls ten sentences ambiguous: in the first row, both readings say the same in
other words, in the second one they differ. The third column is a first translation in a new process: it loads the
modules, Z3 among them.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.boat_hire import DOCUMENT, TOOLS, TRACES, ScriptedTranslator
from guardagent.models import Completion, Message
from guardagent.translation.pipeline import translate

WANTED = 2000.0
STAGES = {"Survey": "inputs", "Drafts": "survey", "Reading": "drafts", "Assembly": "readings"}
"""The stage that ends with each line of the progress."""
_FIRST = "from benchmarks.translation import whole; print(whole({differs}))"


class _StageClock:
    """The CPU time of each stage, without that of the model, in milliseconds."""

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}
        self.began = time.process_time()

    def progress(self, line: str) -> None:
        self.stop(next(stage for start, stage in STAGES.items() if line.startswith(start)))

    def stop(self, stage: str) -> None:
        now = time.process_time()
        self.stages[stage] = (now - self.began) * 1000
        self.began = now


class _Timed:
    """A model whose time a clock leaves out."""

    def __init__(self, model: ScriptedTranslator, clock: _StageClock) -> None:
        self._model, self._clock = model, clock

    def complete(self, messages: Sequence[Message]) -> Completion:
        started = time.process_time()
        answer = self._model.complete(messages)
        self._clock.began += time.process_time() - started
        return answer


def measure(*, differs: bool) -> dict[str, float]:
    """Translates the document once; returns the time of each stage."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "POLICY.md").write_text(DOCUMENT)
        (folder / "tools.json").write_text(json.dumps(TOOLS))
        (folder / "traces.jsonl").write_text(TRACES)
        gc.collect()
        clock = _StageClock()
        translation = translate(
            folder / "POLICY.md",
            str(folder / "tools.json"),
            model=_Timed(ScriptedTranslator(differs=differs), clock),
            out=folder / "policies.yaml",
            traces=folder / "traces.jsonl",
            parallel=1,
            progress=clock.progress,
        )
        clock.stop("policy")
    opened = sum(rule.readings == "open" for rule in translation.review.rules)
    assert (len(translation.review.rules), opened) == (36, 10 if differs else 0), f"{opened} rules are open"
    return clock.stages


def whole(differs: bool) -> float:  # noqa: FBT001 - of the command of a new process
    """Translates the document once; returns the time of all stages."""
    return sum(measure(differs=differs).values())


def first(*, differs: bool) -> float:
    """The time of the first translation of a new process."""
    command = [sys.executable, "-c", _FIRST.format(differs=differs)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    names = [*STAGES.values(), "policy"]
    print(f"{'':9}{'whole':>8}{'first':>8}   of which {''.join(f'{name:>10}' for name in names)}")
    for kind, differs in (("the same", False), ("ten differ", True)):
        measure(differs=differs)
        runs = [measure(differs=differs) for _ in range(rounds)]
        median = statistics.median(sum(run.values()) for run in runs)
        started = statistics.median(first(differs=differs) for _ in range(3))
        stages = (statistics.median(run[name] for run in runs) for name in names)
        wanted = "" if differs else f"  (wanted: {WANTED:.0f})"
        print(f"{kind:11}{median:8.0f}{started:8.0f}{'':10}{''.join(f'{stage:10.0f}' for stage in stages)}{wanted}")


if __name__ == "__main__":
    main()
