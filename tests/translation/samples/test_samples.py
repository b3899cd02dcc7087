"""Samples from traces and cases: short, without secrets, and with what a rule needs to know of outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.errors import InputError
from guardagent.translation.context import read_inputs, shared_data
from guardagent.translation.samples import (
    FactDescription,
    Shape,
    ToolSamples,
    TraceSamples,
    facts_of_host,
    read_fact_descriptions,
    read_host,
    read_samples,
    render,
)


def samples(tmp_path: Path, *records: Any) -> TraceSamples:
    path = tmp_path / "traces.jsonl"
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return read_samples(path)


def trace(*events: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "t", "events": [{"tool": "get", "args": {"id": "7"}, **event} for event in events], **more}


def get(tmp_path: Path, *events: dict[str, Any]) -> ToolSamples:
    return samples(tmp_path, trace(*events)).tools[0]


def test_outputs_have_a_shape(tmp_path: Path) -> None:
    """Also JSON in strings; few values that come back are listed, and ids are not."""
    outputs = [
        {"output": json.dumps({"id": f"a{number}", "tier": ["gold", "none"][number % 2], "days": [number]})}
        for number in range(10)
    ]
    shapes = {output.path: (output.types, output.values) for output in get(tmp_path, *outputs).outputs}
    assert shapes == {
        "(whole)": (("object",), ()),
        "id": (("string",), ()),
        "tier": (("string",), ("gold", "none")),
        "days": (("list",), ()),
        "days[]": (("integer",), ()),
    }


def test_keys_that_are_data_are_one_place(tmp_path: Path) -> None:
    """Such as ids of users."""
    state = {"users": {f"user_{number}7": {"name": "x"} for number in range(3)}, "now": "2026"}
    path_samples = samples(tmp_path, trace({}, state=state))
    assert [sample.path for sample in path_samples.state] == ["users", "users.*", "users.*.name", "now"]


def test_failures_are_counted_by_their_beginning(tmp_path: Path) -> None:
    """Candidates for `failed_output`, with those that the traces call successes."""
    events: list[dict[str, Any]] = [{"output": f"Error: no order {number}"} for number in range(3)]
    events += [{"output": "Error: late", "failed": False}, {"output": "Gone", "failed": True}, {"output": "fine"}]
    failures = get(tmp_path, *events).failures
    assert [(failure.prefix, failure.count, failure.others) for failure in failures] == [
        ("Error:", 4, 1),
        ("Gone", 1, 0),
    ]


def test_cases_are_read_too(tmp_path: Path) -> None:
    """With their facts and state."""
    case = {
        "id": "c",
        "history": [{"tool": "get", "args": {}, "output": 1}],
        "proposed": {"tool": "pay", "args": {"amount": 5}},
        "state": {"now": "x"},
        "context": {"reason": "late"},
    }
    path_samples = samples(tmp_path, case)
    assert [(tool.tool, tool.calls) for tool in path_samples.tools] == [("get", 1), ("pay", 1)]
    assert [fact.path for fact in path_samples.facts] == ["user_confirmed", "context", "context.reason"]


@pytest.mark.parametrize(
    "output",
    [
        {"password": "hunter2"},
        {"api_key": 12345678},
        "key is sk-abcdefghij0123456789XYZ",
        "Bearer abcDEF123456.ghi",
        {"x": ["AKIAIOSFODNN7EXAMPLE"]},
        "4111 1111 1111 1111",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
        "aZ3kP9qLm2Xv8RtY5wNc7Bd1Q",
    ],
)
def test_secrets_are_hidden(tmp_path: Path, output: Any) -> None:
    """By the name of a field, or by their form."""
    text = render(samples(tmp_path, trace(*[{"output": output}] * 9)))
    assert "[secret]" in text
    for secret in ("hunter2", "12345678", "abcdefghij", "ghi", "IOSFODNN", "4111", "MIIE", "aZ3k"):
        assert secret not in text


def test_names_dates_and_ids_are_shown(tmp_path: Path) -> None:
    """They are no secrets."""
    shown = "john_smith_4711 2024-05-15T15:00:00 HAT096 https://example.com/orders/4711"
    assert shown in render(samples(tmp_path, trace({"output": shown})))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("[]", "no object"),
        ('{"id": 1, "evnts": []}', "an object with 'id', 'evnts'"),
        ("{", "not JSON"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """The message says what was found."""
    path = tmp_path / "traces.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_samples(path)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(st.lists(VALUES, min_size=1, max_size=5), st.integers(0, 400))
def test_the_text_keeps_its_limit(tmp_path_factory: pytest.TempPathFactory, outputs: list[Any], limit: int) -> None:
    """Whatever the outputs."""
    tool_samples = samples(tmp_path_factory.mktemp("t"), trace(*({"output": output} for output in outputs)))
    assert len(render(tool_samples, limit)) <= limit
    assert render(tool_samples, 10**9).count("\ntool") == 0


# --- descriptions of the host's facts


def test_facts_have_descriptions_and_types(tmp_path: Path) -> None:
    """In YAML and in JSON."""
    (tmp_path / "f.yaml").write_text("a: the tier\nb: {type: boolean, description: confirmed}\nc:\n")
    (tmp_path / "f.json").write_text('{"a": "the tier", "b": {"type": "boolean", "description": "confirmed"}, "c": ""}')
    for name in ("f.yaml", "f.json"):
        assert read_fact_descriptions(tmp_path / name) == (
            FactDescription("a", "the tier"),
            FactDescription("b", "confirmed", "boolean"),
            FactDescription("c"),
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "is a list"),
        ("a: 5", "'a': is 5; expected a mapping"),
        ("5: a", "the name of a fact is 5"),
        ("a: {typ: string}", "unknown key 'typ'"),
        ("a: {type: strng}", "'a'.type: is \"strng\"; expected one of"),
        ("a: {type: 5}", "'a'.type: is 5"),
        ("a: x\na: y", "twice"),
    ],
)
def test_another_form_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """The message says where."""
    (tmp_path / "f.yaml").write_text(text)
    with pytest.raises(InputError, match=message):
        read_fact_descriptions(tmp_path / "f.yaml")


# --- shapes of values: a mapping whose keys are data has one entry


def test_keys_that_look_like_words_are_data_if_few_values_have_each() -> None:
    def record(key: str) -> dict[str, Any]:
        return {key: {"owner": "ann", "open": True}}

    orders = Shape()
    for key in ("ABCDEF", "GHIJKL", "MNOPQR", "STUVWX", "YZABCD"):
        orders.add(record(key))
    assert [path.path for path in orders.paths("orders")][1:] == ["orders.*", "orders.*.owner", "orders.*.open"]
    addresses = Shape()
    for _ in range(5):
        addresses.add({**record("home"), **record("work"), **record("billing"), **record("gift")})
    assert "orders.home.owner" in [path.path for path in addresses.paths("orders")]


# --- the host


@pytest.mark.parametrize(
    "state",
    [
        {"open": {"W12": {"paid": True, "kind": "gift"}, "W13": {"paid": False, "kind": "gift"}}, "tags": ["a"]},
        {
            "type": "object",
            "properties": {
                "open": {
                    "type": "object",
                    "additionalProperties": {
                        "properties": {"paid": {"type": "boolean"}, "kind": {"type": "string", "enum": ["gift"]}}
                    },
                },
                "tags": {"type": "array", "items": {"type": "string"}},
            },
        },
    ],
)
def test_a_host_is_described_by_a_schema_or_samples(tmp_path: Path, state: object) -> None:
    """Its facts are known to the translation, and secrets are hidden."""
    (tmp_path / "host.json").write_text(
        json.dumps({"state": state, "facts": [{"age": 5, "user": {"id": "a"}}], "messages": [{"password": "x9"}]})
    )
    (tmp_path / "POLICY.md").write_text("Be kind.")
    context = read_inputs(
        tmp_path / "POLICY.md",
        {"tools": [{"name": "pay", "description": "Pays."}]},
        tmp_path,
        host=tmp_path / "host.json",
    )
    assert {(fact.name, fact.type) for fact in context.facts} == {("age", "integer"), ("user", "object")}
    text = shared_data(context)["samples"]
    state_lines = {"state open.*.paid: boolean", "state tags[]: string"}
    assert {*state_lines, "facts user.id: string", "messages password: string"} <= {*text.splitlines()}
    assert "x9" not in text


def test_the_descriptions_of_a_schema_reach_the_model(tmp_path: Path) -> None:
    fact = {"type": "string", "description": "who is\n logged in"}
    schema = {"type": "object", "properties": {"user": fact, "day": {"type": "object", "properties": {"n": fact}}}}
    (tmp_path / "host.json").write_text(json.dumps({"facts": schema}))
    host = read_host(tmp_path / "host.json")
    assert facts_of_host(host)[0] == FactDescription("user", "who is logged in", "string")
    assert [path.description for path in host["facts"] if path.path == "day.n"] == ["who is logged in"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [("[]", "is a list"), ('{"sate": {}}', "did you mean 'state'"), ('{"state": []}', "'state' is empty or a list")],
)
def test_another_host_is_an_error(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "host.json").write_text(content)
    with pytest.raises(InputError, match=problem):
        read_host(tmp_path / "host.json")
