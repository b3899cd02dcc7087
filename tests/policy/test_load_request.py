"""`request:` policies: a guard program judges the proposed call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from guardagent import Decision, InputError, Session, load_policies
from guardagent.testing import ScriptedModel

PROGRAM = '''
import json


def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    """Refunds of more than 100 need a manager; and nobody is paid twice."""
    call = json.loads(agent_output)
    history = json.loads(agent_input)["history"]
    paid = [past for past in history if past["tool"] == call["tool"] and past["args"] == call["args"]]
    rules = {
        "limit": {"info": "amount", "operator": "<=", "value": 100, "violation": "more than 100"},
        "once": {"info": "paid", "operator": "==", "value": 0, "violation": "paid already"},
    }
    denied, broken = check_rule(rules, {"amount": call["args"]["amount"], "paid": len(paid)})
    return {"label": int(denied), "reasons": list(broken.values()), "details": {}, "answer": None}
'''
POLICY = """version: 1
policies:
  - {id: pay, request: Pay no more than 100 and nobody twice., program: pay.py, on_violation: %s}
"""


@pytest.fixture
def session(tmp_path: Path) -> Session:
    (tmp_path / "pay.py").write_text(PROGRAM)
    (tmp_path / "policies.yaml").write_text(POLICY % "escalate")
    return load_policies(tmp_path / "policies.yaml").session(facts={"role": "clerk"})


def test_a_program_judges_the_proposed_call(session: Session) -> None:
    """It sees the call, the history and the facts; its reasons are the evidence."""
    assert session.check("pay", {"amount": 50, "to": "a"}).decision is Decision.ALLOW
    session.record("paid")
    again = session.check("pay", {"amount": 50, "to": "a"})
    assert (again.decision, again.rules) == (Decision.ESCALATE, ("pay",))
    assert again.violations[0].evidence["reasons"] == ["paid already"]
    assert session.check("pay", {"amount": 500, "to": "b"}).label == 1


@pytest.mark.parametrize("args", [{}, {"amount": "50"}])
def test_a_program_that_fails_denies(session: Session, args: dict[str, Any]) -> None:
    """The verdict has the error, and no violation."""
    verdict = session.check("pay", args)
    assert (verdict.label, bool(verdict.errors)) == (1, True)


def test_a_model_replaces_a_missing_program(tmp_path: Path) -> None:
    """The model generates code for each call; the verdict has the number of model calls."""
    path = tmp_path / "policies.yaml"
    path.write_text("version: 1\npolicies: [{id: pay, request: Pay no more than 100.}]")
    with pytest.raises(InputError, match=r"policies.yaml:2: .*expected 'program:', or 'load_policies\(\.\.\., model="):
        load_policies(path)
    model = ScriptedModel(["no plan"] * 4)
    verdict = load_policies(path, model=model).session().check("pay", {"amount": 5})
    assert (verdict.label, verdict.model_calls) == (1, 4)
    assert verdict.errors[0].startswith("pay: ")
