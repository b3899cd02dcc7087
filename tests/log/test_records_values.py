"""The encoding of values: redacted by path, of bounded size, and for any type."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent import Verdict, load_policies
from guardagent.log import AuditLog, outcome_record, verdict_record
from guardagent.log.chain import Chain
from guardagent.log.records import (
    MAX_FIELD,
    MAX_STRING,
    MAX_WHOLE,
    RecordEncoder,
    canonical_json,
    is_json_value,
    json_value,
)
from guardagent.types import Decision, Violation
from tests.log.logs import KEY

CARD = "4111 1111 1111 1111"


def written(record: Mapping[str, Any], *redact: str, key: bytes | None = None) -> dict[str, Any]:
    """Returns the log's encoding of a record with these fields."""
    text = RecordEncoder(redact, Chain(key), lambda: 0.0).encode({"kind": "verdict", **record})
    made: dict[str, Any] = json.loads(text)
    return made


# --- redaction


@pytest.mark.parametrize(
    ("path", "args"),
    [
        ("args.card.number", {"card": {"number": "secret-7"}}),
        ("args.Card.NUMBER", {"card": {" Number": "secret-7"}}),
        ("args.*.ssn", {"ann": {"ssn": "secret-7"}, "bob": {"ssn": "secret-7"}}),
        ("args.people.ssn", {"people": [{"ssn": "secret-7"}, [{"ssn": "secret-7"}]]}),
        ("args.people.1", {"people": ["x", "secret-7"]}),
        ("args.**.ssn", {"a": {"b": [{"ssn": "secret-7"}]}, "ssn": "secret-7"}),
        ("**.ssn", {"a": {"ssn": {"deep": ["secret-7"]}}}),
        ("args", {"a": "secret-7"}),
        ("args.**", {"a": "secret-7"}),
        ("args.1", {1: "secret-7"}),
    ],
)
@pytest.mark.parametrize("key", [None, KEY])
def test_a_value_is_redacted_by_its_path(path: str, args: Any, key: bytes | None) -> None:
    """It occurs nowhere in the entry."""
    made = written({"args": args}, path, key=key)
    assert "secret" not in json.dumps(made)
    assert "redacted" in json.dumps(made["args"])


def test_a_redacted_value_is_gone_from_reasons_and_evidence() -> None:
    """It is removed as a value, within a string and as a number; the structure of the entry stays."""
    record = {
        "args": {"card": CARD, "pin": 1, "note": f"my card is {CARD}!"},
        "label": 1,
        "reasons": [f"the card '{CARD}' with 1 digit, of 11"],
        "violations": [{"policy": "r", "evidence": {"number": CARD, "pin": 1, CARD: 2}}],
    }
    made = written(record, "args.card", "args.pin")
    assert CARD not in json.dumps(made)
    assert made["args"]["note"] == "my card is [redacted]!"
    assert made["reasons"] == ["the card '[redacted]' with [redacted] digit, of 11"]
    assert made["violations"][0]["evidence"]["pin"] == made["args"]["pin"]
    assert made["label"] == 1


def test_with_many_redacted_values_nothing_else_is_shown() -> None:
    """They are too many to search for, so all other values are redacted."""
    made = written({"args": {"all": list(range(1000)), "more": 7}, "reasons": ["7"], "label": 1}, "args.all")
    assert made["args"].keys() == {"redacted"}
    assert made["reasons"].keys() == {"redacted"}
    assert made["label"] == 1


def test_without_a_key_nothing_reveals_a_redacted_value() -> None:
    """Entries that differ only in it are equal, even in the hash of the arguments."""
    assert written({"args": {"pin": 1234}}, "args.pin") == written({"args": {"pin": 9999}}, "args.pin")


