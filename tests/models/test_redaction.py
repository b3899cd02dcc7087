"""Redaction: no model sees what matches, and the verdict has it again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent import GuardAgent, InputError
from guardagent.models.redaction import Redactor
from guardagent.testing import ScriptedModel
from tests.programs.generation.answers import CODE, PLAN
from tests.runs import ehr_input, ehr_log


def test_no_model_sees_a_redacted_value_and_the_verdict_has_it() -> None:
    """In the run, in the facts, in demonstrations and in errors; the answer that passes is the real one."""
    model = ScriptedModel([PLAN, CODE.replace("check_access(", "missing("), CODE])
    guard = GuardAgent(
        agent="ehragent", mode="generate", model=model, redact={"patient": r"\d{3}-\d{5}", "value": r"7\.4"}
    )
    verdict = guard.guard(ehr_input("nursing"), ehr_log(), {"role": "nursing", "ward": {"of": ["010-00001"]}})
    assert (verdict.label, verdict.answer) == (0, "7.4")
    asked = "\n".join(message.content for messages in model.requests for message in messages)
    assert "010-00001" not in asked
    assert "022-40817" not in asked, "patients of demonstrations are redacted too"
    assert "7.4" not in asked
    assert "[patient 1 " in asked
    assert "010-00001" not in json.dumps(verdict.to_dict(explain=True)["story"])


@given(st.text(), st.lists(st.sampled_from([r"\d+", "a.", "[b-z]*", "x|yy", "(?i)é"]), min_size=1))
def test_what_is_hidden_can_be_shown_again(text: str, patterns: list[str]) -> None:
    """Exactly; and the same value has the same placeholder."""
    redaction = Redactor(patterns).redaction()
    hidden = redaction.redact({"a": [text, text]})
    assert redaction.restore(hidden) == {"a": [text, text]}
    assert hidden["a"][0] == hidden["a"][1]


def test_overlapping_patterns_hide_all_of_both() -> None:
    """The earlier and longer one wins, and no rest is left between."""
    redaction = Redactor({"word": "[a-z]+", "all": "[a-z]+ [0-9]+"}).redaction()
    hidden = redaction.redact("abc 123 def")
    assert "abc" not in hidden.replace("all", "")
    assert "123" not in hidden.partition("]")[0].split()[0]
    assert redaction.restore(hidden) == "abc 123 def"


def test_the_clock_is_no_value_of_the_run() -> None:
    """The fact `now` stays readable for the program."""
    facts = {"now": "2026-01-31T12:00+00:00", "phone": "2026"}
    hidden = Redactor(r"\d{4}").redaction().redact(facts)
    assert hidden["now"] == facts["now"]
    assert hidden["phone"] != "2026"


@pytest.mark.parametrize("pattern", ["(", "(?=a)", r"\1", None, 5])
def test_a_pattern_that_is_none_is_refused(pattern: object) -> None:
    """RE2 has no look-around and no references: all it takes is matched in linear time."""
    with pytest.raises(InputError, match="not a regular expression"):
        Redactor([pattern])  # type: ignore[list-item]
