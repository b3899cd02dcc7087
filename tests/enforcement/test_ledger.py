"""Approvals that several clicks, threads and processes submit: each leads to one execution, in any order."""

from __future__ import annotations

import datetime as dt
import decimal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardagent import Decision, InputError
from guardagent.enforcement import Approval, HostCall, Ledger, SqliteLedger, ToolGuard, ToolSpec
from guardagent.enforcement.approval import with_edits
from guardagent.enforcement.ledger import LEDGERS
from tests.enforcement.guards import done, yes
from tests.frameworks.scenarios import APPROVED, guard_of
from tests.processes import at_once, is_true_in_child
from tests.stores import kinds, new_ledger, store_address


def call(amount: Any = 500, **more: Any) -> HostCall:
    """Returns a call with the model's id, as a host builds it anew for each request."""
    return HostCall("refund", {"order_id": "W1", "amount": amount}, "c", **{"id": "1", **more})


@pytest.fixture(params=kinds(LEDGERS))
def ledger(request: Any, tmp_path: Path) -> Iterator[Ledger]:
    with store_address(request.param, tmp_path) as address:
        yield new_ledger(address)


@pytest.fixture
def host(ledger: Ledger, tmp_path: Path) -> ToolGuard:
    return guard_of(tmp_path, APPROVED, ledger=ledger)


def requests(host: ToolGuard, amount: Any = 500, **more: Any) -> str:
    """Proposes a call and returns the digest that the reviewer sees."""
    proposed = call(amount, **more)
    verdict = host.before(proposed)
    assert verdict.decision is Decision.ESCALATE
    return str(host.request(proposed, verdict).to_dict()["digest"])


def pays(host: ToolGuard, reply: Any, proposed: HostCall | None = None) -> list[Any]:
    """Resolves a call with a reviewer's reply and returns the amounts that are paid."""
    proposed = proposed or call()
    if host.resolve(proposed, reply).label:
        return []
    left = with_edits(proposed, Approval.read(reply))
    return [host.use(left)["amount"]]


# --- the call that an answer approves


def test_a_tool_that_changed_before_the_answer_does_not_run(host: ToolGuard) -> None:
    """An approval holds for the tool as it was when the reviewer saw it."""
    spec = ToolSpec("refund", {"type": "object"}, "Pays back.")
    host.update_server_tools("shop", [spec])
    digest = requests(host)
    host.update_server_tools("shop", [replace(spec, description="Pays everything back.")])
    assert pays(host, {"choice": "approve", "of": digest}) == []
    host.accept([spec])
    assert pays(host, {"choice": "approve", "of": digest}) == [500]


def test_an_approval_does_not_override_a_forged_history(tmp_path: Path) -> None:
    """An approved call is still denied if the messages show a result that the guard never saw."""
    once = "  - {id: once, temporal: 'forall(refund(order_id=o), count(f:refund(order_id=o)) == 0)'}\n"
    host = guard_of(tmp_path, APPROVED + once)
    digest = requests(host)
    assert pays(host, {"choice": "approve", "of": digest}, call(seen=["forged"])) == []
    assert pays(host, {"choice": "approve", "of": digest}) == [500]


def test_an_answer_that_names_no_call_approves_nothing(host: ToolGuard) -> None:
    """The error explains how to answer, and a correct answer still counts afterwards."""
    digest = requests(host)
    for reply in (
        True,
        "approve",
        {"choice": "approve"},
        {"choice": "edit", "args": {"amount": 5}},
        Approval("approve"),
    ):
        verdict = host.resolve(call(), reply)
        assert verdict.label == 1
        assert "does not name this call" in verdict.errors[0]
        assert "is the digest of the request" in verdict.errors[0]
    assert pays(host, {"choice": "approve", "of": digest}) == [500]


def test_an_answer_to_an_older_request_approves_nothing(host: ToolGuard) -> None:
    """Nor does an answer approve a call that was changed after the reviewer saw it."""
    older = requests(host, 300, id="0")
    digest = requests(host)
    assert pays(host, {"choice": "approve", "of": older}) == []
    assert pays(host, {"choice": "approve", "of": digest}, call(900)) == []
    assert pays(host, {"choice": "approve", "of": call(900).digest}, call(900)) == []
    assert pays(host, {"choice": "approve", "of": digest}) == [500]


def test_a_call_that_was_never_shown_is_not_approved(host: ToolGuard) -> None:
    """A call that was written into the host's state needs an approval request before it can be approved."""
    assert pays(host, yes(call())) == []


@pytest.mark.parametrize("of", [7, ["a"], {}, b"x", "", ".", "x" * 64])
def test_an_answer_with_an_invalid_digest_approves_nothing(host: ToolGuard, of: Any) -> None:
    requests(host)
    assert pays(host, {"choice": "approve", "of": of}) == []


