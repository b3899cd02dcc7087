"""The constants of the pack `guardagent:web`."""

from __future__ import annotations

from typing import Any

from guardagent import Decision, load_policies


def decision(arguments: dict[str, Any], **constants: Any) -> Decision:
    entry = {"pack": "guardagent:web", "constants": constants}
    return load_policies(data={"version": 1, "include": [entry]}).session().check("http_request", arguments).decision


def test_known_hosts_get_data() -> None:
    """`*.` stands for the names below a host, without itself."""
    sent = {"method": "POST", "url": "https://api.example.com/", "body": "x"}
    assert decision(sent) is Decision.ESCALATE
    assert decision(sent, hosts=["api.example.com"]) is Decision.ALLOW
    assert decision(sent, hosts=["*.example.com"]) is Decision.ALLOW
    assert decision({**sent, "url": "https://example.com/"}, hosts=["*.example.com"]) is Decision.ESCALATE
    assert (
        decision({**sent, "url": "https://api.example.com.evil.example/"}, hosts=["api.example.com"])
        is Decision.ESCALATE
    )


def test_an_internal_host_is_named_exactly() -> None:
    """A pattern opens no internal machine."""
    url = {"url": "http://wiki.internal/"}
    assert decision(url, hosts=["*.internal"]) is Decision.DENY
    assert decision(url, hosts=["wiki.internal"]) is Decision.ALLOW


def test_only_known_hosts() -> None:
    """`only: true` denies all others."""
    assert decision({"url": "https://example.org/"}, hosts=["example.com"], only=True) is Decision.DENY
    assert decision({"url": "https://example.com/"}, hosts=["example.com"], only=True) is Decision.ALLOW
