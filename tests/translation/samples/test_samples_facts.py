"""Descriptions of the host's facts."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent.errors import InputError
from guardagent.translation.samples import FactDescription, read_fact_descriptions


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
        ("a: 5", "'a' is a int"),
        ("5: a", "the name of a fact is 5"),
        ("a: {typ: string}", "unknown key 'typ'"),
        ("a: {type: strng}", "did you mean 'string'"),
        ("a: {type: 5}", "the type of 'a' is a int"),
        ("a: x\na: y", "twice"),
    ],
)
def test_another_form_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """The message says where."""
    (tmp_path / "f.yaml").write_text(text)
    with pytest.raises(InputError, match=message):
        read_fact_descriptions(tmp_path / "f.yaml")
