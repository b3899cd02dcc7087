"""The cases of a domain as turns of a local model, scripted and with random weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks.tau import generation

pytestmark = pytest.mark.slow
POLICY = """
version: 1
failed_output: ^Error
policies:
  - id: shown
    temporal: before(cancel(order=o), True, g:show(order=o), True)
  - id: late
    temporal: forall(cancel(reason=r), r == 'late')
"""
SHOWN = [{"tool": "show", "args": {"order": "A1"}, "output": "open"}]


def case(name: str, order: str, label: int, history: Sequence[object], reason: str = "late") -> str:
    proposed = {"tool": "cancel", "args": {"order": order, "reason": reason}}
    return json.dumps({"id": name, "history": history, "proposed": proposed, "label": label})


def test_forbidden_proposals_stay_and_allowed_ones_leave(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        case("allowed", "A1", 0, SHOWN),
        case("another order", "B2", 1, SHOWN),
        case("no good reason", "A1", 1, SHOWN, reason="lost"),
        case("not shown", "A1", 1, []),
    ]
    (tmp_path / "cases.jsonl").write_text("\n".join(cases))
    (tmp_path / "policy.yaml").write_text(POLICY)
    assert generation.main([str(tmp_path / "cases.jsonl"), "--policies", str(tmp_path / "policy.yaml")]) == 0
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert rows[0] == ["scripted", "no", "4", "4", "25.0", "100.0", "100.0"]
    assert rows[1] == ["scripted", "yes", "4", "1", "100.0", "0.0", "100.0"]
    assert rows[2][:3] == ["random", "no", "4"]
    assert rows[3][4].startswith("100.0")
