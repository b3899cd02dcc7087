"""URIs are normalized, and ambiguous URIs are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent.enforcement import HostCall, ToolGuard
from guardagent.enforcement.uri import normalised, readings
from guardagent.errors import InputError

SAME = [
    (
        "shop://terms",
        ["SHOP://terms", "shop://%74erms", "shop://terms/", "shop://terms?", "shop://terms/.", "shop://@terms"],
    ),
    (
        "shop://orders/W1",
        ["shop://orders/./W1", "shop://orders/a/../W1", "shop://orders/%57%31", "shop://orders/%2e%2e/W1"],
    ),
    ("shop://orders/W1", ["shop://orders/../../W1", "shop://orders:/W1"]),
    ("shop://a/b%3Fc%23%25z", ["shop://a/b%3fc%23%25z"]),
    ("shop://a/b:c", ["shop://a/b%3Ac", "shop://a/b%3ac"]),
    ("shop://a/caf%C3%A9", ["shop://a/café", "shop://a/cafe\u0301", "shop://a/caf%c3%a9", "shop://a/cafe%CC%81"]),
    ("shop://a?q=a%26b", ["shop://a/?q=%61%26b", "shop://a?q=a%26b"]),
    ("shop://a/b/", ["shop://a/b/c/..", "shop://a/b/."]),
    (
        "http://example.com/",
        ["HTTP://EXAMPLE.com", "http://example.com:80/", "http://example.com.", "http://ex%61mple.com:0080"],
    ),
    ("https://example.com:8443/a", ["https://Example.COM:8443/a"]),
    ("http://[::1]/", ["http://[0:0:0:0:0:0:0:1]", "http://[::0001]:80/"]),
    (
        "file:///etc/passwd",
        ["file:/etc/passwd", "file://localhost/etc/passwd", "FILE:///etc/x/../passwd", "file:///%65tc/passwd"],
    ),
    ("file:///C:/a", ["file:///c:/a", "file:///c%3A/a"]),
    ("urn:isbn:12", ["URN:isbn:12", "urn:isbn:%31%32"]),
    ("postgres://me@host:5432/db", ["postgres://me@host:05432/db", "postgres://%6de@host:5432/db"]),
]

REFUSED = [
    "", "terms", "//host/a", "1a://b", "shop://a\\b", "shop://a\nb", "shop://a\x00", " shop://a", "shop://a ", "shop://a#b",
    "shop://a/%2e%2e%2fsecret", "shop://a%2Fb", "shop://a/%5c..", "shop://a/%00", "shop://a/%252e%252e/b", "shop://a/%2565",
    "shop://a/%", "shop://a/%zz", "shop://a/%ff", "shop://../a", "shop://./a", "shop://a/..;/b", "shop://a:b/c", "shop://a/b?%00",
    "http:///a", "http:a", "http://a b/", "http://bücher.example/", "http://127.1/", "http://0x7f.0.0.1/", "http://2130706433/",
    "http://010.0.0.1/", "http://a..b/", "http://[::ffff:1.2.3.4]/", "http://[1.2.3.4]/", "http://[fe80::1%25eth0]/",
    "http://good@evil.example/", "http://a/\ud800",
    "file://server/share", "file:a", "file:////etc/passwd", "file:///etc//passwd", "file:///C|/a", "file:///etc/passwd.",
    "file:///etc/passwd%20", "file:///etc/passwd?x", "file:",
    "urn:../a", "urn:a//b",
]  # fmt: skip


@pytest.mark.parametrize(("expected", "spellings"), SAME)
def test_equivalent_uris_have_one_normal_form(expected: str, spellings: list[str]) -> None:
    """Equivalent spellings have the same normal form, and the normal form is stable."""
    assert {normalised(uri) for uri in [expected, *spellings]} == {expected}


@pytest.mark.parametrize("uri", REFUSED)
def test_ambiguous_uris_are_refused(uri: str) -> None:
    """The error gives the reason and is printable."""
    with pytest.raises(InputError, match="can be read in several ways"):
        normalised(uri)


def test_readings_of_a_uri() -> None:
    """Servers may ignore a query, a trailing slash, doubled slashes, a user name and the case of the host."""
    assert readings("shop://terms") == ("shop://terms",)
    assert set(readings("users://Ann/a/?x")) == {
        f"users://{host}/a{rest}" for host in ("Ann", "ann") for rest in ("/?x", "/", "?x", "")
    }
    assert "shop://a/b" in readings("shop://me@A//b/")
    assert readings("file:///") == ("file:///",)


POLICY = """
version: 1
policies:
  - id: secret
    temporal: forall(resource.read(uri=u), u != "shop://secret")
    on_violation: {on}
"""


@pytest.mark.parametrize("on", ["block", "escalate"])
@pytest.mark.parametrize(
    "uri", ["shop://secret?x=1", "shop://SECRET", "shop://secret/?x", "SHOP://secret", "shop://a#b"]
)
def test_a_rule_about_a_resource_holds_for_its_other_spellings(tmp_path: Path, uri: str, on: str) -> None:
    """The denial does not depend on whether the host normalizes the URI, and no approval is requested instead."""
    (tmp_path / "p.yaml").write_text(POLICY.format(on=on))
    guard = ToolGuard(tmp_path / "p.yaml")
    denied = guard.before(HostCall("resource.read", {"uri": uri}, "c"))
    assert str(denied.decision) == "deny"
    assert guard.before(HostCall("resource.read", {"uri": "shop://terms?x=1"}, "c")).label == 0


def test_a_resource_with_a_query_can_be_approved(tmp_path: Path) -> None:
    """This holds although the same resource without the query would need approval, too."""
    (tmp_path / "p.yaml").write_text(POLICY.format(on="escalate").replace('u != "shop://secret"', "false"))
    guard = ToolGuard(tmp_path / "p.yaml", approver=lambda _: True)
    assert guard.before(HostCall("resource.read", {"uri": "shop://secret?x"}, "c")).label == 0
