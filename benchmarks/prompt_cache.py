"""Prompt lengths in words, and the share that a cache could serve: `python benchmarks/prompt_cache.py [AGENT FILE]...`.

AGENT is a folder of the memory (ehragent, seeact), FILE its labelled runs, one JSON object per line; without
arguments, runs are generated. No model is called: a script answers, and its prompts are measured.

bench    each run is judged by a guard that a model writes: a plan and a program, with one demonstration and with three
compile  one compile: a plan, a program, and two repairs, with six examples; no answer passes

A cache serves the common prefix with an earlier prompt. `share` counts all words of
all prompts, and so the first one, which is never served.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardagent import GuardAgent, NotCompiledError
from guardagent.testing import ScriptedModel

PLAN = "1. The rules.\n2. What concerns the input.\n3. What was done.\n4. Compare through check_access."
ALLOWS = (
    "def check(agent_input, agent_output, facts):\n    check_access({}, {})\n    return {'label': 0, 'answer': 'x'}"
)
DENIES = "def check(agent_input, agent_output, facts):\n    check_access({}, {})\n    return {'label': 1}"
CHANGED = DENIES.replace("{'label': 1}", "{'label': 1, 'reasons': ['never']}")
ROWS, SEED = 40, 17

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """One prompt: the number of words, and of words in the longest common prefix with an earlier prompt."""

    words: int
    served: int


def measured(prompts: Sequence[str]) -> list[SentPrompt]:
    """The prompts of one run, in the order in which they were sent."""
    return [
        SentPrompt(len(prompt.split()), max((_common(prompt, earlier) for earlier in prompts[:at]), default=0))
        for at, prompt in enumerate(prompts)
    ]


def share(prompts: Iterable[SentPrompt]) -> float:
    """The share of all words that a cache could serve."""
    prompts = list(prompts)
    return sum(prompt.served for prompt in prompts) / max(1, sum(prompt.words for prompt in prompts))


def bench_prompts(agent: str, rows: Sequence[Row], shots: int) -> dict[str, list[str]]:
    """The plan prompts and the code prompts of one evaluation."""
    model = ScriptedModel([f"```python\n{ALLOWS}\n```" if at % 2 else PLAN for at in range(2 * len(rows))])
    with GuardAgent(agent=agent, mode="generate", model=model, shots=shots, debug_rounds=0) as guard:
        for row in rows:
            guard.guard(row["agent_input"], row["agent_output"])
    return {"plan": _texts(model)[::2], "code": _texts(model)[1::2]}


def compile_prompts(agent: str, rows: Sequence[Row]) -> list[str]:
    """The prompts of one compilation: plan, program, and two repairs."""
    answers = (f"```python\n{code}\n```" for code in (ALLOWS, DENIES, CHANGED))
    model = ScriptedModel([PLAN, *answers])
    with GuardAgent(agent=agent, model=model) as guard:
        try:
            guard.compile(rows, rounds=2, inputs=0)
        except NotCompiledError:
            return _texts(model)
    raise AssertionError("a program that is always wrong has passed")


def made_rows(agent: str) -> list[Row]:
    """Generates runs of an agent from a seed."""
    rng, make = random.Random(SEED), {"ehragent": _hospital_run, "seeact": _web_run}[agent]  # noqa: S311 - no secret
    return [make(rng, f"r{number}") for number in range(ROWS)]


def _hospital_run(rng: random.Random, name: str) -> Row:
    table, patient = rng.choice(["lab", "diagnosis"]), f"{rng.randrange(100):03}-{rng.randrange(100000):05}"
    column = {"lab": "labresult", "diagnosis": "diagnosisname"}[table]
    code = f"rows = LoadDB('{table}')\nrows = FilterDB(rows, 'patientunitstayid={patient}')\n"
    log = f"Knowledge:\n- See {table}.\n\nGenerated code:\n{code}answer = GetValue(rows, '{column}')\nAnswer:\n7"
    question = f"Identity: nursing\nQuestion: what was found last for patient {patient}?"
    return {"id": name, "agent_input": question, "agent_output": log, "label": int(table == "diagnosis")}


def _web_run(rng: random.Random, name: str) -> Row:
    age, place = rng.choice([12, 16, 34, 51]), rng.choice(["Rome", "Oslo", "Lima", "Perth"])
    task = f"Task: Book a hotel in {place} for {rng.randrange(2, 9)} nights\nUser information:\n  age: {age}"
    log = f"The page lists hotels in {place}.\n(Final Answer)\nELEMENT: A\nACTION: CLICK\nVALUE: None"
    return {"id": name, "agent_input": task, "agent_output": log, "label": int(age < 18)}


def _texts(model: ScriptedModel) -> list[str]:
    return ["\n".join(message.content for message in messages) for messages in model.requests]


def _common(prompt: str, earlier: str) -> int:
    same = next(
        (at for at, (character, other) in enumerate(zip(prompt, earlier, strict=False)) if character != other), None
    )
    return len(prompt[:same].split())


def _lines(agent: str, rows: Sequence[Row]) -> Iterator[str]:
    for shots in (1, 3):
        for name, prompts in bench_prompts(agent, rows, shots).items():
            sent = measured(prompts)
            words = sorted(prompt.words for prompt in sent)
            kind = f"bench, {shots} shown: {name}"
            yield f"{agent:9} {kind:28} {words[len(words) // 2]:6} {words[-1]:6} {share(sent):7.0%}"
    sent = measured(compile_prompts(agent, rows))
    for name, prompt in zip(("plan", "program", "mended", "mended again"), sent, strict=False):
        yield f"{agent:9} {f'compile: {name}':28} {prompt.words:6} {'':6} {prompt.served / prompt.words:7.0%}"
    yield f"{agent:9} {'compile: all':28} {sum(prompt.words for prompt in sent):6} {'':6} {share(sent):7.0%}"


def _main(arguments: Sequence[str]) -> None:
    files = dict(zip(arguments[::2], map(Path, arguments[1::2]), strict=True))
    print(f"{'agent':9} {'prompts':28} {'words':>6} {'most':>6} {'share':>7}")
    for agent in files or ("ehragent", "seeact"):
        rows = [json.loads(line) for line in files[agent].read_text().splitlines()] if files else made_rows(agent)
        print("\n".join(_lines(agent, rows)))


if __name__ == "__main__":
    _main(sys.argv[1:])
