"""Reports on rules: numbers by day from the log and from approvals, rules without any, times, and exports."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from guardagent.log import AuditLog
from guardagent.log.chain import Entry
from guardagent.server.service.reports import COUNTED, LogCounts, as_csv, report_rows
from guardagent.server.service.stores import LogQueries
from tests.server.servers import LocalServer, local_server, local_settings

SLOW = """\
  - id: whole
    request: refunds are of whole amounts
    program: program.py
"""
PROGRAM = """\
def check(agent_input, agent_output, facts):
    numbers = [number * number for number in range(20000)]
    return {"label": 0, "reasons": [], "details": {}, "answer": agent_output}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    with local_server(tmp_path, "shop") as running_server:
        yield running_server


def _numbers(server: LocalServer, days: int = 7) -> dict[str, dict[str, int]]:
    rows = report_rows(server.service.rules.report("shop", "default", days))
    return {row["rule"]: {name: row[name] for name in COUNTED if row[name]} for row in rows}


def _wants(server: LocalServer, session: str) -> dict[str, Any]:
    agent = server.client()
    agent.session(session)
    agent.run(session, "c1", "login", user="ann")
    approval: dict[str, Any] = agent.check(session, "c2", "refund", order="a", amount=900)["approval"]
    return approval


def test_denials_escalations_and_answers_count_by_rule(server: LocalServer) -> None:
    approver = server.client("shop.approver")
    for session, choice in (("s1", "approve"), ("s2", "reject"), ("s3", "")):
        approval = _wants(server, session)
        if choice:
            approver.post(f"/v1/approvals/{approval['id']}/answer", {"choice": choice, "version": 1, "reason": "no"})
    numbers = _numbers(server)
    assert numbers == {"small_refunds": {"escalated": 3, "approved": 1, "rejected": 1}}
    report = server.service.rules.report("shop", "default", 7)
    assert report["never"] == ["login_first", "once", "receipt"]
    assert report["days"][-1] == datetime.now(UTC).date().isoformat()
    assert len(report["days"]) == 7


def test_what_comes_later_is_added_once(server: LocalServer) -> None:
    agent = server.client()
    for at in range(3):
        agent.session(f"s{at}")
        agent.check(f"s{at}", "c1", "refund", order="a", amount=1)
        assert _numbers(server) == {"login_first": {"denied": at + 1}} == _numbers(server)


def test_an_obligation_that_was_not_met_counts_and_a_candidate_does_not(server: LocalServer, tmp_path: Path) -> None:
    agent, admin = server.client(), server.client("shop.admin")
    text = (tmp_path / "policies.yaml").read_text().replace("a <= 100", "a <= 1")
    admin.post("/v1/policies/default/shadow", {"text": text})
    agent.session("s1")
    agent.run("s1", "c1", "login", user="ann")
    agent.run("s1", "c2", "refund", order="a", amount=60)
    agent.post("/v1/sessions/s1/finish", {})
    assert "shadow" in {entry["kind"] for entry in server.client("shop.auditor").get("/v1/log")["entries"]}
    assert set(_numbers(server)) == {"receipt"}


def test_a_rule_that_could_not_be_checked_counts(server: LocalServer) -> None:
    """A call that it denied as unknown is no call on which it did nothing."""
    agent = server.client()
    agent.session("s1")
    agent.run("s1", "c1", "login", user="ann")
    agent.check("s1", "c2", "refund", order="a", amount="all of it")
    assert _numbers(server) == {"small_refunds": {"unknown": 1}}
    assert "small_refunds" not in server.service.rules.report("shop", "default", 7)["never"]


def test_another_policy_of_the_tenant_has_its_own_numbers(tmp_path: Path) -> None:
    settings = local_settings(tmp_path)
    (other := tmp_path / "other.yaml").write_text("version: 1\npolicies:\n  - {id: none, temporal: G(!tool:refund)}\n")
    settings = type(settings).of_files(tmp_path / "policies.yaml", state=settings.state)
    settings.policies["other"] = type(settings.policies["default"])((other,))  # type: ignore[index]
    with local_server(tmp_path, "shop", settings=settings) as server:
        agent = server.client()
        agent.session("s1", policy="other")
        agent.check("s1", "c1", "refund", order="a", amount=1)
        assert _numbers(server) == {}
        assert server.service.rules.report("shop", "other", 7)["never"] == []


