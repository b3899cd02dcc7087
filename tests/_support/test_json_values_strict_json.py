import json
from decimal import Decimal

import pytest

from guardagent._support import json_values


@pytest.mark.parametrize(
    ("text", "message"),
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
def test_rejects_json_that_readers_understand_differently(text: str | bytes, message: str) -> None:
    """Each error has the reason."""
    with pytest.raises(ValueError, match=message):
        json_values.loads(text)


def test_accepts_what_json_accepts() -> None:
    """Strings and bytes are equal; numbers are exact if the caller requests it."""
    value = {"a": [1, 2.5, None, True, "é"], "": {}}
    assert json_values.loads(json.dumps(value)) == json_values.loads(json.dumps(value).encode()) == value
    assert json_values.loads("0.1", parse_float=Decimal) == Decimal("0.1")