def test_digests_distinguish_calls() -> None:
    """Digests differ by conversation, turn, id, tool and each typed argument, but not by argument order."""

    def digest(args: Any, **more: Any) -> str:
        return HostCall(**{"tool": "t", "args": args, "conversation": "c", "id": "1", **more}).digest

    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    odd: list[Any] = [1, True, 1.0, "1", None, [1], [[1]], {"a": 1}, {"1": 1}, [], {}, "\ud800", float("nan")]
    odd += [decimal.Decimal(1), decimal.Decimal("1.0"), dt.date(2024, 1, 1), "2024-01-01", b"1"]
    names = [{"tool": "u"}, {"conversation": "d"}, {"id": "2"}, {"step": "s"}, {"tool": "u", "id": "t"}]
    assert len({digest({"x": value}) for value in odd} | {digest({"x": 1}, **more) for more in names}) == 23


@pytest.mark.parametrize("value", [{1: 1}, {1}, object(), [lambda: 0]])
def test_calls_that_cannot_be_shown_are_denied(host: ToolGuard, value: Any) -> None:
    """An escalated call with a non-JSON argument is denied instead."""
    odd = HostCall("refund", {"order_id": value, "amount": 500}, "c")
    verdict = host.before(odd)
    assert (verdict.decision, "expected JSON" in verdict.errors[0]) == (Decision.DENY, True)


def test_cyclic_arguments_are_denied(host: ToolGuard) -> None:
    args: dict[str, Any] = {"order_id": "W1", "amount": 500}
    args["self"] = args
    assert host.before(HostCall("refund", args, "c")).decision is Decision.DENY


# --- one execution per approval


def test_an_approval_is_used_once(host: ToolGuard) -> None:
    """Further uses are refused, with the digest of the request or of the call, even after an outcome."""
    digest = requests(host)
    assert pays(host, {"choice": "approve", "of": digest}) == [500]
    assert pays(host, {"choice": "approve", "of": digest}) == []
    host.before(call())
    assert pays(host, yes(call())) == []
    assert pays(host, {"choice": "edit", "args": call(5).args, "of": digest}) == []


def test_two_clicks_at_once_pay_once(host: ToolGuard) -> None:
    digest = requests(host)
    together = threading.Barrier(16)

    def click(_: int) -> list[Any]:
        together.wait(10)
        return pays(host, {"choice": "approve", "of": digest})

    with ThreadPoolExecutor(16) as pool:
        assert [paid for paid in pool.map(click, range(16)) if paid] == [[500]]


def test_two_edits_at_once_pay_once(host: ToolGuard) -> None:
    """This holds even if the edited calls need no approval."""
    digest = requests(host)
    together = threading.Barrier(8)

    def click(amount: int) -> list[Any]:
        together.wait(10)
        return pays(host, {"choice": "edit", "args": {"order_id": "W1", "amount": amount}, "of": digest})

    with ThreadPoolExecutor(8) as pool:
        assert len([paid for paid in pool.map(click, range(1, 9)) if paid]) == 1


def test_an_edit_and_its_original_are_one_approval(host: ToolGuard) -> None:
    """If the edited call needs approval again, neither it nor the original runs a second time."""
    digest = requests(host)
    edit = Approval("edit", call(300).args, of=digest)
    assert host.resolve(call(), edit).decision is Decision.ESCALATE
    assert host.resolve(call(), edit).decision is Decision.ESCALATE  # the host ran the call again
    assert pays(host, yes(call(300)), call(300)) == [300]
    assert pays(host, yes(call(300)), call(300)) == []
    assert pays(host, {"choice": "approve", "of": digest}) == []
    assert host.resolve(call(), edit).label == 1


def test_a_rejected_call_needs_a_new_request_before_it_is_approved(host: ToolGuard) -> None:
    digest = requests(host)
    assert host.resolve(call(), {"choice": "reject"}).decision is Decision.DENY
    assert pays(host, {"choice": "approve", "of": digest}) == []
    assert requests(host) == digest
    assert pays(host, {"choice": "approve", "of": digest}) == [500]


def test_a_repeated_edit_does_not_reopen_a_rejected_call(host: ToolGuard) -> None:
    """A host that runs the call again from an older state applies the edit again; the rejection stands."""
    edit = Approval("edit", call(300).args, of=requests(host))
    assert host.resolve(call(), edit).decision is Decision.ESCALATE
    assert host.resolve(call(300), {"choice": "reject"}).decision is Decision.DENY
    assert host.resolve(call(), edit).decision is Decision.DENY
    assert pays(host, yes(call(300)), call(300)) == []


def test_an_approval_that_was_not_used_is_void_when_its_conversation_ends(host: ToolGuard) -> None:
    digest = requests(host)
    host.end("c")
    assert pays(host, {"choice": "approve", "of": digest}) == []


def test_an_approver_need_not_name_the_call(tmp_path: Path, ledger: Ledger) -> None:
    """The guard's own approver need not name the call; a repeated call id does not run twice."""
    host = guard_of(tmp_path, APPROVED, ledger=ledger, approver=lambda request: True)
    assert host.before(call()).label == 0
    done(host, call())
    assert host.before(call()).label == 1
    assert host.before(call(id="2")).label == 0


# --- several guards and processes


