"""Approval requests as reviewers see them, and the replies that count as an answer."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from guardagent import Decision, Verdict
from guardagent.enforcement import Approval, ApprovalRequest, terminal_approver
from guardagent.enforcement.approval import aask, ask


def shown(args: dict[str, Any], tool: str = "refund") -> str:
    verdict = Verdict(Decision.ESCALATE, reasons=("too much",))
    return ApprovalRequest(tool, args, verdict, "c-1", "call-1").text()


def test_every_argument_is_shown() -> None:
    """Nested arguments and arguments that no rule concerns are shown, too."""
    text = shown({"amount": 500, "to": {"iban": "DE1", "notes": ["a", None]}})
    assert text.splitlines() == [
        'Approve refund in conversation "c-1"?',
        "  amount = 500",
        '  to = {"iban": "DE1", "notes": ["a", null]}',
        'Why you are asked: "too much"',
    ]


HIDDEN = "0a 0d 1b 08 00 202e 2066 200b 2028 ad feff 3164 115f 34f fe0f e0100 2800 e0041 d800"


@pytest.mark.parametrize("hidden", [chr(int(code, 16)) for code in HIDDEN.split()])
def test_invisible_characters_are_escaped(hidden: str) -> None:
    """Control, direction and zero-width characters are escaped in values, in names and in the tool's name."""
    text = shown({f"amo{hidden}unt": f"50{hidden}0"}, f"re{hidden}fund")
    assert hidden not in text.replace("\n", "")
    assert len(text.splitlines()) == 3


@pytest.mark.parametrize("filler", [" ", "x", "日", "\u00a0", "e\u0301"])
@pytest.mark.parametrize("columns", [60, 80, 120])
def test_no_value_leaves_its_line(filler: str, columns: int) -> None:
    """A long value cannot imitate the line of another argument, even if the display wraps lines."""
    text = shown({"note": filler * 200 + "  amount = 10", "amount": 9000})
    width = {"日": 2}.get(filler, 1)
    assert all(sum(width if word == filler else 1 for word in line) <= 60 for line in text.splitlines())
    drawn = [line[at : at + columns] for line in text.splitlines() for at in range(0, len(line), columns)]
    assert [line for line in drawn if line.lstrip().startswith("amount")] == ["  amount = 9000"]


REASONS = [
    "Payments in this currency need a person's approval, whatever the amount and the day.",
    "A refund above the limit of its shop needs approval.",
    "short",
    "",
    "one " * 60,
    "Überweisungen über dieser Grenze brauchen die Zustimmung einer zweiten Person.",
    "この支払いには 担当者の 承認が必要です。 金額が上限を 超えています。",
    "x" * 200,
    f"see {'y' * 90} and the rest",
    "words   with   wide   gaps   between   them   stay   as   they   are   written",
    "a-hyphenated-name/and/a/path/of/some/length to read before the next word",
]


@pytest.mark.parametrize("reason", REASONS)
def test_a_line_breaks_between_words(reason: str) -> None:
    """Each character stays, and a continuation begins with a space exactly where a new word begins."""
    lines = ApprovalRequest("pay", {}, Verdict(Decision.ESCALATE, reasons=(reason,)), "c").text().splitlines()[1:]
    parts = [lines[0], *(line.removeprefix("    ... ") for line in lines[1:])]
    assert "".join(parts) == f'Why you are asked: "{reason}"'
    broken = [part.split()[-1] + after.split()[0] for part, after in pairwise(parts) if after[0] != " "]
    assert all(len(word) > 30 for word in broken)


def test_combining_marks_are_limited() -> None:
    """Combining marks beyond two per character are escaped, since a pile of them covers the line above."""
    assert shown({"a": "e" + "\u0301" * 50}).count("\u0301") == 2


def test_strings_are_quoted() -> None:
    """The string "true" is shown differently from the value true."""
    assert shown({"a": "true", "b": True, "c": "null", "d": None}).splitlines()[1:5] == [
        '  a = "true"',
        "  b = true",
        '  c = "null"',
        "  d = null",
    ]


def test_other_scripts_stay_readable() -> None:
    """Printable characters of any script are shown as they are."""
    assert '"Zoë Müller 日本 ไทย"' in shown({"name": "Zoë Müller 日本 ไทย"})


class Odd:
    """An object that claims to equal everything."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


class Raises:
    """An object whose comparison raises."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError


@pytest.mark.parametrize(
    ("reply", "choice"),
    [
        (True, "approve"),
        ("approve", "approve"),
        ({"choice": "approve"}, "approve"),
        (Approval("approve"), "approve"),
        ({"choice": "edit", "args": {"amount": 5}}, "edit"),
        (False, "reject"),
        ("reject", "reject"),
        (None, "reject"),
        (1, "reject"),
        ("yes", "reject"),
        ("Approve", "reject"),
        ({}, "reject"),
        ({"choice": "approve", "args": {"amount": 5}}, "reject"),
        ({"choice": "edit"}, "reject"),
        ({"choice": "edit", "args": [5]}, "reject"),
        ({"choice": "reject", "reason": {"deep": 1}}, "reject"),
        (Approval("edit", args=None), "reject"),  # type: ignore[arg-type]
        (Approval("yes"), "reject"),  # type: ignore[arg-type]
        (Odd(), "reject"),
        (Raises(), "reject"),
        ([True], "reject"),
    ],
)
def test_only_a_clear_yes_approves(reply: Any, choice: str) -> None:
    """Any other reply rejects the call, whatever its type."""
    assert Approval.read(reply).choice == choice


def test_edited_arguments_are_validated() -> None:
    """Edited arguments get the tool's defaults; arguments that do not fit reject the call with the reason."""
    edit = Approval("edit", {"amount": 5})
    assert dict(edit.validated(lambda args: {**args, "currency": "EUR"}).args) == {"amount": 5, "currency": "EUR"}
    refused = edit.validated(lambda args: args["order"])
    assert (refused.choice, "do not fit" in refused.reason) == ("reject", True)


def test_an_approver_that_fails_rejects() -> None:
    """An exception in an approver rejects the call, even an exception that cannot be converted to a string."""

    class Unprintable(Exception):  # noqa: N818 - stands for a foreign exception
        def __str__(self) -> str:
            raise RuntimeError

    def raises(request: ApprovalRequest) -> bool:
        raise Unprintable

    request = ApprovalRequest("refund", {}, Verdict(Decision.ESCALATE))
    assert ask(raises, request).choice == "reject"
    assert asyncio.run(aask(raises, request)).reason == "the approval request failed: Unprintable"


def test_a_coroutine_approver_needs_a_host_that_awaits() -> None:
    """A coroutine that is never awaited does not count as an approval."""

    async def approves(request: ApprovalRequest) -> bool:
        return True

    request = ApprovalRequest("refund", {}, Verdict(Decision.ESCALATE))
    assert ask(approves, request).choice == "reject"
    assert asyncio.run(aask(approves, request)).choice == "approve"


def test_without_a_terminal_the_call_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal approver rejects if there is no terminal."""
    monkeypatch.setattr("sys.stdin", None)
    assert terminal_approver(ApprovalRequest("refund", {}, Verdict(Decision.ESCALATE))).choice == "reject"
