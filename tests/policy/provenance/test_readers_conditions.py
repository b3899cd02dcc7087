"""Labels with a condition: it is decided for each item, and a label whose condition is unknown stays uncertain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.label_conditions import table
from guardagent import Session
from guardagent.errors import InputError
from guardagent.policy.language.values import Unknown
from tests.policy.provenance.sessions import recorded, session_of, sources, user

KEY = b"0123456789abcdef"
WHEN = "sender in state.contacts"


def mail_session(when: str = WHEN, source: str = "read_inbox", state: Any = None, **options: Any) -> Session:
    labels = {"trusted": {"from": source, "when": when}, "user": "request"}
    state = {"contacts": ["ann@example.com"]} if state is None else state
    return session_of(labels=labels, state=state, **options)


def inbox(*senders: str | None) -> list[dict[str, Any]]:
    """Mails with the values `value-1000`, ...; None sends a mail without a sender."""
    mails = [{"sender": sender, "body": {"text": f"pay value-{1000 + at}"}} for at, sender in enumerate(senders)]
    return [{name: value for name, value in mail.items() if value is not None} for mail in mails]


SENDERS = st.lists(st.sampled_from(["ann@example.com", "eve@evil.com", "ANN@example.com", "", None]), max_size=4)


@given(
    senders=SENDERS,
    contacts=st.sampled_from([["ann@example.com"], [], None]),
    source=st.sampled_from(["read_inbox", "read_inbox[*]", "read_inbox[*].body", "read_inbox.body.text"]),
    as_text=st.booleans(),
)
def test_each_item_has_the_label_that_a_naive_reading_gives(
    senders: list[str | None], contacts: list[str] | None, source: str, as_text: bool
) -> None:
    """The naive reading takes each mail alone, with three answers: yes, no, and nobody knows."""
    mails = inbox(*senders)
    session = mail_session(source=source, state={} if contacts is None else {"contacts": contacts})
    recorded(session, "read_inbox", json.dumps(mails) if as_text else mails)
    for at, sender in enumerate(senders):
        labels = sources(session, f"value-{1000 + at}")
        if contacts is None or (sender is None and contacts):  # nothing is in an empty list
            assert isinstance(labels, Unknown)
            assert list(labels.bounds or ()) == [set(), {"trusted"}]
        else:
            assert labels == ({"trusted"} if sender in contacts else set())


def test_a_single_output_has_the_fields_of_its_condition() -> None:
    session = mail_session(source="read_mail.body")
    for at, sender in enumerate(["ann@example.com", "eve@evil.com"]):
        recorded(session, "read_mail", {"sender": sender, "body": f"pay value-{at}000"})
    assert (sources(session, "value-0000"), sources(session, "value-1000")) == ({"trusted"}, set())
    recorded(session, "read_mail", "From: ann@example.com, value-2000")
    assert isinstance(sources(session, "value-2000"), Unknown)


@pytest.mark.parametrize(
    ("condition", "sender", "holds"),
    [
        ('ends_with(sender, "@example.com")', "ann@example.com", True),
        ("sender in fact(contacts)", "ann@example.com", None),  # the host does not give the fact
        ("all(c in state.contacts, c == sender)", "ann@example.com", True),
        ("item.sender in state.contacts", "ann@example.com", True),
        ("state.contacts", "ann@example.com", None),  # not a truth value
        ('"boss" in principal.roles && sender != "now"', "ann@example.com", True),
        ('item.now == "args" || any(args in [sender], args == item.sender)', "ann@example.com", True),
        ('sender == "ann@example.com" && missing == 1', "ann@example.com", None),
        ('sender == "ann@example.com" && missing == 1', "eve@evil.com", False),
    ],
)
def test_a_condition_that_nobody_knows_gives_the_label_to_no_side(
    condition: str, sender: str, holds: bool | None
) -> None:
    """Neither a rule that asks for the label nor one that asks for its absence allows the value."""
    rules = ('forall(pay(to=x), "trusted" in sources(x))', 'forall(send(to=x), !("trusted" in sources(x)))')
    labels = {"trusted": {"from": "read_inbox", "when": condition}}
    boss = {"id": "bo", "roles": ["boss"]}
    session = session_of(*rules, labels=labels, state={"contacts": ["ann@example.com"]}, principal=boss)
    recorded(session, "read_inbox", inbox(sender))
    allowed = [not session.check(tool, {"to": "value-1000"}, reserve=False).label for tool in ("pay", "send")]
    assert allowed == [holds is True, holds is False]


def test_a_user_picks_out_what_an_assistant_may_act_on() -> None:
    """The label is for items whose subject the user has said word for word, before they were read."""
    messages = [user("Please pay the invoice of the mail Roof repair in May")]
    labels = {"user": "request", "asked": {"from": "read_inbox", "when": '"user" in sources(subject)'}}
    session = session_of(labels=labels, messages=messages)
    mails = [{"subject": "Roof repair in May", "iban": "value-1000"}, {"subject": "You won", "iban": "value-2000"}]
    recorded(session, "read_inbox", mails)
    assert (sources(session, "value-1000"), sources(session, "value-2000")) == ({"asked"}, set())
    messages.append(user("You won"))
    assert sources(session, "value-2000") == set()  # it was read before the user said so
    recorded(session, "read_inbox", mails)
    assert sources(session, "value-2000") == {"asked"}


def test_a_restored_session_has_the_same_labels() -> None:
    session = mail_session()
    recorded(session, "read_inbox", inbox("ann@example.com", "eve@evil.com"))
    restored = session.policies.restore(session.snapshot(KEY), KEY, state={"contacts": ["ann@example.com"]})
    assert [sources(restored, f"value-100{at}") for at in range(2)] == [{"trusted"}, set()]


@pytest.mark.parametrize(
    ("label", "problem"),
    [
        ({"from": "request", "when": WHEN}, "'request' has no fields for 'when'"),
        ({"from": "read_inbox", "when": "sender in"}, "when"),
        ({"from": "read_inbox", "when": "count(f:login(), true) == 0"}, "reads other calls"),
        ({"from": "read_inbox", "when": "state(known(sender))"}, "known"),
        *(
            ({"from": "read_inbox", "when": condition}, "neither true nor false")
            for condition in ("1", "5m", '"sender"', "size + 1", "[sender]", "sources(sender)")
        ),
        ({"from": "read_inbox", "when": "hour(now) < 5"}, "'item.now' is the field of this name"),
        ({"from": "read_inbox", "when": "sender == args.sender"}, "'item.args' is the field of this name"),
        ({"when": WHEN}, "from"),
    ],
)
def test_a_condition_that_cannot_be_read_is_refused(label: Any, problem: str) -> None:
    with pytest.raises(InputError, match="labels") as caught:
        session_of(labels={"trusted": label})
    assert problem in str(caught.value)


def test_the_page_shows_the_measured_figures() -> None:
    """Thirty tasks and thirty attacks, with and without conditions."""
    page = Path(__file__).parents[3] / "docs" / "provenance.md"
    assert table() in page.read_text(encoding="utf-8")
