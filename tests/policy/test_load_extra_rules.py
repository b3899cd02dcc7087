"""Rules for one task only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guardagent import Decision, Policies, load_policies
from guardagent.enforcement import HostCall, MemoryLedger, SqliteLedger, ToolGuard
from guardagent.errors import InputError
from guardagent.policy.file.policy_file import policy_contents
from guardagent.programs.lock import Lock

Write = Callable[..., Path]
KEY = b"0123456789abcdef"
BASE = """\
version: 1
tags: {write: [send, delete]}
constants: {limit: 5}
define: {small(n): n <= limit}
policies:
  - {id: first, temporal: 'forall(delete(n=n), small(n))'}
  - {id: once, temporal: 'forall(f:send(), !some(send()))'}
"""
EXTRA = """\
version: 1
constants: {most: 2}
policies:
  - {id: task, temporal: 'forall(delete(n=n), small(n) && n <= most)'}
  - {id: read, temporal: 'before(@write(), true, read(), true)'}
"""


@pytest.fixture
def base() -> Policies:
    return load_policies(text=BASE)


def rule(temporal: str, **more: Any) -> dict[str, Any]:
    return {"version": 1, "policies": [{"id": "x", "temporal": temporal}], **more}


def test_rules_for_one_task_are_added(base: Policies) -> None:
    """Those of the policy stay, and other conversations do not have the added ones."""
    session = base.session(extra=EXTRA)
    assert session.check("delete", {"n": 1}, reserve=False).rules == ("extra.read",)
    session.call(lambda: "ok", "read")
    assert session.check("delete", {"n": 1}, reserve=False).label == 0
    assert session.check("delete", {"n": 3}, reserve=False).rules == ("extra.task",)
    assert session.check("delete", {"n": 9}, reserve=False).rules == ("extra.task", "first")
    session.call(lambda: "ok", "send")
    assert session.check("send").rules == ("once",)
    assert base.session().check("delete", {"n": 3}).label == 0
    assert base.ids == ("first", "once")


@pytest.mark.parametrize("form", ["text", "data", "path", "policies"])
def test_every_form_is_accepted(base: Policies, write: Write, form: str) -> None:
    """Its content, a path, or loaded policies."""
    text = "version: 1\npolicies: [{id: x, temporal: 'G !tool:wipe'}]\n"
    forms = {"text": text, "data": rule("G !tool:wipe"), "path": write("e.yaml", text)}
    extra = forms.get(form) or load_policies(text=text)
    assert base.session(extra=extra).check("wipe").rules == ("extra.x",)


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        (rule("G !tool:a", tools=["a"]), "cannot have 'tools'"),
        (rule("G !tool:a", failed_output="x"), "cannot have 'failed_output'"),
        (rule("G !tool:a", tags={"write": ["a"]}), "already declares 'write' in text:2"),
        (rule("G !tool:a", constants={"limit": 9}), "already declares 'limit' in text:3"),
        (rule("G !tool:a", define={"small(n)": "true"}), "already declares 'small' in text:4"),
        (rule("forall(x(n=n), smal(n))"), "did you mean 'small'?"),
        (rule("G !tool:Delete"), "tool 'Delete' differs from 'delete' only in case or space"),
        ({"version": 1}, "key 'policies' is missing"),
        (5, "the rules for one task are a int"),
    ],
)
def test_rules_that_would_change_the_policy_are_refused(base: Policies, extra: Any, says: str) -> None:
    """They can only restrict."""
    with pytest.raises(InputError) as caught:
        base.session(extra=extra)
    assert says in str(caught.value)


@pytest.mark.parametrize("more", [{"labels": {"trusted": "web"}}, {"labels": {"new": "web"}}, {"ids": ["[a-z]"]}])
def test_an_added_file_gives_no_label_to_the_sources_of_the_policy(more: Any) -> None:
    """It could make a source trusted, or known. Without rules about sources it may have labels of its own."""
    sources = rule('forall(send(to=r), "trusted" in sources(r))', labels={"trusted": "contacts"})
    with pytest.raises(InputError, match="rules for one task cannot have"):
        load_policies(data=sources).session(extra=rule("G !tool:wipe", **more))
    own = rule('forall(send(to=r), "own" in sources(r))', labels={"own": "contacts"})
    assert load_policies(data=rule("G !tool:wipe")).session(extra=own).check("send", {"to": "eve@e.com"}).label == 1


def test_an_added_rule_does_not_list_a_tool() -> None:
    """`unlisted: deny` of the policy still denies a tool that only the added rules mention."""
    base = load_policies(text=BASE + "unlisted: deny\n")
    extra = rule("forall(wipe(n=n), n > 0)", unlisted="allow")
    session = base.session(extra=extra)
    assert session.check("wipe", {"n": 1}).label == 1
    assert session.check("send").label == 0


def test_an_added_file_can_deny_unlisted_calls(base: Policies) -> None:
    """The task is restricted to the tools of both."""
    session = base.session(extra=rule("G !tool:wipe", unlisted="deny"))
    assert session.check("read").label == 1
    assert session.check("send").label == 0


def test_a_snapshot_needs_the_same_rules(base: Policies) -> None:
    """Otherwise a restart would drop them."""
    snapshot = base.session(extra=EXTRA).snapshot(KEY)
    for extra in (None, rule("G !tool:wipe")):
        with pytest.raises(InputError, match="belongs to another policy"):
            base.restore(snapshot, KEY, extra=extra)
    session = base.restore(snapshot, KEY, extra=EXTRA)
    assert session.check("delete", {"n": 1}).rules == ("extra.read",)


def test_a_guard_has_rules_for_each_conversation(base: Policies) -> None:
    """An escalation by an added rule can be approved; a snapshot of the guard keeps its rules."""
    ask = rule("forall(read(n=n), n < 3)")
    ask["policies"][0]["on_violation"] = "escalate"
    guard = ToolGuard(base, extra=lambda name: ask if name == "careful" else None, ledger=MemoryLedger())
    call = HostCall("read", {"n": 5}, "careful", id="1")
    assert guard.before(call).decision is Decision.ESCALATE
    assert guard.before(HostCall("read", {"n": 5}, "other", id="1")).label == 0
    snapshot = guard.session("careful").snapshot(KEY)
    again = ToolGuard(base, extra=lambda _: ask)
    again.restore(snapshot, KEY)
    assert again.before(call).rules == ("extra.x",)
    with pytest.raises(InputError, match="another policy"):
        ToolGuard(base).restore(snapshot, KEY)


def test_a_held_version_that_does_not_fit_the_added_rules_denies_no_other(tmp_path: Path) -> None:
    """The conversations of a ledger continue under the version that they began with."""
    path, ledger = tmp_path / "p.yaml", SqliteLedger(tmp_path / "l.db")
    path.write_text(BASE.replace("constants: {limit: 5}", "constants: {limit: 5, old: 5}"))
    policies, extra = load_policies(path), rule("forall(read(n=n), n < limit)", constants={"old": 1})
    path.write_text(BASE)
    policies.reload()
    for at in range(2):
        guard = ToolGuard(policies, extra=lambda _: extra, ledger=ledger)
        assert guard.before(HostCall("other", {}, "c", id=str(at))).errors == ()


def test_equal_rules_are_compiled_once(base: Policies) -> None:
    """A server starts a session for each request."""
    assert base.with_extra(EXTRA) is base.with_extra(EXTRA)
    for at in range(100):
        base.with_extra(rule(f"G !tool:t{at}"))
    assert base.with_extra(EXTRA).ids == ("first", "once", "extra.task", "extra.read")


def test_added_rules_run_only_locked_code(write: Write) -> None:
    """The lock file of the policy holds for their functions too."""
    lock = write("g.lock", "")
    path = write("p.yaml", BASE)
    lock.write_text(Lock.of(policy_contents(path), lock).to_json())
    function = write("f.py", "def f(n):\n    'A number.'\n    return n\n")
    base = load_policies(path, locked=lock)
    assert base.session(extra=rule("G !tool:wipe")).check("wipe").rules == ("extra.x",)
    with pytest.raises(InputError, match="is not in the lock file"):
        base.session(extra=rule("forall(x(n=n), f(n) == 1)", toolbox=str(function)))
