"""Matches of a regular expression, addresses, and the links of plain text, Markdown and HTML."""

from __future__ import annotations

import time
from typing import Any

import pytest

from guardagent.policy.functions import rule_functions
from guardagent.policy.language.values import Unknown

FUNCTIONS = rule_functions()


def find(text: str, regex: str) -> Any:
    return FUNCTIONS["find"].apply([text, regex])


@pytest.mark.parametrize(
    ("text", "regex", "expected"),
    [
        ("a1 b22", "[a-z][0-9]+", ["a1", "b22"]),
        ("a1 b22", "[a-z]([0-9]+)", ["1", "22"]),
        ("a1 b22", "([a-z])([0-9]+)", ["a", "b"]),
        ("ab", "(a)|b", ["a", None]),
        ("\u00e9a\u00e9", "\u00e9", ["\u00e9", "\u00e9"]),
        ("bab", "a*", ["a"]),
        ("", "a", []),
    ],
)
def test_matches_are_listed_in_order(text: str, regex: str, expected: list[Any]) -> None:
    """The first group, if there is one; null if it takes no part, so that a rule about it is unknown."""
    assert find(text, regex) == expected


@pytest.mark.parametrize("text", ["a" * 1_001, "b" * 1_000_001, "a\ud800"])
def test_too_much_is_unknown(text: str) -> None:
    """No match is left out silently."""
    assert isinstance(find(text, "a"), Unknown)


def test_a_hostile_text_takes_linear_time() -> None:
    """A backtracking engine would need years."""
    start = time.perf_counter()
    assert find("a" * 100_000, "(a+)+b") == []
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_addresses_are_found_in_lower_case(text: str, expected: list[Any]) -> None:
    """A parameter with an address may be one itself, and counts as both."""
    assert FUNCTIONS["emails"].apply([text]) == expected


def links(text: str) -> Any:
    return FUNCTIONS["links"].apply([text])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see https://shop.com/a?b=1.", ["https://shop.com/a?b=1"]),
        ("HTTPS://Shop.COM", ["https://shop.com/"]),
        ("(https://a.b/c_(d)), http://e.f!", ["https://a.b/c_(d)", "http://e.f/"]),
        ("https://a.b,https://c.d/e;http://f.g", ["https://a.b/", "https://c.d/e", "http://f.g/"]),
        ("www.Shop.com/A and //evil.io/x", ["http://www.shop.com/A", "http://evil.io/x"]),
        ("// a comment, a//b, 1//2", []),
        ('[a](//evil.io)[b](https://c.d "t")', ["http://evil.io/", "https://c.d/"]),
        ("[a]: https://c.d\n<https://e.f>", ["https://c.d/", "https://e.f/"]),
        ("[a](/here) [b](#there) [c](mailto:a@b.c)", ["mailto:a@b.c"]),
        ("<a href='//evil.io'> <img SRC = x.io/y> <a href=\"java\nscript:x\">", ["http://evil.io/", "javascript:x"]),
        ('<a href="/\\evil.io">', ["http://evil.io/"]),
        ("https://shop.com@evil.io/ https://shop.com\\@evil.io", ["https://evil.io/", "https://shop.com/@evil.io"]),
        ("https:\\/\\/evil.io\\/a", ["https://evil.io/a"]),
        ("https&#58;//evil.io", ["https://evil.io/"]),
        ("https://ev%69l.io:443/a/../b/./c http://[::1]:80/", ["https://evil.io/b/c", "http://[::1]/"]),
        ("https://\uff45vil.io https://evil\u3002io", ["https://evil.io/"]),
        ("https://fa\u00df.de", ["https://fa\u00df.de/"]),
        ("ftp://a.b/c https://a.b https://a.b/", ["ftp://a.b/c", "https://a.b/"]),
        ("www.a.com,www.b.com|c.org/x", ["http://www.a.com/", "http://www.b.com/", "http://c.org/x"]),
        ("https://a.b,c.io/d see e.com.", ["https://a.b/", "http://c.io/d", "http://e.com/"]),
        ("https://shop.com/?u=evil.com x=evil.com", ["https://shop.com/?u=evil.com", "http://evil.com/"]),
        ("a" * 40 + "://x.com/", ["a" * 31 + "://x.com/"]),  # a scheme has at most 31 characters
        ("1" * 40 + "://x.com/ www.y.io", ["http://www.y.io/"]),
        ("nothing", []),
    ],
)
def test_links_are_found_and_normalised(text: str, expected: list[str]) -> None:
    """Tricks that hide a host do not."""
    assert links(text) == expected


@pytest.mark.parametrize("text", ["https://a.b/" + "a" * 1_000_000, "http://a.b " * 1_001, "https://a.b \ud800"])
def test_too_many_links_are_unknown(text: str) -> None:
    """No link is left out silently."""
    assert isinstance(links(text), Unknown)


@pytest.mark.parametrize(
    "piece",
    ["http://", 'href="', "](", "//a.", "www.", "http://(", "&#64;", "aaaaaaaa", "(((((((", "http://a/../", "aB3x/9Qk"],
)
def test_hostile_links_take_linear_time(piece: str) -> None:
    """Pieces of links without an end."""
    start = time.perf_counter()
    links(piece * (900_000 // len(piece)))
    assert time.perf_counter() - start < 5