class _Log:
    """A log of which only some entries are read."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, day: str, **fields: Any) -> None:
        fields = {"rules": ["r"], **fields, "decision": "deny", "kind": "verdict", "policy": "p"}
        fields["time"] = f"{day}T00:00:00.000Z"
        text = json.dumps(fields, separators=(",", ":"))
        self.entries.append(Entry(len(self.entries) + 1, text, "", ""))

    def newest(self, _tenant: str, after: int) -> Iterator[Entry]:
        return iter([entry for entry in reversed(self.entries) if entry.seq > after][:3])


def test_what_lies_before_a_gap_does_not_count() -> None:
    log, counts = _Log(), LogCounts()
    for day in ("2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04", "2026-01-05"):
        log.add(day)
    queries = cast("LogQueries", log)
    counts.read(queries, "shop")
    assert (counts.first, counts.since[:10], counts.counts.total()) == (3, "2026-01-03", 3)
    log.add("2026-01-06")
    counts.read(queries, "shop")
    assert (counts.first, counts.since[:10], counts.counts.total()) == (3, "2026-01-03", 4)
    for _ in range(4):
        log.add("2026-01-07")
    counts.read(queries, "shop")
    assert (counts.first, counts.since[:10], counts.counts.total()) == (8, "2026-01-07", 3)


def test_an_error_counts_for_its_rule_whatever_the_id() -> None:
    log, counts = _Log(), LogCounts()
    log.add("2026-01-01", rules=[], errors=["daily: limit: the counter is unknown"])
    counts.read(cast("LogQueries", log), "shop", ["daily", "daily: limit"])
    assert list(counts.counts) == [("p", "daily: limit", "2026-01-01", "unknown")]


def test_a_slow_rule_is_first_and_its_time_is_its_own(tmp_path: Path) -> None:
    settings = local_settings(tmp_path)
    path = tmp_path / "policies.yaml"
    path.write_text(path.read_text() + SLOW)
    (tmp_path / "program.py").write_text(PROGRAM)
    with local_server(tmp_path, "shop", settings=type(settings).of_files(path, state=settings.state)) as server:
        agent = server.client()
        agent.session("s1")
        for at in range(3):
            agent.check("s1", f"c{at}", "refund", order="a", amount=1)
        times = server.service.rules.report("shop", "default", 7)["times"]
    assert next(iter(times)) == "whole"
    assert len(times["whole"]) == 2
    assert min(times["whole"]) > max(times["small_refunds"])


def test_a_log_that_hides_arguments_is_not_measured(tmp_path: Path) -> None:
    with local_server(tmp_path, "shop") as server:
        digest = server.service.policies.current("default").digest
        entry = {"kind": "verdict", "tool": "refund", "policy": digest, "decision": "deny", "rules": ["gone"]}
        with AuditLog(tmp_path / "state" / "log" / "shop.db", redact=["args"]) as log:
            for _ in range(3):
                log.append({**entry, "args": {"amount": 5}})
        report = server.service.rules.report("shop", "default", 7)
    assert (report["times"], report["removed"]) == ({}, ["gone"])


def test_calls_whose_values_the_log_cuts_are_measured(tmp_path: Path) -> None:
    with local_server(tmp_path, "shop") as server:
        large = {"a": ["x" * 1000] * 100, "amount": 5}
        entry = {"kind": "verdict", "tool": "refund", "label": 0, "decision": "allow", "rules": [], "action": None}
        entry |= {"policy": server.service.policies.current("default").digest, "principal": large, "facts": large}
        with AuditLog(tmp_path / "state" / "log" / "shop.db") as log:
            for args in ({"amount": 5}, {"amount": ["x"]}, {"order": "x" * 9000}, large):
                log.append({**entry, "args": args, "tags": ["a"], "agent": "x"})
        times = server.service.rules.report("shop", "default", 7)["times"]
    assert len(times["small_refunds"]) == 2, "the first and the one without arguments do not count"


def test_no_cell_is_a_formula() -> None:
    numbers = dict.fromkeys(COUNTED, 1)
    rows = [{"day": "2026-01-01", "policy": "@p", "rule": rule, **numbers} for rule in ("=1+1", "+1", "-1", "plain")]
    table = list(csv.DictReader(io.StringIO(as_csv(rows))))
    assert [row["rule"] for row in table] == ["'=1+1", "'+1", "'-1", "plain"]
    assert {row["policy"] for row in table} == {"'@p"}
    assert table[0]["denied"] == "1"
