"""The final answer is a step: rules judge it before the user sees it, and it enters the history."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from guardagent import Event, InputError, load_policies
from guardagent.batch.audit import judge_trace
from guardagent.batch.records import read_trace
from guardagent.enforcement import Approval, HostCall, ToolGuard, ToolSpec
from guardagent.policy.load import compile_rules
from guardagent.policy.policies import Policies
from guardagent.types import Decision, Verdict
from tests.enforcement.guards import ran as ran_by

RULES = {
    "no_cards": r"forall(answer(text=t), !(t matches /(?s:.*)[0-9]{16}(?s:.*)/))",
    "cited": "before(answer(), true, f:cite(), true)",
    "told": "G(tool:refund -> F tool:answer)",
}


def only(rule: str) -> dict[str, Any]:
    return {"version": 1, "policies": [{"id": "a", "temporal": rule}]}


def policies(*names: str, more: str = "", **on: str) -> Policies:
    rules = [{"id": name, "temporal": RULES[name], **on} for name in names or RULES]
    return load_policies(text=f"version: 1\n{more}\npolicies: {json.dumps(rules)}\n")


def _approved(approval: Approval, _request: Any) -> Approval:
    return approval


def ran(session: Any, tool: str) -> None:
    assert session.check(tool).label == 0
    session.record("done")


def test_an_answer_is_judged_and_recorded_in_one_step() -> None:
    """A denied answer is no step; an allowed one discharges what waits for it."""
    session = policies().session()
    assert session.answer("your refund is on its way").rules == ("cited",)
    ran(session, "cite")
    ran(session, "refund")
    assert session.obligations == {"told": "call 'answer'"}
    assert session.answer("card 1234567812345678").rules == ("no_cards",)
    assert [event.tool for event in session.history] == ["cite", "refund"]
    verdict = session.answer("your refund is on its way")
    assert (verdict.label, session.in_flight, session.finish().label) == (0, (), 0)
    assert (session.history[-1].args, session.history[-1].status) == ({"text": "your refund is on its way"}, "ok")


@pytest.mark.parametrize("text", [None, 5, {"text": "x"}])
def test_an_answer_that_is_no_string_is_denied(text: Any) -> None:
    """Its text would be unknown."""
    assert policies().session().answer(text).label == 1


def test_only_rules_that_name_the_answer_judge_it() -> None:
    """Not `unlisted: deny`, not the list of tools, and no rule about other steps."""
    rules = ["tool:a U tool:b", "G tool:a", "tool:a -> X true"]
    session = compile_rules(rules).session()
    assert session.answer("done").label == 0
    assert session.check("c").rules == ("rule 1", "rule 2")
    strict = policies("told", more="unlisted: deny\ntools: [refund]").session()
    assert strict.answer("done").label == 0
    assert policies("told", more="tools: [refund]").judges_answers
    assert not compile_rules(rules).judges_answers


@pytest.mark.parametrize("rule", ["forall(answer(txt=t), t == 'x')", "forall(f:answer(), args(f).txt == 'x')"])
def test_the_argument_of_the_answer_is_known(rule: str) -> None:
    """A misspelt one is an error when the rule is loaded, or attached."""
    with pytest.raises(InputError, match=r"'?txt'?.*answer|answer.*'txt'"):
        load_policies(data=only(rule))


def test_a_trace_can_end_with_an_answer() -> None:
    """It is an event of the tool `answer`; other rules do not see it, as in a session."""
    events = [{"tool": "cite", "args": {}, "failed": False}, {"tool": "answer", "args": {"text": "1" * 16}}]
    trace = read_trace(json.dumps({"id": 1, "events": events}), "t", 1)
    assert judge_trace(policies(), trace).rules == ("no_cards",)
    assert judge_trace(compile_rules(["G tool:cite", "tool:cite -> X true"]), trace).rules == ("rule 2",)


def test_a_reviewer_can_approve_an_answer_and_not_edit_it() -> None:
    """The approval lifts the escalation; an edit would change what the user reads."""
    for approval, label in ((Approval("approve"), 0), (Approval("edit", {"text": "x"}), 1), (Approval("reject"), 1)):
        guard = ToolGuard(policies("cited", on_violation="escalate"), approver=partial(_approved, approval))
        assert guard.answer("c", "question", "text").label == label
        assert [event.tool for event in guard.session("c").history] == ["answer"] * (1 - label)


def test_a_guard_judges_answers_by_rules_and_by_its_guard_of_answers() -> None:
    """Both have to allow it; a denied answer is not recorded."""

    class Judge:
        def guard(self, _input: str, output: str, _facts: Any = None) -> Verdict:
            return Verdict(Decision.DENY if "fool" in output else Decision.ALLOW, ("rude",))

    judge: Any = Judge()
    plain, guard = ToolGuard(policies()), ToolGuard(policies("cited", "no_cards"), answers=judge)
    assert plain.judges_answers
    assert not ToolGuard(compile_rules(["G !tool:x"])).judges_answers
    assert guard.answer("c", "q", "hello").rules == ("cited",)
    ran_by(guard, HostCall("cite", {}, "c"))
    assert guard.answer("c", "q", "hello fool").decision is Decision.DENY
    assert guard.answer("c", "q", "hello").label == 0
    assert [event.tool for event in guard.session("c").history] == ["cite", "answer"]


def test_a_denial_does_not_quote_the_answer() -> None:
    """A host shows it to the user in place of the answer, whether it is violated or unknown."""
    rules = only("forall(answer(text=t), fact(limit) == t)")
    rules["policies"][0]["id"] = "a: 1"
    rules["policies"].append({"id": "b", "temporal": RULES["no_cards"]})
    verdict = ToolGuard(load_policies(data=rules)).answer("c", "q", "1234567812345678")
    assert "12345678" not in f"{verdict.feedback()} {verdict.to_dict()}"
    assert (verdict.rules, verdict.errors) == (("b",), ("a: 1: could not be checked",))


def test_a_tool_named_answer_is_an_error_at_attach() -> None:
    """Its calls would be taken for final answers; an alias gives it another name."""
    with pytest.raises(InputError, match=r"the tool 'answer' has the name of the final answer.*aliases="):
        ToolGuard(policies()).attach([ToolSpec("answer")])
    ToolGuard(policies(), aliases={"answer": "send_answer"}).attach([ToolSpec("answer")])


def test_the_end_of_a_log_shows_the_answer() -> None:
    """An observed answer is judged as a proposed one."""
    session = policies("cited").session()
    assert session.observe(Event("answer", {"text": "x"}, status="ok")).rules == ("cited",)


def test_rules_of_one_task_judge_its_answers() -> None:
    """A guard whose policy does not speak of the answer has to propose it, too."""
    extra = only(RULES["no_cards"])
    guard = ToolGuard(load_policies(data=only("G !tool:wipe")), extra=lambda name: extra if name == "careful" else None)
    assert guard.judges_answers
    verdict = guard.answer("careful", "pay", "card 1234567812345678")
    assert (verdict.rules, "1234" in verdict.feedback()) == (("extra.a",), False)
    assert guard.answer("other", "pay", "card 1234567812345678").label == 0


def test_a_conversation_keeps_the_answer_rules_of_its_version(tmp_path: Path) -> None:
    """Also after a reload of a policy that has none."""
    path = tmp_path / "p.yaml"
    path.write_text(json.dumps(only(RULES["no_cards"])))
    guard = ToolGuard(path)
    assert guard.answer("old", "", "fine").label == 0
    path.write_text(json.dumps(only("G !tool:wipe")))
    guard.reload()
    assert guard.answer("old", "", "card 1234567812345678").rules == ("a",)
    assert guard.answer("new", "", "card 1234567812345678").label == 0