def shared(tmp_path: Path, number: int, **options: Any) -> ToolGuard:
    """Returns a guard as another process would create it."""
    (tmp_path / str(number)).mkdir()
    return guard_of(tmp_path / str(number), APPROVED, **options)


def test_guards_with_one_ledger_use_an_approval_once(tmp_path: Path, address: str) -> None:
    first, other = (shared(tmp_path, at, ledger=new_ledger(address)) for at in range(2))
    digest = requests(first)
    assert pays(other, {"choice": "approve", "of": digest}) == [500]
    assert pays(first, {"choice": "approve", "of": digest}) == []


def test_an_approval_requested_by_another_guard_is_refused(tmp_path: Path) -> None:
    """Without a shared ledger it is refused, even if the host runs the call again; the error explains the remedy."""
    first, other = shared(tmp_path, 0), shared(tmp_path, 1)
    digest = requests(first)
    assert pays(other, {"choice": "approve", "of": digest}) == []
    requests(other)
    verdict = other.resolve(call(), {"choice": "approve", "of": digest})
    assert "share one ToolGuard(ledger=SqliteLedger(...))" in verdict.errors[0]
    assert pays(first, {"choice": "approve", "of": digest}) == [500]


def test_an_operator_may_trust_the_hosts_approvals(tmp_path: Path) -> None:
    """With `this host's`, each guard accepts an approval once, and only for the call that the reviewer saw."""
    first, other = (shared(tmp_path, at, approvals="this host's") for at in range(2))
    digest = requests(first)
    assert pays(other, {"choice": "approve", "of": digest}, call(900)) == []
    assert pays(other, "approve") == []
    assert pays(other, {"choice": "approve", "of": digest}) == [500]
    assert pays(other, {"choice": "approve", "of": digest}) == []
    assert pays(first, {"choice": "approve", "of": digest}) == [500]


def _click(folder: str, address: str, number: str, digest: str) -> Callable[[], None]:
    host = shared(Path(folder), int(number), ledger=new_ledger(address))

    def click() -> None:
        if pays(host, {"choice": "approve", "of": digest}):
            with (Path(folder) / "paid").open("a", encoding="utf-8") as file:
                file.write("500\n")

    return click


def test_processes_with_one_ledger_pay_once(tmp_path: Path, address: str) -> None:
    """Three processes get the same approval at the same time."""
    digest = requests(shared(tmp_path, 0, ledger=new_ledger(address)))
    at_once(_click, [(str(tmp_path), address, str(number), digest) for number in (1, 2, 3)])
    assert (tmp_path / "paid").read_text().split() == ["500"]


def test_a_fork_shares_the_ledger_of_its_parent(tmp_path: Path, address: str) -> None:
    ledger = new_ledger(address)
    host = shared(tmp_path, 0, ledger=ledger)
    digest = requests(host)
    approval = {"choice": "approve", "of": digest}
    assert is_true_in_child(lambda: pays(shared(tmp_path, 1, ledger=ledger), approval))
    assert pays(host, {"choice": "approve", "of": digest}) == []


# --- the file


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE orders (id TEXT)")
    yield path
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT name FROM sqlite_schema").fetchall() == [("orders",)]


def test_other_files_are_refused_and_left_unchanged(tmp_path: Path, broken: Path) -> None:
    (text := tmp_path / "text.db").write_text("not a database, " * 100)
    for path, reply in (
        (broken, "is not a ledger"),
        (text, "not a database"),
        (tmp_path, "cannot be opened"),
        (tmp_path / "no" / "l.db", "cannot be"),
    ):
        with pytest.raises(InputError, match=reply):
            SqliteLedger(path)


def test_a_ledger_of_another_release_is_refused_with_what_to_do(tmp_path: Path) -> None:
    SqliteLedger(tmp_path / "l.db").close()
    with sqlite3.connect(tmp_path / "l.db") as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(InputError, match=r"format 99.*continue with the release that created it"):
        SqliteLedger(tmp_path / "l.db")


def test_a_ledger_that_fails_denies(tmp_path: Path) -> None:
    """If the file is removed, replaced or damaged while in use, no approval is requested and nothing runs."""
    host = shared(tmp_path, 0, ledger=SqliteLedger(tmp_path / "l.db"))
    digest = requests(host)
    SqliteLedger(tmp_path / "new.db").close()
    for damage in (
        lambda: (tmp_path / "new.db").replace(tmp_path / "l.db"),
        lambda: (tmp_path / "l.db").write_bytes(b"x" * 9000),
        (tmp_path / "l.db").unlink,
    ):
        damage()
        assert pays(host, {"choice": "approve", "of": digest}) == []
        assert host.before(call(id="2")).decision is Decision.DENY


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    SqliteLedger(tmp_path / "l.db")
    assert (tmp_path / "l.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("options", [{"ledger": "l.db"}, {"approvals": "anybody's"}])
def test_a_wrong_option_is_an_error(tmp_path: Path, options: Any) -> None:
    with pytest.raises(InputError, match="expected"):
        guard_of(tmp_path, APPROVED, **options)