def test_with_a_key_equal_values_have_equal_digests() -> None:
    """Nobody can compute them without the key; the hash of the arguments is that of the original ones."""
    first, same, other = (written({"args": {"pin": pin}}, "args.pin", key=KEY) for pin in (1, 1, 2))
    theirs = written({"args": {"pin": 1}}, "args.pin", key=b"another key of 16")
    assert first == same
    assert first["args"] != other["args"]
    assert first["args_hash"] != other["args_hash"]
    assert first["args"] != theirs["args"]
    assert first["args"]["pin"]["redacted"].startswith("hmac-sha256:")


def test_an_agents_value_does_not_look_redacted() -> None:
    """It does not look truncated or like an object either."""
    for fake in ({"redacted": "hmac-sha256:00"}, {"cut": {"start": "x"}}, {"$object": ["int", "1"]}):
        made = written({"args": {"x": fake}})["args"]["x"]
        (key, value) = next(iter(fake.items()))
        assert made == {"$object": ["dict", [[key, value]]]}


# --- values that JSON has not


@dataclass
class PaymentCard:
    number: str
    bank: str = "b"


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_any_value_can_be_written() -> None:
    """Each has one encoding, which includes its type."""
    kinds = {
        "nan": (math.nan, {"$object": ["float", "nan"]}),
        "bytes": (b"\x01", {"$object": ["bytes", "01"]}),
        "set": ({2, 1}, {"$object": ["set", [1, 2]]}),
        "decimal": (Decimal("1.10"), {"$object": ["decimal.Decimal", "1.10"]}),
        "time": (datetime(2026, 1, 2, tzinfo=UTC), {"$object": ["datetime.datetime", "2026-01-02 00:00:00+00:00"]}),
        "keys": ({1: "a", "1": "b"}, {"$object": ["dict", [["1", "b"], [1, "a"]]]}),
        "card": (PaymentCard("x"), {"$object": [f"{__name__}.PaymentCard", {"number": "x", "bank": "b"}]}),
        "hostile": (Hostile(), {"$object": [f"{__name__}.Hostile"]}),
        "frozen": (MappingProxyType({"a": (1, 2)}), {"a": [1, 2]}),
        "decision": (Decision.DENY, "deny"),
        "long": (10**5000, {"$object": ["int", hex(10**5000)]}),
    }
    for value, expected in kinds.values():
        assert json_value(value) == expected
        json.loads(canonical_json(json_value(value)), parse_constant=pytest.fail)
    assert (
        written({"args": {"card": PaymentCard("secret-7")}}, "args.card.number")["args"]["card"]["$object"][1]["bank"]
        == "b"
    )
    assert "secret" not in json.dumps(written({"args": {"card": PaymentCard("secret-7")}}, "args.card.number"))


@given(
    st.recursive(
        st.none()
        | st.integers()
        | st.floats()
        | st.text(max_size=3)
        | st.binary(max_size=3)
        | st.integers(10**4000, 10**4001),
        lambda inside: (
            st.lists(inside, max_size=3)
            | st.lists(inside, max_size=3).map(tuple)
            | st.dictionaries(st.text(max_size=3) | st.integers(0, 3) | st.just("redacted"), inside, max_size=3)
            | st.dictionaries(st.text(max_size=3), inside, max_size=3).map(MappingProxyType)
        ),
    )
)
def test_a_json_value_is_its_own_encoding(value: Any) -> None:
    """If the quick test accepts a value, both ways give the same JSON."""
    if is_json_value(value):
        assert canonical_json(value) == canonical_json(json_value(value))
    assert not is_json_value({"redacted": value})


def test_recursive_values_are_cut_off() -> None:
    """Values that contain themselves, once or many times, and very deep ones are bounded."""
    itself: list[Any] = []
    itself.append(itself)
    twice: list[Any] = []
    twice += [twice, twice]
    deep: Any = 1
    for _ in range(10_000):
        deep = [deep]
    for value in (itself, twice, deep):
        assert not is_json_value(value)
        assert "nested too deep, or too large" in canonical_json(json_value(value))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
)


@given(json_values)
def test_json_is_written_unchanged(value: Any) -> None:
    """Only a value that imitates a mark of the log is changed."""
    made = json_value(value)
    if "$object" not in canonical_json(made):
        assert made == value
    assert canonical_json(made).isascii()


