"""Self-consistency: several plans, the most severe decision that at least half of them reach."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent import Decision, GuardAgent, Verdict
from guardagent.programs.generation import representative
from guardagent.testing import ScriptedModel
from guardagent.types import unchecked_verdict
from tests.programs.generation.answers import CODE, PLAN, PROGRAM, block
from tests.runs import ehr_input, ehr_log

STRICT = block(PROGRAM.replace('"lab": ["patientunitstayid", "labresult"]', '"lab": []'))


@pytest.mark.parametrize(
    ("codes", "label"),
    [
        ([CODE, CODE, STRICT], 0),
        ([CODE, STRICT, STRICT], 1),
        ([CODE, STRICT], 1),
        ([CODE, CODE, "prose"], 0),
        (["prose", STRICT, CODE], 1),
    ],
)
def test_most_plans_decide(codes: list[str], label: int) -> None:
    """Half are enough to deny; a vote that could not be checked denies."""
    model = ScriptedModel([answer for code in codes for answer in (PLAN, code)])
    guard = GuardAgent(agent="ehragent", mode="generate", model=model, votes=len(codes), debug_rounds=0)
    verdict = guard.guard(ehr_input("nursing"), ehr_log())
    assert (verdict.label, verdict.errors) == (label, ())
    assert len(verdict.details["votes"]) == len(codes)
    assert {step.vote for step in verdict.story} == set(range(len(codes)))
    assert verdict.model_calls == 2 * len(codes)


@given(st.lists(st.sampled_from(Decision), min_size=1, max_size=7))
def test_the_agreed_decision_is_never_milder_than_the_median(decisions: list[Decision]) -> None:
    """And a decision that more than half reach or exceed is never passed over."""
    chosen = decisions[representative([Verdict(decision) for decision in decisions])]
    exceeding = sum(decision > chosen for decision in decisions)
    assert sum(decision >= chosen for decision in decisions) * 2 >= len(decisions)
    assert exceeding * 2 < len(decisions)


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=9))
def test_the_commonest_answer_stands(answers: list[str]) -> None:
    """Among votes that allow alike."""
    verdicts = [Verdict(Decision.ALLOW, answer=answer) for answer in answers]
    assert Counter(answers)[answers[representative(verdicts)]] == max(Counter(answers).values())


def test_a_checked_vote_speaks_for_those_that_agree() -> None:
    """Its reasons are better than a failure's."""
    assert representative([unchecked_verdict("lost"), Verdict(Decision.DENY, reasons=("rule",))]) == 1
