"""Hosts without a scheme: told from files, programs and sentences, in linear time."""

from __future__ import annotations

import time

import pytest

from guardagent.policy.functions import rule_functions
from guardagent.policy.language.values import Unknown
from guardagent.policy.provenance.hosts import bare_links, before_sentence, is_host, parted
from tests.policy.provenance.sessions import session_of, sources, user

HOSTS = [
    "www.evil.com",
    "evil-login.com/reset",
    "go to evil.io.",
    "(evil.example)",
    "evil.xyz:8080/a",
    "evil.zip/x",
    "evil.com?q=1",
    "пример.рф",
    "10.0.0.1:8080/x",
    "a|evil.top;b",
    "EVIL.COM",
]
OTHERS = [
    "report.pdf and README.md",
    "main.py:12",
    "os.path.join(a)",
    "self.app(x) and page.name",
    "e.g. this, i.e. that, a.m., U.S.",
    "Node.js 1.2.3",
    "ann@evil.com",
    "docs/notes.com",
    "done.In fact",
    "fine.The next",
    "have you seen main.py?",
    "12.50 and 3.5x",
    "...",
    "",
]


@pytest.mark.parametrize("text", HOSTS)
def test_hosts_are_found(text: str) -> None:
    """As links, and as tokens that the model wrote."""
    assert len(bare_links(text)) == 1
    assert len(rule_functions()["links"].apply([text])) == 1
    assert sources(session_of(), text) == {"model"}


@pytest.mark.parametrize("text", OTHERS)
def test_other_names_are_no_hosts(text: str) -> None:
    assert bare_links(text) == rule_functions()["links"].apply([text]) == []


@pytest.mark.parametrize("between", [",", " ", ";", "|", "\n", ", "])
@pytest.mark.parametrize("other", ["www.evil.com", "evil.com/a", "evil.zip", "https://evil.com/x"])
def test_two_hosts_are_two_tokens(between: str, other: str) -> None:
    """One that the user gave does not vouch for the other."""
    rule = 'forall(open(url=u), all(t in tokens(u), "user" in sources(t)))'
    session = session_of(rule, messages=[user("see www.informations.com and https://good.com, please")])
    for known in ("www.informations.com", "https://good.com/start"):
        if not known.startswith("https") or other != "evil.zip":  # which is a part of that path
            assert session.check("open", {"url": f"{known}{between}{other}"}, reserve=False).label
        assert not session.check("open", {"url": known}, reserve=False).label
    assert not session.check("open", {"url": f"www.informations.com{between}good.com"}, reserve=False).label


@pytest.mark.parametrize(
    "text", ["www.our-company.com.They", "https://www.our-company.com.They", "www.our-company.com"]
)
def test_a_missing_space_leaves_the_label_open(text: str) -> None:
    """In the user's sentence, and in the value."""
    session = session_of(messages=[user(f"Look at {text} are open.")])
    for value in ("www.our-company.com", "www.our-company.com.They", "https://www.our-company.com/a"):
        labels = sources(session, value)
        assert isinstance(labels, Unknown) or labels >= {"user"}
    assert sources(session, "www.evil.com") == {"model"}


@pytest.mark.parametrize(
    ("address", "shorter"),
    [
        ("shop.com.they", "shop.com"),
        ("ann@shop.com.they", "ann@shop.com"),
        ("shop.com.evil.com", ""),
        ("shop.com.2024", ""),
        ("report.they", ""),
        ("they", ""),
    ],
)
def test_a_word_that_sticks_to_a_host(address: str, shorter: str) -> None:
    assert before_sentence(address) == shorter


@pytest.mark.parametrize(
    ("run", "links"),
    [
        ("https://a.com,https://b.com", ["https://a.com", "https://b.com"]),
        ("https://a.com|www.b.com;c.org/x", ["https://a.com", "www.b.com", "c.org/x"]),
        ("https://a.com/x,y;z?a=1,2", ["https://a.com/x,y;z?a=1,2"]),
        ("https://a.com/list,report.pdf", ["https://a.com/list,report.pdf"]),
    ],
)
def test_links_without_a_space_between_them(run: str, links: list[str]) -> None:
    assert parted(run) == links


def test_a_long_name_is_no_host() -> None:
    assert is_host("a.com")
    assert not is_host("a." * 200 + "com")


@pytest.mark.parametrize(
    "piece", ["a.com,", "a.", "www.a.", "a.com|", "é.", "a.com.They ", "x.It", "1.1.1.1:", "a-", "-a."]
)
def test_hostile_text_takes_linear_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    started = time.process_time()
    bare_links(text)
    parted(text)
    assert time.process_time() - started < 10
    assert isinstance(rule_functions()["links"].apply([text]), list | Unknown)