# --- sizes


@pytest.mark.parametrize("key", [None, KEY])
def test_long_strings_are_truncated_and_keep_their_hash(key: bytes | None) -> None:
    """The beginning and the length remain; the hash of the arguments is that of the complete ones."""
    text = "x" * 100_000
    made = written({"args": MappingProxyType({"text": text, "short": "y", "more": ()})}, key=key)
    cut = made["args"]["text"]["cut"]
    assert (cut["start"], cut["characters"]) == (text[:MAX_STRING], len(text))
    assert made["args"]["short"] == "y"
    if key is None:
        whole = json.dumps({"more": [], "short": "y", "text": text}, separators=(",", ":"))
        assert made["args_hash"] == f"sha256:{hashlib.sha256(whole.encode()).hexdigest()}"
        assert cut["hash"] == f"sha256:{hashlib.sha256(json.dumps(text).encode()).hexdigest()}"


def test_a_field_with_many_values_is_truncated() -> None:
    """An entry does not grow with an agent's output."""
    made = written({"args": {"numbers": list(range(50_000))}, "output": ["x" * 500] * 1000})
    assert made["args"]["cut"]["characters"] > MAX_FIELD
    assert made["args"]["cut"]["hash"] == made["args_hash"]
    assert len(json.dumps(made)) < 2 * MAX_WHOLE


# --- records


def test_a_verdict_is_written_with_its_permit(tmp_path: Path) -> None:
    """The permit's nonce is not written."""
    (tmp_path / "p.yaml").write_text("version: 1\npolicies: [{id: small, temporal: 'forall(pay(n=n), n < 9)'}]")
    session = load_policies(tmp_path / "p.yaml").session(id="c1")
    verdict = session.check("pay", {"n": 1})
    record = verdict_record(
        verdict, tool="pay", args={"n": 1}, conversation="c1", call_id="call_7", permit=verdict.permit, facts={"a": 1}
    )
    made = written(record)
    assert (made["decision"], made["label"], made["call_id"], made["args"]) == ("allow", 0, "call_7", {"n": 1})
    assert made["policy"] == session.policies.digest
    assert (made["permit"]["session"], made["permit"]["place"]) == ("c1", 1)
    assert made["permit"]["nonce_hash"] == f"sha256:{hashlib.sha256(verdict.permit.nonce.encode()).hexdigest()}"
    assert verdict.permit.nonce not in json.dumps(made)
    assert made["facts_hash"].startswith("sha256:")


def test_a_denial_is_written_with_its_causes() -> None:
    """It has rules, reasons, violations and errors."""
    violation = Violation("small", "too much", {"n": 10}, "n < 9")
    verdict = Verdict(Decision.DENY, ("too much",), (violation,), ("unknown",), elapsed_ms=1.23456)
    made = written(verdict_record(verdict, tool="pay", args={}, conversation="c1", agent="planner", policy="abc"))
    assert (made["decision"], made["label"], made["rules"], made["errors"]) == ("deny", 1, ["small"], ["unknown"])
    assert made["violations"] == [violation.to_dict()]
    assert (made["agent"], made["policy"], made["permit"], made["elapsed_ms"]) == ("planner", "abc", None, 1.235)


def test_an_outcome_is_written_with_its_output(tmp_path: Path) -> None:
    """The output is redacted by path, like arguments."""
    record = outcome_record(tool="pay", status="ok", conversation="c1", output={"token": "secret-7"}, elapsed_ms=2.0)
    made = written(record, "output.token")
    assert (made["kind"], made["status"], made["elapsed_ms"]) == ("outcome", "ok", 2.0)
    assert "secret" not in json.dumps(made)
    with AuditLog(tmp_path / "audit.jsonl", redact=["output.token"]) as log:
        log.append(record)
    assert "secret" not in (tmp_path / "audit.jsonl").read_text()
