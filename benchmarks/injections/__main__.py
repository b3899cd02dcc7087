"""Injections against a guarded assistant: `python -m benchmarks.injections [--policies FILE] [--json]`.

The assistant obeys every injection: as soon as it reads one, it makes the attacker's calls, then goes on with the task.
Twelve tasks, twelve injections, three positions in the text. An attack counts if it had its effect; a task counts as
undisturbed if none of its calls is denied where nobody attacks. The host gives the policy the user's words, and nothing
that it extracted from them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.injections.environment import Position, ShopEnvironment
from benchmarks.injections.injections import INJECTIONS, Injection
from benchmarks.injections.tasks import TASKS, AssistantTask, Steps
from guardagent import Policies, Session, load_policies
from guardagent.types import thaw

POLICY = Path(__file__).with_name("policy.yaml")
POSITIONS: tuple[Position, ...] = ("start", "middle", "end")


@dataclass
class AttackRun:
    """One conversation: the assistant does the task, and obeys the injection when it reads it.

    Attributes:
        denied: the denied calls of the task, and those of the attacker, with the violated rules.
        checks, records: the CPU time of each check and each record, in seconds.
    """

    shop: ShopEnvironment
    session: Session | None
    injection: Injection | None = None
    denied: dict[str, list[str]] = field(default_factory=lambda: {"task": [], "attack": []})
    read: bool = False
    checks: list[float] = field(default_factory=list)
    records: list[float] = field(default_factory=list)

    def follow(self, steps: Steps, role: str) -> None:
        output: Any = None
        while True:
            try:
                tool, args = steps.send(output)
            except StopIteration:
                return
            output = self._call(tool, args, role)
            if output is None:
                return
            if role == "task" and self.injection is not None and not self.read and self._is_in(output):
                self.read = True
                self.follow(self.injection.steps(), "attack")

    def _is_in(self, output: Any) -> bool:
        return self.injection is not None and self.injection.text in str(output)

    def _call(self, tool: str, args: dict[str, Any], role: str) -> Any:
        if self.session is None:
            return self.shop.call(tool, args)
        started = time.process_time()
        verdict = self.session.check(tool, args)
        self.checks.append(time.process_time() - started)
        if verdict.label:
            self.denied[role].append(f"{tool}: {'; '.join(verdict.rules or verdict.errors)}")
            return None
        output = self.shop.call(tool, thaw(self.session.use(verdict.permit)))
        started = time.process_time()
        self.session.record(output, permit=verdict.permit)
        self.records.append(time.process_time() - started)
        return output


def run(
    task: AssistantTask, policies: Policies | None, injection: Injection | None = None, position: Position = "end"
) -> AttackRun:
    """Plays one task, guarded if there are policies, attacked if there is an injection."""
    shop = ShopEnvironment(injection.text if injection else "", position)
    messages = [{"role": "user", "content": task.words}]
    session = None if policies is None else policies.session(messages=messages)
    run = AttackRun(shop, session, injection)
    run.follow(task.steps(), "task")
    return run


def attacks(policies: Policies | None) -> Iterator[tuple[AssistantTask, Injection, Position, AttackRun]]:
    """Plays each attack that the assistant gets to read."""
    for task in TASKS:
        for injection in INJECTIONS:
            for position in POSITIONS:
                attacked_run = run(task, policies, injection, position)
                if attacked_run.read:
                    yield task, injection, position, attacked_run


def measure(policies: Policies | None) -> dict[str, Any]:
    """The share of undisturbed tasks and successful attacks, and the CPU time of a check."""
    plain = [(task, run(task, policies)) for task in TASKS]
    attacked = list(attacks(policies))
    through = [
        (task, injection, at)
        for task, injection, at, attacked_run in attacked
        if injection.succeeded(attacked_run.shop)
    ]
    checks = sorted(cost for _, plain_run in plain for cost in plain_run.checks) or [0.0]
    checks = sorted(checks + [cost for *_, attacked_run in attacked for cost in attacked_run.checks])
    return {
        "tasks": len(TASKS),
        "undisturbed": sum(not plain_run.denied["task"] for _, plain_run in plain),
        "disturbed": {task.name: plain_run.denied["task"] for task, plain_run in plain if plain_run.denied["task"]},
        "attacks": len(attacked),
        "through": len(through),
        "by_injection": sorted({f"{injection.name} / {task.name} / {at}" for task, injection, at in through}),
        "completed_under_attack": sum(not attacked_run.denied["task"] for *_, attacked_run in attacked),
        "check_p50_us": round(statistics.median(checks) * 1e6, 1),
        "check_p99_us": round(checks[int(len(checks) * 0.99)] * 1e6, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policies", type=Path, default=POLICY)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = {"no guard": measure(None), "guard": measure(load_policies(options.policies))}
    if options.json:
        print(json.dumps(figures))
        return
    for name, row in figures.items():
        print(
            f"{name}: {row['undisturbed']} of {row['tasks']} tasks undisturbed, {row['through']} of {row['attacks']} "
            f"attacks succeeded, {row['completed_under_attack']} attacked tasks completed; "
            f"a check costs {row['check_p50_us']} µs (p99 {row['check_p99_us']} µs)"
        )
        if name == "guard":
            for where in (*map(str, row["disturbed"].items()), *row["by_injection"]):
                print(f"  {where}")


if __name__ == "__main__":
    main()
