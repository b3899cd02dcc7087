"""The public cases of tau-bench as traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from guardagent.batch.arrow.policy_bundle import PolicyBundle
from tests.batch.arrow.logs import write_lines

POLICIES = Path(__file__).parents[3] / "benchmarks" / "tau"
CASES = {"retail": "retail.yaml", "airline": "airline.yaml", "airline by solver": "airline-solver.yaml"}


def read_cases(shared: Path, name: str) -> list[dict[str, Any]]:
    """The history of each case and its proposed call, as a trace."""
    file = shared / "tau" / f"{name.partition(' ')[0]}.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [
        {
            "id": row["id"],
            "events": [*row["history"], row["proposed"]],
            "state": row.get("state") or {},
            "facts": {"user_confirmed": row.get("user_confirmed"), "context": row.get("context") or {}},
        }
        for row in rows
    ]


def write_cases(folder: Path, shared: Path, name: str) -> tuple[PolicyBundle, list[Path]]:
    """Writes the events of all traces to three files, in turn; returns the policies of the domain and the files."""
    folder.mkdir()
    events = [
        {"trace": case["id"], "position": at, "trace_state": case["state"], "trace_facts": case["facts"], **event}
        for case in read_cases(shared, name)
        for at, event in enumerate(case["events"])
    ]
    files = [folder / f"events{number}.jsonl" for number in range(3)]
    for number, file in enumerate(files):
        write_lines(file, events[number::3])
    return PolicyBundle.of([POLICIES / CASES[name]]), files
