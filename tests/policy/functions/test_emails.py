"""`emails` finds the addresses of a text."""

from __future__ import annotations

from typing import Any

import pytest

from guardagent.policy.functions import function


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Bob <Bob.X@Shop.Com>, a+b@c.co.uk.", ["bob.x@shop.com", "a+b@c.co.uk"]),
        ("a@b.co,c@d.ef;A@B.co", ["a@b.co", "c@d.ef"]),
        ("mailto:a@b.co?cc=c@d.ef", ["a@b.co", "cc=c@d.ef", "c@d.ef"]),
        ("to=a@b.co", ["to=a@b.co", "a@b.co"]),
        ('"a b"@c.de root@[10.0.0.1]', ['"a b"@c.de', "root@[10.0.0.1]"]),
        ("a&#64;b.co *c@d.ef* _g@h.ij_", ["a@b.co", "c@d.ef", "g@h.ij"]),
        ("j\u00fcrgen@b\u00fccher.de", ["j\u00fcrgen@b\u00fccher.de"]),
        ("a @ b, @handle, a@host, 1@", []),
    ],
)
def test_addresses_are_found_in_lower_case(text: str, found: list[Any]) -> None:
    """A parameter with an address may be one itself, and counts as both."""
    result = function("emails")
    assert result is not None
    assert result.apply([text]) == found
