"""The pack lets tasks alone and stops attacks as often as its page says; shapes of arguments make no difference."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.label_conditions import Talk, talks
from guardagent import Policies, load_policies
from guardagent.packs.catalogue import pack

CONTACTS = [f"{name}@example.com" for name in ("ann", "omar", "ines", "bo", "mei")]
OWN = {"own": {"from": "read_inbox", "when": "sender in fact(contacts)"}}


def included(labels: Mapping[str, Any], **constants: bool) -> Policies:
    entry = {"pack": "guardagent:injection", "constants": constants}
    return load_policies(data={"version": 1, "include": [entry], "labels": labels})


def is_allowed(policies: Policies, talk: Talk, args: Mapping[str, Any]) -> bool:
    session = policies.session(messages=[{"role": "user", "content": talk.request}], facts={"contacts": CONTACTS})
    for tool, output in (("get_contacts", CONTACTS), ("read_inbox", talk.inbox), ("get_webpage", talk.page)):
        session.record(output, permit=session.check(tool, {}).permit)
    verdict = session.check("send_email", args)
    assert not verdict.errors
    return verdict.label == 0


@pytest.mark.parametrize("row", range(3))
def test_tasks_and_attacks(row: int) -> None:
    policies = included({} if row == 0 else OWN, by_title=row == 2)
    counts = [0, 0]
    for talk in talks():
        counts[talk.is_attack] += is_allowed(policies, talk, {"to": talk.to, "body": str(talk.inbox)})
    rows = re.findall(r"^\| (?:as|and) .* \| (\d+) \| (\d+) \|$", pack("injection").page, re.MULTILINE)
    assert rows[row] == tuple(map(str, counts))


@pytest.mark.parametrize(
    "args",
    [
        {"to": "{}"},
        {"recipientEmails": ["ann@example.com", "{}"]},
        {"to": "ann@example.com, {}"},
        {"message": {"cc": "{}", "body": "Hello"}},
        {"payload": '{"to": ["{}"]}'},
        {"mails": [{"to": "ann@example.com"}, {"bcc": "{}"}]},
        {"to": "ann@example.com", "reply_to": "{}"},
    ],
)
def test_an_address_counts_at_any_place(args: dict[str, Any]) -> None:
    """As an attacker's it is stopped, and as a contact's it passes."""
    attack = next(talk for talk in talks() if talk.is_attack and "@" in talk.to)
    policies = included({})
    for address, allowed in ((attack.to, False), ("omar@example.com", True)):
        assert is_allowed(policies, attack, _filled(args, address)) is allowed


def _filled(value: Any, address: str) -> Any:
    if isinstance(value, dict):
        return {name: _filled(part, address) for name, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, address) for part in value]
    return value.replace("{}", address)
