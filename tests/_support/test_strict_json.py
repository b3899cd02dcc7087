import json
from decimal import Decimal

import pytest

from guardagent._support import strict_json


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 1}}', "key 'c' appears twice"),
        ("[NaN]", "NaN is not a JSON value"),
        ("-Infinity", "-Infinity is not a JSON value"),
        ("1e999", "1e999 is too large"),
        ("1" * 5000, "4300 digits"),
        ("[" * 100_000, "nested too deep"),
        (b'"\xff"', "utf-8"),
        ('"a" 1', "Extra data"),
        ("", "Expecting value"),
    ],
)
def test_refuses_a_text_that_readers_take_differently(text: str | bytes, says: str) -> None:
    """Each refusal says why."""
    with pytest.raises(ValueError, match=says):
        strict_json.loads(text)


def test_reads_what_json_reads() -> None:
    """Texts and bytes alike; numbers exactly where the caller asks for it."""
    value = {"a": [1, 2.5, None, True, "é"], "": {}}
    assert strict_json.loads(json.dumps(value)) == strict_json.loads(json.dumps(value).encode()) == value
    assert strict_json.loads("0.1", parse_float=Decimal) == Decimal("0.1")
