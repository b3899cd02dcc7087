"""Redaction: no model sees a matching value, and the verdict contains it again."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent import GuardAgent, InputError, ModelError
from guardagent.models import Message
from guardagent.models.backends.openai import Backend
from guardagent.models.redaction import Redactor
from guardagent.testing import ScriptedModel
from tests.models.conftest import KEY, Serve
from tests.models.server import Reply, status, text
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
    assert re.fullmatch(r"\[\w+ 1 [0-9a-f]+\] ?\[\w+ 2 [0-9a-f]+\]", redacted), redacted
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


# --- keys appear in no file, output or error, whatever the endpoint does with them


OTHER = "another-secret-value"


@pytest.mark.parametrize(
    "replies",
    [
        [status(401, f"Incorrect API key provided: {KEY}")],
        [status(500, f"Authorization: Bearer {KEY} {OTHER}")],
        [status(307, location=f"http://127.0.0.1:9/?key={KEY}")],
        [Reply(f"{KEY}".encode(), content_type="text/plain")],
        [Reply(f'{{"choices": "{KEY}"}}'.encode())],
        [text(f"{PLAN}\nYour key is {KEY}, and {OTHER}."), text(CODE.replace("return {", f"return {{  # {KEY}"))],
    ],
)
def test_a_key_in_an_endpoints_answer_is_removed(
    serve: Serve,
    replies: list[Reply],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is removed from logs of every level, verdicts with their story, errors, cache files and representations."""
    serve(replies)
    monkeypatch.setenv("OTHER_TOKEN", OTHER)
    model = Backend("test", retries=1, timeout=5)
    guard = GuardAgent(agent="ehragent", mode="generate", model=model, debug_rounds=0, cache=tmp_path / "cache")
    with caplog.at_level(logging.DEBUG):
        verdict = guard.guard(ehr_input("nursing"), ehr_log())
    kept = [file.read_text() for file in tmp_path.rglob("*.json")]
    shown = [verdict.to_json(explain=True), repr(verdict), caplog.text, repr(model), str(model), repr(guard), *kept]
    for secret in (KEY, OTHER):
        assert not any(secret in text for text in shown)


def test_the_first_request_of_a_process_logs_no_key(serve: Serve) -> None:
    """The endpoint's headers and loggers that a library creates late leak none either."""
    serve([status(500, f"no {KEY}", x_echo=KEY), text(f"fine, {KEY}")])
    program = """
import logging
logging.basicConfig(level=logging.DEBUG)
from guardagent.models import Message, load_model
print(load_model("openai/test").complete([Message("user", "hi")]).text)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "fine, [secret]\n"
    assert "x-echo" in ran.stderr
    assert KEY not in ran.stderr


def test_the_configured_key_variable_is_a_secret(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name does not matter, and one secret may be a prefix of another."""
    server = serve([status(401, f"no {OTHER} and no {KEY}-{OTHER}")])
    monkeypatch.setenv("GATEWAY_LOGIN", OTHER)
    monkeypatch.setenv("LONG_TOKEN", f"{KEY}-{OTHER}")
    with pytest.raises(ModelError, match=r"no \[secret\] and no \[secret\]$"):
        Backend("test", api_key_env="GATEWAY_LOGIN").complete([Message("user", "hi")])
    assert server.keys == [f"Bearer {OTHER}"]


def test_a_raised_error_has_no_key_in_its_traceback(serve: Serve) -> None:
    """The errors that caused it have none either."""
    serve([status(401, f"Incorrect API key provided: {KEY}")])
    with pytest.raises(ModelError) as raised:
        Backend("test").complete([Message("user", "hi")])
    assert KEY not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("key", [f"{KEY}\nX-Injected: 1", f"{KEY}é", f"{KEY}\x7f"])
def test_a_key_that_cannot_be_sent_is_not_shown(serve: Serve, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """It is rejected before anything is sent."""
    server = serve([text("fine")])
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ModelError, match="a key that cannot be sent") as raised:
        Backend("test").complete([Message("user", "hi")])
    assert KEY not in str(raised.value)
    assert server.requests == []


def test_a_key_may_end_with_a_line_break(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key from a file often does."""
    server = serve([text("fine")])
    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")
    Backend("test").complete([Message("user", "hi")])
    assert server.keys == [f"Bearer {KEY}"]


@pytest.mark.parametrize(
    "url", ["https://user:secret-word@host/v1", "https://host/v1?key=secret-word", "secret-word", "http://[secret-word"]
)
def test_a_base_url_with_a_secret_is_rejected_without_showing_it(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """A key belongs in the environment."""
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(ModelError, match="an invalid base URL") as raised:
        Backend("test").complete([Message("user", "hi")])
    assert "secret-word" not in str(raised.value)
