"""`links` finds the links of plain text, Markdown and HTML, as a browser opens them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from guardagent.policy.functions import function
from guardagent.policy.language.values import Unknown


def links(text: str) -> Any:
    found = function("links")
    assert found is not None
    return found.apply([text])


@pytest.mark.parametrize(
    ("text", "found"),
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
        ("nothing", []),
    ],
)
def test_links_are_found_and_normalised(text: str, found: list[str]) -> None:
    """Tricks that hide a host do not."""
    assert links(text) == found


@pytest.mark.parametrize("text", ["https://a.b/" + "a" * 1_000_000, "http://a.b " * 1_001, "https://a.b \ud800"])
def test_too_much_is_unknown(text: str) -> None:
    """No link is left out silently."""
    assert isinstance(links(text), Unknown)


@pytest.mark.parametrize(
    "piece", ["http://", 'href="', "](", "//a.", "www.", "http://(", "&#64;", "aaaaaaaa", "(((((((", "http://a/../"]
)
def test_hostile_input_takes_linear_time(piece: str) -> None:
    """Pieces of links without an end."""
    start = time.perf_counter()
    links(piece * (900_000 // len(piece)))
    assert time.perf_counter() - start < 5
