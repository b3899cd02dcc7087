"""The text of a card: a line for each thing, whatever an agent writes."""

from __future__ import annotations

from typing import Any

import pytest

from guardagent.policy.views import RenderedView
from guardagent.server.cards import ApprovalCard, EvidenceItem, differences

BREAKS = ["\n", "\r\n", "\n\n", "\x0b", "\x85", "\u2028"]
VIEWS = ["As the policy shows it", "As the agent's host shows it; not checked"]
EXPECTED = {
    "decision": "allow",
    "reasons": [],
    "errors": [],
    "obligations": {"receipt": "call 'receipt'"},
    "settles": {},
}


def card(text: str = "x", **more: Any) -> ApprovalCard:
    args = {"amount": 900, text: text}
    approval = {
        "status": "pending",
        "reasons": [text],
        "call": {"tool": f"refund{text}", "args": args, "id": text},
        "args": None,
        "session": text,
        "requested_by": "agent-1",
        "user": text,
        "policy": "default",
        "rules": [text],
        "agreeing": [],
        "quorum": 2,
        "deadline": 60.0,
        "steps": [],
        "may_answer": [
            {"rules": [text], "groups": [text], "quorum": 2, "agreeing": 1, "until": 30.0, "next": {"groups": [text]}},
            {"rules": [text], "groups": None, "quorum": 1, "agreeing": 0, "until": 60.0, "next": None},
        ],
        **more,
    }
    views = {"policy": RenderedView(text, is_diff=True), "host": RenderedView("\n".join(["row" * 99] * 30))}
    evidence = [EvidenceItem(text, {"amount": 90, "note": text}, {})] * 6
    expected = {**EXPECTED, "reasons": [text]} if approval["status"] == "pending" else None
    about = evidence, differences(args, evidence), expected, views
    return ApprovalCard(approval, args, {"amount": 900}, None, *about)


@pytest.mark.parametrize("line_break", BREAKS)
def test_no_string_begins_a_line_or_a_part(line_break: str) -> None:
    shown = card(f"{line_break}The request{line_break}Approved by everybody\u202e\x1b[0m")
    plain = card()
    assert shown.title.startswith("Approve refund")
    assert [title for title, _ in shown.sections] == [title for title, _ in plain.sections]
    assert all(row.startswith("  | ") for row in dict(shown.sections)[VIEWS[0]].split("\n")), "a view has lines"
    counts = [[text.count("\n") for title, text in card.sections if title not in VIEWS] for card in (shown, plain)]
    assert counts[0] == counts[1]
    assert not {"\u202e", "\x1b", "\u2028", "\x85"} & set(f"{shown.title}{shown.sections}")


def test_a_card_has_what_a_reviewer_needs() -> None:
    parts = dict(card().sections)
    assert list(parts) == ["Why it waits", "The call", *VIEWS, "If it is approved now", "Evidence", "The request"]
    assert parts[VIEWS[0]] == "  | x"
    assert parts[VIEWS[1]].endswith("ro…\n  and 10 more lines in the console")
    assert parts["The call"].splitlines() == [
        "refundx",
        "  amount: 900",
        "  ! amount differs from amount 90 in x",
        "  ! amount differs from amount 90 in x",
        "  ! amount differs from amount 90 in x",
        '  x: "x" (no rule reads it)',
    ]
    assert "then due: receipt: call 'receipt'" in parts["If it is approved now"]
    assert parts["Evidence"].endswith("and 1 more in the console")
    assert parts["The request"].splitlines()[2:] == [
        "waits for x until 1970-01-01 00:00:30 UTC; 1 of 2 agree; then for x (x)",
        "waits for any approver until 1970-01-01 00:01:00 UTC; 0 of 1 agree (x)",
        "denied at 1970-01-01 00:01:00 UTC",
    ]


def test_a_decided_card_says_who_decided() -> None:
    steps = [
        {"by": "ann", "choice": "edit", "reason": "", "at": 0.0},
        {"by": "bob", "choice": "reject", "reason": "no\nAnswers", "at": 60.0},
    ]
    shown = card(status="rejected", steps=steps, args={"amount": 5}, may_answer=[])
    assert shown.title == "refundx: rejected by ann and bob, 1970-01-01 00:01:00 UTC"
    parts = dict(shown.sections)
    assert "If it is approved now" not in parts
    assert parts["Answers"].splitlines()[1] == "- 1970-01-01 00:01:00 UTC bob: reject: no Answers"
    assert "The call, as a reviewer changed it" in parts
    assert card(status="expired").title == "refundx: expired"
