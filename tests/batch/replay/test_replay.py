"""A replay compares a candidate with a log as a guard has written it, and says what the log leaves open."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guardagent.batch.replay import replay
from guardagent.batch.replay.conversation import load_replay_policy
from guardagent.enforcement import ToolGuard
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.log import AuditLog, outcome_record, verdict_record
from guardagent.types import Decision, Verdict
from tests.conftest import Cli
from tests.log.logs import SUFFIXES

OLD = """\
version: 1
policies:
- {id: login, temporal: "G(tool:pay -> O tool:login)"}
- {id: small, temporal: "forall(pay(n=n), n <= 100)", on_violation: escalate}
"""
DONE, FAILED, RUNNING = Outcome("done"), Outcome("no", failed=True), None


class Shop:
    """A guard with a log, whose calls run at once."""

    def __init__(self, folder: Path, policy: str = OLD, suffix: str = ".jsonl", **options: Any) -> None:
        self.folder, self.log_path, self.number = folder, folder / f"audit{suffix}", 0
        self.log = AuditLog(self.log_path, **options)
        self.guard = ToolGuard(self.policy("old", policy), log=self.log)

    def policy(self, name: str, text: str) -> Path:
        path = self.folder / f"{name}.yaml"
        path.write_text(text)
        return path

    def call(
        self, conversation: str, tool: str, outcome: Outcome | None = DONE, answer: str = "", **args: Any
    ) -> HostCall:
        self.number += 1
        call = HostCall(tool, args, conversation, id=f"call {self.number}")
        verdict = self.guard.before(call)
        if verdict.decision is Decision.ESCALATE and answer:
            verdict = self.guard.resolve(call, {"choice": answer, "of": call.digest})
        if verdict.label == 0:
            self.guard.use(call)
            if outcome is not None:
                self.guard.after(call, outcome)
        return call


@pytest.fixture
def rows(cli: Cli) -> Callable[..., tuple[int, dict[str, dict[str, Any]], str]]:
    """Runs the command: the exit status, the rows by rule, and standard error."""

    def run(*arguments: object) -> tuple[int, dict[str, dict[str, Any]], str]:
        done = cli("replay", *arguments, "--json")
        records = [json.loads(line) for line in done.out.splitlines()]
        return done.status, {record["rule"]: record for record in records}, done.err

    return run


def changed(text: str, *more: str) -> str:
    return text + "".join(f"- {rule}\n" for rule in more)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_policy_gives_no_difference(tmp_path: Path, rows: Any, suffix: str) -> None:
    """Interleaved conversations, denials, approvals, rejections, failures, calls in flight, and ends."""
    shop = Shop(tmp_path, suffix=suffix)
    shop.call("b", "pay", n=1)  # denied: no login
    shop.call("a", "login")
    shop.call("b", "login", FAILED)
    shop.call("b", "pay", n=1)  # denied: the login failed
    shop.call("a", "pay", n=500, answer="approve")
    shop.call("a", "pay", n=501, answer="reject")
    shop.call("a", "pay", n=502)
    shop.call("a", "pay", RUNNING, n=3)
    shop.call("b", "login", RUNNING)
    shop.call("b", "pay", n=2)  # denied: the login is in flight
    shop.guard.end("a")
    shop.call("a", "pay", n=1)  # denied: another conversation
    status, by_rule, err = rows(shop.log_path, "--policies", tmp_path / "old.yaml")
    assert (status, {rule: (row["differs"], row["undecidable"]) for rule, row in by_rule.items()}) == (
        0,
        {"login": (0, 0), "small": (0, 0)},
    ), err
    assert "0 differ, 0 undecidable; 1 denied by the guard itself" in err
    assert rows(shop.log_path, "-p", tmp_path / "old.yaml", "--against", tmp_path / "old.yaml")[0] == 0


def test_differences_are_listed_by_rule_with_an_example(tmp_path: Path, rows: Any, cli: Cli) -> None:
    shop = Shop(tmp_path)
    shop.call("a", "pay", n=1)
    shop.call("a", "login")
    shop.call("a", "pay", n=60)
    shop.call("a", "pay", n=70, answer="approve")
    new = OLD.replace("n <= 100", "n <= 50").replace("- {id: login", "- {id: sign_in")
    new = changed(new, '{id: end, temporal: "after(pay(n=n), true, receipt(), true)"}')
    shop.guard.end("a")
    path = shop.policy("new", new)
    for options in ([], ["--against", tmp_path / "old.yaml"]):
        status, by_rule, _ = rows(shop.log_path, "-p", path, *options)
        assert status == 1
        assert {rule: (row["differs"], row["changes"]) for rule, row in by_rule.items()} == {
            "sign_in": (1, {"allow -> deny": 1}),
            "login": (1, {"deny -> allow" if options else "violated -> allow": 1}),
            "small": (2, {"allow -> escalate": 2}),
            "end": (1, {"allow -> deny": 1}),
        }
        example = by_rule["small"]["example"]
        assert (example["conversation"], example["call_id"], example["args"]) == ("a", "call 3", {"n": 60})
        assert "n (60) <= 50" in example["reason"]
    text = cli("replay", shop.log_path, "-p", path).out
    assert "small: 2 x allow -> escalate" in text
    assert 'for example pay({"n": 60}) in a, entry 4: allow -> escalate' in text


def test_only_a_rule_that_reads_a_hidden_value_is_undecidable(tmp_path: Path, rows: Any) -> None:
    """Not even whether the value is known can be said. A rule that holds in any case is decided."""
    shop = Shop(tmp_path, redact=["args.card", "output.token"])
    shop.call("a", "login", Outcome({"token": "t-123456", "user": "u"}))
    shop.call("a", "pay", n=1, card="4111-1111", note="x" * 9000)
    path = shop.policy(
        "new",
        changed(
            OLD,
            "{id: card, temporal: \"forall(pay(card=c), c != '4112')\"}",
            '{id: known, temporal: "forall(pay(card=c), known(c))"}',
            "{id: either, temporal: \"forall(pay(card=c, n=n), n < 5 || c == '4112')\"}",
            '{id: long, temporal: "forall(pay(note=t), t matches /x*/)"}',
            "{id: token, temporal: \"before(pay(n=n), true, f:login(), output(f).token == 't')\"}",
            "{id: user, temporal: \"before(pay(n=n), true, f:login(), output(f).user == 'u')\"}",
            "{id: fact, temporal: \"forall(pay(n=n), fact(role) == 'x')\"}",
            '{id: state, temporal: "forall(pay(n=n), state.open == true)"}',
        ),
    )
    status, by_rule, err = rows(shop.log_path, "-p", path)
    hidden = {"card", "known", "long", "token", "fact", "state"}
    assert {rule for rule, row in by_rule.items() if row["undecidable"]} == hidden
    assert not any(row["differs"] for row in by_rule.values())
    assert (status, "1 undecidable" in err) == (3, True)
    declared = rows(shop.log_path, "-p", path, "--facts", '{"role": "x"}')[1]
    assert (declared["fact"]["undecidable"], declared["fact"]["differs"]) == (0, 0)
    assert rows(shop.log_path, "-p", path, "--facts", "{}")[1]["fact"]["changes"] == {"allow -> unknown": 1}


def test_a_known_difference_counts_beside_an_undecidable_rule(tmp_path: Path, rows: Any) -> None:
    shop = Shop(tmp_path, redact=["args.card"])
    shop.call("a", "login")
    shop.call("a", "pay", n=60, card="4111")
    new = changed(OLD.replace("100", "50"), "{id: card, temporal: \"forall(pay(card=c), c == '4112')\"}")
    status, by_rule, err = rows(shop.log_path, "-p", shop.policy("new", new))
    assert (status, by_rule["small"]["differs"], by_rule["card"]["undecidable"]) == (1, 1, 1)
    assert "1 same, 1 differ, 0 undecidable" in err


@pytest.mark.parametrize("step", ['H !login(user="admin")', 'O login(user="admin")'])
def test_a_hidden_argument_of_an_earlier_step(tmp_path: Path, rows: Any, step: str) -> None:
    """It leaves a rule about the order of steps open."""
    shop = Shop(tmp_path, redact=["args.user"])
    shop.call("a", "login", user="admin")
    shop.call("a", "pay", n=1)
    new = changed(OLD, f"{{id: step, temporal: 'G(tool:pay -> {step})'}}")
    status, by_rule, _ = rows(shop.log_path, "-p", shop.policy("new", new))
    assert (status, by_rule["step"]["undecidable"], by_rule["step"]["differs"]) == (3, 1, 0)


def test_a_mark_in_the_arguments_is_no_redaction(tmp_path: Path, rows: Any) -> None:
    """An agent cannot make a value look hidden: the log escapes such arguments."""
    shop = Shop(tmp_path)
    shop.call("a", "login")
    shop.call("a", "pay", n=1, card={"redacted": "hmac-sha256:00"})
    new = changed(OLD, "{id: card, temporal: \"forall(pay(card=c), c.redacted == 'x')\"}")
    assert rows(shop.log_path, "-p", shop.policy("new", new))[1]["card"]["changes"] == {"allow -> deny": 1}


def test_names_beyond_the_rules_are_compared(tmp_path: Path, rows: Any) -> None:
    """Undeclared tools and `unlisted: deny` belong to no rule; an alias gives a tool its name in the rules."""
    shop = Shop(tmp_path)
    shop.call("a", "log_in")
    strict = OLD.replace("version: 1", "version: 1\nunlisted: deny")
    path = shop.policy("new", strict)
    assert rows(shop.log_path, "-p", path)[1]["(no rule)"]["changes"] == {"allow -> deny": 1}
    assert rows(shop.log_path, "-p", path, "--alias", "log_in=login")[0] == 0


def test_labels_of_a_call_are_in_the_log(tmp_path: Path, rows: Any) -> None:
    shop = Shop(tmp_path)
    for number, tags in enumerate([frozenset[str](), frozenset({"night"})]):
        call = HostCall("send", {}, "a", id=f"c{number}", tags=tags, action="mail")
        assert shop.guard.before(call).label == 0
    new = changed(OLD, '{id: night, temporal: "G !night"}', '{id: mail, temporal: "G !action:mail"}')
    row = rows(shop.log_path, "-p", shop.policy("new", new))[1]
    assert (row["night"]["differs"], row["mail"]["differs"]) == (1, 2)


def test_an_interrupted_call_stays_in_flight(tmp_path: Path, rows: Any) -> None:
    """It may have run, so it counts against a limit."""
    shop = Shop(tmp_path)
    shop.call("a", "login")
    shop.call("a", "pay", Outcome("cancelled", failed=None, ended=False), n=1)
    shop.call("a", "pay", n=2)
    once = '{id: once, temporal: "forall(pay(n=n), count(f:pay(), !failed(f)) < 1)"}'
    row = rows(shop.log_path, "-p", shop.policy("new", changed(OLD, once)))[1]
    assert (row["once"]["changes"], row["once"]["undecidable"]) == ({"allow -> deny": 1}, 0)


def test_whether_a_call_in_flight_had_begun_is_not_in_the_log(tmp_path: Path, rows: Any) -> None:
    """A call that has not begun can be withdrawn, so the second one is allowed only if the first one had begun."""
    shop = Shop(tmp_path, policy=OLD.replace("G(tool:pay -> O tool:login)", "G !tool:wipe"))
    shop.call("a", "pay", RUNNING, n=1)
    shop.call("a", "ship", n=1)
    rule = '{id: paid, temporal: "forall(ship(n=n), count(f:pay()) > 0)"}'
    row = rows(shop.log_path, "-p", shop.policy("new", changed(OLD.replace("O tool:login", "true"), rule)))[1]
    assert (row["paid"]["differs"], row["paid"]["undecidable"]) == (0, 1)
    assert "had begun" in row["paid"]["undecidable_because"]


def test_a_weaker_response_is_a_difference(tmp_path: Path, rows: Any) -> None:
    shop = Shop(tmp_path, policy=OLD.replace(", on_violation: escalate", ""))
    shop.call("a", "login")
    shop.call("a", "pay", n=500)
    new = shop.policy("new", OLD.replace("escalate", "warn"))
    assert rows(shop.log_path, "-p", new)[1]["small"]["changes"] == {"deny -> warn": 1}


def test_a_candidate_calls_no_model(tmp_path: Path, rows: Any) -> None:
    shop = Shop(tmp_path)
    shop.call("a", "login")
    new = shop.policy("new", changed(OLD, "{id: polite, request: no rude words}"))
    status, by_rule, _ = rows(shop.log_path, "-p", new)
    assert (status, by_rule["polite"]["undecidable"]) == (3, 1)
    assert "model" in by_rule["polite"]["undecidable_because"]


def test_calls_keep_their_time_and_principal(tmp_path: Path, rows: Any) -> None:
    """The log has both; counters across conversations are not replayed."""
    shop = Shop(tmp_path, clock=lambda: 12 * 3600.0)
    shop.call("a", "login")
    shop.call("a", "pay", n=1)
    late = shop.policy("late", changed(OLD, "{id: noon, temporal: 'forall(pay(), hour(now, \"UTC\") > 12)'}"))
    assert rows(shop.log_path, "-p", late)[1]["noon"]["differs"] == 1
    early = shop.policy("early", changed(OLD, "{id: noon, temporal: 'forall(pay(), hour(now, \"UTC\") == 12)'}"))
    assert rows(shop.log_path, "-p", early)[0] == 0
    owner = shop.policy("owner", changed(OLD, "{id: owner, temporal: 'forall(pay(), principal.id == \"ann\")'}"))
    assert rows(shop.log_path, "-p", owner)[1]["owner"]["differs"] == 1
    counted = OLD.replace("policies:", "counters: {paid: {on: pay(n=n), sum: n}}\npolicies:")
    counted = changed(counted, "{id: total, temporal: 'forall(pay(n=n), counter(paid) + n <= 9)'}")
    assert rows(shop.log_path, "-p", shop.policy("counted", counted))[1]["total"]["undecidable"] == 1


def test_a_log_that_lacks_earlier_calls(tmp_path: Path, rows: Any) -> None:
    """A conversation that was restored from a snapshot: only rules that look back are undecidable."""
    shop = Shop(tmp_path)
    session = shop.guard.policies.session(id="r")
    session.check("login")
    session.record("ok")
    shop.guard.restore(session.snapshot(b"sixteen bytes or more"), b"sixteen bytes or more")
    shop.call("r", "pay", n=60)
    status, by_rule, _ = rows(shop.log_path, "-p", shop.policy("new", OLD.replace("100", "50")))
    assert (status, by_rule["login"]["undecidable"], by_rule["small"]["differs"]) == (1, 1, 1)


def test_conversations_with_hidden_names(tmp_path: Path, rows: Any) -> None:
    """With a key they can be told apart; without one nothing can be said."""
    for key, status in ((b"sixteen bytes or more", 0), (None, 3)):
        folder = tmp_path / str(status)
        folder.mkdir()
        shop = Shop(folder, redact=["conversation"], key=key)
        for name in ("a", "b"):
            shop.call(name, "login")
            shop.call(name, "pay", n=1)
        (folder / "key").write_bytes(key or b"sixteen bytes or more")
        assert rows(shop.log_path, "-p", folder / "old.yaml", "--key-file", folder / "key")[0] == (status if key else 2)
        if key is None:
            assert rows(shop.log_path, "-p", folder / "old.yaml")[0] == status


def test_a_changed_log_is_refused(tmp_path: Path, rows: Any) -> None:
    shop = Shop(tmp_path)
    shop.call("a", "login")
    shop.call("a", "pay", n=60)
    text = shop.log_path.read_text()
    shop.log_path.write_text(text.replace('"n":60', '"n":40'))
    assert rows(shop.log_path, "-p", tmp_path / "old.yaml")[0] == 2
    shop.log_path.write_text("not a log\n")
    assert rows(shop.log_path, "-p", tmp_path / "old.yaml")[0] == 2
    assert rows(tmp_path / "none.db", "-p", tmp_path / "old.yaml")[0] == 2


def test_records_of_a_host_without_permits(tmp_path: Path, rows: Any) -> None:
    """An outcome belongs to the call with its id, or else to the last one of its tool."""
    (tmp_path / "old.yaml").write_text(OLD)
    with AuditLog(tmp_path / "a.jsonl") as log:
        for tool, status in (("login", "ok"), ("pay", "ok")):
            verdict = Verdict(Decision.ALLOW)
            log.append(verdict_record(verdict, tool=tool, args={"n": 1}, conversation="c"))
            log.append(outcome_record(tool=tool, status=status, conversation="c"))  # type: ignore[arg-type]
    assert rows(tmp_path / "a.jsonl", "-p", tmp_path / "old.yaml")[0] == 0


def test_traces_need_another_policy(tmp_path: Path, rows: Any) -> None:
    (tmp_path / "old.yaml").write_text(OLD)
    (tmp_path / "new.yaml").write_text(OLD.replace("100", "50"))
    events = [{"tool": "login", "args": {}, "failed": False}, {"tool": "pay", "args": {"n": 60}, "failed": False}]
    traces = tmp_path / "t.jsonl"
    traces.write_text(json.dumps({"id": "t", "events": events}) + "\n")
    status, by_rule, _ = rows(traces, "-p", tmp_path / "new.yaml", "--against", tmp_path / "old.yaml")
    assert (status, by_rule["small"]["changes"], by_rule["small"]["example"]["event"]) == (
        1,
        {"allow -> escalate": 1},
        1,
    )
    assert rows(traces, "-p", tmp_path / "new.yaml", "--against", tmp_path / "new.yaml")[0] == 0
    assert rows(traces, "-p", tmp_path / "new.yaml")[0] == 2
    traces.write_text(traces.read_text() + "{\n")
    assert rows(traces, "-p", tmp_path / "new.yaml", "--against", tmp_path / "new.yaml")[0] == 2


def test_a_log_can_grow_meanwhile(tmp_path: Path) -> None:
    """Entries that are appended during a replay are left to the next one."""
    shop = Shop(tmp_path)
    shop.call("a", "login")
    policy = load_replay_policy(tmp_path / "old.yaml")

    def append(done: int, _total: int) -> None:
        shop.call(f"b{done}", "pay", n=1)

    report = replay(shop.log_path, policy, progress=append)
    assert (report.conversations, report.table.calls) == (1, 1)
    assert replay(shop.log_path, policy).conversations > 1


SCOPED = """\
version: 1
policies:
- {id: planner, temporal: "G !tool:wipe", applies_to: {agents: [AGENT]}}
- {id: admins, temporal: "forall(pay(), \\"admin\\" in principal.roles)"}
- {id: told, temporal: "tool:pay -> F tool:mail", applies_to: {roles: [guest]}}
"""


@pytest.mark.parametrize(
    ("agent", "redact", "status"), [("planner", [], 0), ("root", [], 1), ("planner", ["agent"], 3)]
)
def test_a_replay_knows_who_proposed_a_call(tmp_path: Path, agent: str, redact: list[str], status: int) -> None:
    """The agent and the principal as the session judged them, also at the end; a redacted agent is undecidable."""
    policy = SCOPED.replace("AGENT", "planner")
    (tmp_path / "old.yaml").write_text(policy)
    with AuditLog(tmp_path / "log.db", redact=redact) as log:
        ann = {"id": "ann", "roles": ["admin", "guest"]}
        guard = ToolGuard(tmp_path / "old.yaml", log=log, principal=ann)
        parts: list[Any] = [None, {"id": "helper"}, {"id": "helper", "roles": ["guest"]}]
        for call in (
            HostCall("wipe", {}, "c", agent="planner"),
            *(HostCall("pay", {}, "c", agent="planner", principal=part) for part in parts),
        ):
            if guard.before(call).label == 0:
                guard.use(call)
                guard.after(call, DONE)
        guard.end("c")
    (tmp_path / "new.yaml").write_text(policy.replace("[planner]", f"[{agent}]"))
    assert replay(tmp_path / "log.db", load_replay_policy(tmp_path / "new.yaml")).status == status


@pytest.mark.parametrize(
    ("options", "limit", "status"),
    [({}, 25, 3), ({"zone": "Asia/Tokyo"}, 25, 0), ({"zone": "Asia/Tokyo", "clock": lambda: 1_769_810_400.0}, 8, 0)],
)
def test_a_replay_reads_the_clock_of_the_session(tmp_path: Path, options: Any, limit: int, status: int) -> None:
    """It is 7 o'clock in Tokyo. The time of an entry tells neither another clock nor the zone."""
    path = tmp_path / "p.yaml"
    path.write_text(f"version: 1\npolicies: [{{id: early, temporal: 'forall(pay(), hour(now) < {limit})'}}]\n")
    with AuditLog(tmp_path / "log.db") as log:
        guard = ToolGuard(path, log=log, **options)
        assert guard.before(HostCall("pay", {}, "c")).label == (0 if options else 1)
    assert replay(tmp_path / "log.db", load_replay_policy(path)).status == status


def test_conversations_can_be_selected_by_any_of_their_entries(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    for name, amount in (("a", 50), ("b", 90)):
        shop.call(name, "login")
        shop.call(name, "pay", n=amount)
    shop.log.close()
    new = load_replay_policy(shop.policy("new", OLD.replace("100", "10")))
    report = replay(shop.log_path, new, selects=lambda fields: fields.get("args") == {"n": 90})
    assert report.conversations == 1
    assert [(call["args"], call["before"], call["after"]) for call in report.table.changed] == [
        ({"n": 90}, "allow", "escalate")
    ], "with the earlier login"
    assert replay(shop.log_path, new, selects=lambda _: False).conversations == 0
