"""Redaction: no model sees a matching value, and the verdict contains it again."""

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
    """It covers the run, the facts, demonstrations and errors; the final answer is the original."""
    model = ScriptedModel([PLAN, CODE.replace("check_access(", "missing("), CODE])
    guard = GuardAgent(
        agent="ehragent", mode="generate", model=model, redact={"patient": r"\d{3}-\d{5}", "value": r"7\.4"}
    )
    verdict = guard.guard(ehr_input("nursing"), ehr_log(), {"role": "nursing", "ward": {"of": ["010-00001"]}})
    assert (verdict.label, verdict.answer) == (0, "7.4")
    sent = "\n".join(message.content for messages in model.requests for message in messages)
    assert "010-00001" not in sent
    assert "022-40817" not in sent, "patients of demonstrations are redacted too"
    assert "7.4" not in sent
    assert "[patient 1 " in sent
    assert "010-00001" not in json.dumps(verdict.to_dict(explain=True)["story"])


@given(st.text(), st.lists(st.sampled_from([r"\d+", "a.", "[b-z]*", "x|yy", "(?i)é"]), min_size=1))
def test_redacted_values_can_be_restored(text: str, patterns: list[str]) -> None:
    """The result is exact, and equal values have equal placeholders."""
    redaction = Redactor(patterns).redaction()
    redacted = redaction.redact({"a": [text, text]})
    assert redaction.restore(redacted) == {"a": [text, text]}
    assert redacted["a"][0] == redacted["a"][1]


def test_overlapping_patterns_redact_both_matches() -> None:
    """The earlier and longer match wins, and no fragment remains between them."""
    redaction = Redactor({"word": "[a-z]+", "all": "[a-z]+ [0-9]+"}).redaction()
    redacted = redaction.redact("abc 123 def")
    assert "abc" not in redacted.replace("all", "")
    assert "123" not in redacted.partition("]")[0].split()[0]
    assert redaction.restore(redacted) == "abc 123 def"


def test_the_clock_is_not_redacted() -> None:
    """The fact `now` stays readable for the program."""
    facts = {"now": "2026-01-31T12:00+00:00", "phone": "2026"}
    redacted = Redactor(r"\d{4}").redaction().redact(facts)
    assert redacted["now"] == facts["now"]
    assert redacted["phone"] != "2026"


@pytest.mark.parametrize("pattern", ["(", "(?=a)", r"\1", None, 5])
def test_an_invalid_pattern_is_rejected(pattern: object) -> None:
    """RE2 has no look-around and no backreferences, so that it matches in linear time."""
    with pytest.raises(InputError, match="not a regular expression"):
        Redactor([pattern])  # type: ignore[list-item]
