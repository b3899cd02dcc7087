import json
from dataclasses import replace

import pytest

from guardagent import Context, Decision, Event, Verdict, Violation


def test_decisions_are_ordered_by_severity() -> None:
    """The order is allow, warn, deny, escalate, halt, which is not that of the names."""
    names = ["allow", "warn", "deny", "escalate", "halt"]
    assert sorted(map(Decision, reversed(names))) == names
    assert Decision.DENY > Decision.WARN
    assert Decision.HALT >= Decision.ESCALATE
    assert max(Decision.ALLOW, Decision.WARN) == "warn"


@pytest.mark.parametrize(("decision", "label"), [("allow", 0), ("warn", 0), ("deny", 1), ("escalate", 1), ("halt", 1)])
def test_label_is_zero_only_if_the_step_may_proceed(decision: str, label: int) -> None:
    """The label follows from the decision alone."""
    assert Verdict(Decision(decision)).label == label


def test_a_changed_verdict_is_a_copy() -> None:
    """The copy has the other values; an unknown field name is an error."""
    verdict = Verdict(Decision.DENY, ("no",), elapsed_ms=3.0)
    changed = verdict.changed(elapsed_ms=0.0, answer="x", reasons=())
    assert changed == replace(verdict, elapsed_ms=0.0, answer="x", reasons=())
    assert verdict.elapsed_ms == 3.0
    with pytest.raises(TypeError, match="no field 'anser'"):
        verdict.changed(anser="x")


def test_verdict_json_has_the_public_keys() -> None:
    """The keys, their order and their plain types are a public contract."""
    verdict = Verdict(Decision.DENY, violations=(Violation("rule", "broken", {"a": (1, 2)}),), elapsed_ms=1.23456)
    value = json.loads(verdict.to_json())
    assert list(value) == [
        *("label", "decision", "reasons", "violations", "details", "answer", "risk", "errors"),
        *("checked_by", "model_calls", "elapsed_ms"),
    ]
    assert value["violations"] == [{"policy": "rule", "message": "broken", "evidence": {"a": [1, 2]}, "remedy": None}]
    assert value["elapsed_ms"] == 1.235


def test_an_event_keeps_its_own_copy_of_the_arguments() -> None:
    """A later change of the passed mapping changes neither the event nor the context."""
    args = {"items": [1]}
    event, context = Event("order", args=args), Context(facts=args)
    args["items"].append(2)
    assert event.args["items"] == (1,)
    assert context.facts["items"] == (1,)
    with pytest.raises(TypeError):
        event.args["items"] = ()  # type: ignore[index]
